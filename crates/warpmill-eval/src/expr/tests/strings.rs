use arrow::array::StringArray;

use warpmill_ir::scalar::case;

use super::*;

const WORDS: [Option<&str>; 12] = [
    Some(""),
    Some("a"),
    Some("abc"),
    Some("special requests"),
    Some("xspecialyrequestsz"),
    Some("Größe_%"),
    Some("ab\ncd"),
    None,
    Some("ABCabc"),
    Some("100% sure"),
    Some("日本語テキスト"),
    Some("aXbXc\\d"),
];

fn like(pattern: &str, case_insensitive: bool, negated: bool) -> Expr {
    let input = col(0, DataType::Utf8).into();
    expr(ExprKind::Like { input, pattern: pattern.into(), escape: None, case_insensitive, negated }, DataType::Boolean)
}

#[test]
fn like_agrees_with_arrow() {
    let patterns = [
        "",
        "%",
        "%%",
        "a",
        "a%",
        "%c",
        "%b%",
        "a%c",
        "%special%requests%",
        "_",
        "___",
        "%_",
        "_b%",
        "%本_テ%",
        "Gr__e%",
        "%\\%%",
        "%\\_%",
        "a%b%c%",
        "%\\\\%",
        "%x%x%",
        "AB%",
        "ABC%C",
        "%ö%",
        "abc\\",
    ];
    let array = StringArray::from(WORDS.to_vec());
    for pattern in patterns {
        let scalar = StringArray::new_scalar(pattern);
        for (case_insensitive, kernel) in [
            (false, arrow::compute::like(&array, &scalar).unwrap()),
            (true, arrow::compute::ilike(&array, &scalar).unwrap()),
        ] {
            let expected: Vec<_> = kernel.iter().collect();
            let result = eval(&like(pattern, case_insensitive, false), &[texts(&WORDS)]).unwrap();
            assert_eq!(rows::<bool>(&result), expected, "{pattern} {case_insensitive}");
            let negated = eval(&like(pattern, case_insensitive, true), &[texts(&WORDS)]).unwrap();
            assert_eq!(rows::<bool>(&negated), expected.iter().map(|v| v.map(|v| !v)).collect::<Vec<_>>());
        }
    }
    let kind = ExprKind::Like {
        input: col(0, DataType::Utf8).into(),
        pattern: "%x%%".into(),
        escape: Some('x'),
        case_insensitive: false,
        negated: false,
    };
    assert_eq!(select(&expr(kind, DataType::Boolean), &[texts(&WORDS)]), [5, 9]);
}

fn string(function: Function, args: Vec<Expr>) -> Vec<Option<&'static str>> {
    let args = [col(0, DataType::Utf8)].into_iter().chain(args).collect();
    strings(&eval(&call(function, args, DataType::Utf8), &[texts(&WORDS)]).unwrap())
}

fn each(f: impl Fn(&str) -> String) -> Vec<Option<String>> {
    WORDS.iter().map(|word| word.map(&f)).collect()
}

#[track_caller]
fn same(result: Vec<Option<&str>>, expected: Vec<Option<String>>) {
    assert_eq!(result, expected.iter().map(|v| v.as_deref()).collect::<Vec<_>>());
}

#[test]
fn substrings_count_characters() {
    let n = |v: i64| int(v.into(), DataType::Int64);
    for start in [-3i64, 0, 1, 2, 5, 100] {
        let skipped = |s: &str| -> Vec<char> { s.chars().skip((start - 1).max(0) as usize).collect() };
        same(string(Function::Substr, vec![n(start)]), each(|s| skipped(s).iter().collect()));
        for count in [0i64, 1, 3, 7, i64::MAX] {
            let end = start.saturating_add(count);
            let expected = each(|s| {
                let numbered = s.chars().enumerate().map(|(i, c)| (i as i64 + 1, c));
                numbered.filter(|(i, _)| *i >= start && *i < end).map(|(_, c)| c).collect()
            });
            same(string(Function::Substr, vec![n(start), n(count)]), expected);
        }
    }
    let negative = call(Function::Substr, vec![col(0, DataType::Utf8), n(1), n(-1)], DataType::Utf8);
    assert!(eval(&negative, &[texts(&WORDS)]).is_err());
    for count in [-100i64, -2, -1, 0, 1, 2, 100] {
        let take = |s: &str, from_left: bool| -> String {
            let chars: Vec<char> = s.chars().collect();
            let len = chars.len() as i64;
            let kept = if count >= 0 { count.min(len) } else { (len + count).max(0) } as usize;
            let part = if from_left { &chars[..kept] } else { &chars[chars.len() - kept..] };
            part.iter().collect()
        };
        same(string(Function::Left, vec![n(count)]), each(|s| take(s, true)));
        same(string(Function::Right, vec![n(count)]), each(|s| take(s, false)));
    }
}

#[test]
fn texts_are_made_and_searched() {
    same(string(Function::Upper, vec![]), each(|s| s.to_uppercase()));
    same(string(Function::Lower, vec![]), each(|s| s.to_lowercase()));
    same(string(Function::SimpleUpper, vec![]), each(|s| case::mapped(s, true)));
    same(string(Function::SimpleLower, vec![]), each(|s| case::mapped(s, false)));
    same(string(Function::Replace, vec![text("a"), text("<>")]), each(|s| s.replace('a', "<>")));
    same(string(Function::Replace, vec![text(""), text("<>")]), each(|s| s.into()));
    same(string(Function::Trim, vec![text("ac")]), each(|s| s.trim_matches(['a', 'c']).into()));
    same(string(Function::LTrim, vec![text("ac")]), each(|s| s.trim_start_matches(['a', 'c']).into()));
    same(string(Function::RTrim, vec![]), each(|s| s.trim_end_matches(' ').into()));
    let doubled = WORDS.iter().map(|w| Some(format!("{}-{}", w.unwrap_or(""), w.unwrap_or(""))));
    same(string(Function::Concat, vec![text("-"), col(0, DataType::Utf8)]), doubled.collect());
    let number = |function, args: Vec<Expr>| {
        let args = [col(0, DataType::Utf8)].into_iter().chain(args).collect();
        rows::<i32>(&eval(&call(function, args, DataType::Int32), &[texts(&WORDS)]).unwrap())
    };
    let count = |f: &dyn Fn(&str) -> usize| WORDS.iter().map(|w| w.map(|w| f(w) as i32)).collect::<Vec<_>>();
    assert_eq!(number(Function::CharLength, vec![]), count(&|s| s.chars().count()));
    assert_eq!(number(Function::OctetLength, vec![]), count(&|s| s.len()));
    let found = |s: &str| s.find("テ").map_or(0, |at| s[..at].chars().count() + 1);
    assert_eq!(number(Function::StrPos, vec![text("テ")]), count(&found));
    let test = |function, arg: &str| {
        let args = vec![col(0, DataType::Utf8), text(arg)];
        rows::<bool>(&eval(&call(function, args, DataType::Boolean), &[texts(&WORDS)]).unwrap())
    };
    let holds = |f: &dyn Fn(&str) -> bool| WORDS.iter().map(|w| w.map(f)).collect::<Vec<_>>();
    assert_eq!(test(Function::StartsWith, "ab"), holds(&|s| s.starts_with("ab")));
    assert_eq!(test(Function::EndsWith, "c"), holds(&|s| s.ends_with('c')));
    assert_eq!(test(Function::Contains, "bc"), holds(&|s| s.contains("bc")));
}

#[test]
fn regular_expressions_match_and_replace() {
    let args = vec![col(0, DataType::Utf8), text("^a.*c"), text("i")];
    assert_eq!(select(&call(Function::RegexpLike, args, DataType::Boolean), &[texts(&WORDS)]), [2, 8, 11]);
    let replace = |pattern: &str, to: &str, flags: Option<&str>, value: &str| {
        let mut args = vec![col(0, DataType::Utf8), text(pattern), text(to)];
        args.extend(flags.map(text));
        let result =
            eval(&call(Function::RegexpReplace, args, DataType::Utf8), &[texts(&[Some(value), None])]).unwrap();
        assert_eq!(strings(&result)[1], None);
        strings(&result)[0].unwrap()
    };
    assert_eq!(replace("b(..)", "X\\1Y", Some("g"), "foobarbaz"), "fooXarYXazY");
    assert_eq!(replace("b(..)", "X\\1Y", None, "foobarbaz"), "fooXarYbaz");
    assert_eq!(replace("(b|d)", "Ab\\1a", Some("i"), "aBc"), "aAbBac");
    let host = r"^https?://(?:www\.)?([^/]+)/.*$";
    assert_eq!(replace(host, r"\1", None, "http://www.example.org/a/b"), "example.org");
    assert_eq!(replace(host, r"\1", None, "ftp://x"), "ftp://x");
    assert_eq!(replace(host, r"\1", None, "http://a/b\nc"), "http://a/b\nc");
    let bad = call(Function::RegexpLike, vec![col(0, DataType::Utf8), text("(")], DataType::Boolean);
    let error = eval(&bad, &[texts(&WORDS)]).unwrap_err().to_string();
    assert!(error.contains("invalid regular expression '('"), "{error}");
    let by_row = call(Function::RegexpLike, vec![col(0, DataType::Utf8), col(1, DataType::Utf8)], DataType::Boolean);
    let columns = [texts(&[Some("ab"), Some("ab"), None]), texts(&[Some("^b"), Some("b$"), Some("x")])];
    assert_eq!(rows::<bool>(&eval(&by_row, &columns).unwrap()), [Some(false), Some(true), None]);
}

#[test]
fn texts_are_made_within_the_memory_limit() {
    let limited = || Arc::new(QueryMemory::new(1 << 20, false, Default::default()));
    let long = "ab".repeat(5000);
    let column = texts(&[Some(long.as_str()); 2000]);
    let with = |function, args: Vec<Expr>| call(function, args, DataType::Utf8);
    let grows = [
        with(Function::Upper, vec![col(0, DataType::Utf8)]),
        with(Function::Concat, vec![col(0, DataType::Utf8), text("x")]),
        with(Function::Replace, vec![col(0, DataType::Utf8), text("a"), text(&long)]),
        with(Function::RegexpReplace, vec![col(0, DataType::Utf8), text("a"), text(&long), text("g")]),
    ];
    for expr in grows {
        let query = limited();
        let mut worker = Worker::new(&query);
        let prepared = PreparedExpr::new(&expr).unwrap();
        let error = prepared.eval(&Chunk::from_vectors(vec![column.clone()]), &mut worker).unwrap_err();
        assert!(matches!(error, ExecError::OutOfMemory { .. }), "{expr}: {error}");
        worker.forget_texts();
        assert!(query.memory_used() <= 64 << 10, "{expr}: {}", query.memory_used());
    }
    // Strings computed by a filter are freed chunk by chunk.
    let few = Chunk::from_vectors(vec![texts(&[Some(long.as_str()); 20])]);
    let equal = compare(CompareOp::Eq, with(Function::Upper, vec![col(0, DataType::Utf8)]), text("x"));
    let (prepared, mut worker) = (PreparedExpr::new(&equal).unwrap(), Worker::new(&limited()));
    for _ in 0..1000 {
        assert_eq!(prepared.select(&few, &mut worker).unwrap(), Some(vec![]));
        worker.forget_texts();
    }
}

#[test]
fn long_replacements_agree_with_short_ones() {
    let long = "-".repeat(3000);
    for pattern in ["b", "(b|d)", "x", "^", "$", ""] {
        for (flags, replacement) in [("g", long.as_str()), ("", &long), ("g", "[\\1]"), ("g", "")] {
            let row = "abcd".repeat(200);
            let replaced = call(
                Function::RegexpReplace,
                vec![col(0, DataType::Utf8), text(pattern), text(replacement), text(flags)],
                DataType::Utf8,
            );
            let regex = regex::Regex::new(pattern).unwrap();
            let times = if flags == "g" { 0 } else { 1 };
            let expected = regex.replacen(&row, times, replacement.replace("\\1", "${1}").as_str()).into_owned();
            let found = eval(&replaced, &[texts(&[Some(row.as_str())])]).unwrap();
            assert_eq!(strings(&found), [Some(expected.as_str())], "{pattern} {flags}");
        }
    }
}
