"""Functions on NULLs, negative, empty and extreme inputs."""

from __future__ import annotations

TITLE = "Edges"

#: The rows that expressions of a kind are computed for.
ROWS = {
    "text": r"(VALUES (''), (NULL), ('abc'), ('héllo'), ('a\b%_'), (' x '), ('日本語'), ('ß'), ('%'), ('A,B,,C')) t(s)",
    "whole": "(VALUES (0), (1), (-1), (NULL), (2147483647), (-2147483648), (7)) t(x)",
    "float": "(VALUES (0.0::DOUBLE), (1.5::DOUBLE), (-2.5::DOUBLE), (NULL), ('nan'::DOUBLE), ('inf'::DOUBLE), (0.1::DOUBLE)) t(f)",
    "moment": "(VALUES (TIMESTAMP '2024-02-29 13:45:30.123456'), (TIMESTAMP '1969-12-31 23:59:59.5'), (NULL), (TIMESTAMP '0100-01-01'),"
    " (TIMESTAMP '9999-12-31 23:59:59'), (TIMESTAMP '2021-01-03'), (TIMESTAMP '2020-12-31 00:00:00.000001')) m(t)",
    "list": "(VALUES ([3,1,2]), ([]), (NULL), ([NULL]), ([NULL,5,5]), ([-1,-1,7,0])) t(l)",
    "aggregate": "(SELECT 1 AS k, x FROM range(3) r(x)) t",
    "nothing": "(SELECT 1 AS k, x FROM range(3) r(x) WHERE x > 5) t",
    "nulls": "(SELECT NULL::INTEGER AS k, NULL::INTEGER AS x FROM range(3) r(i)) t",
}

_PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond", "decade", "century",
          "millennium", "isoyear")  # fmt: skip
_AGGREGATES = ("quantile_cont(x,0.3)", "quantile_disc(x,0.3)", "mode(k)", "product(x+1)", "skewness(x)", "kurtosis(x)", "kurtosis_pop(x)",
               "entropy(x)", "sem(x)", "mad(x)", "histogram(x)", "count_if(x>1)", "arg_max(x,-x)", "arg_min(x,x)", "first(k)",
               "list(x ORDER BY x DESC)", "any_value(x ORDER BY x DESC)", "quantile_cont(x,[0.1,0.5])", "median(x)", "geomean(x+1)",
               "group_concat(x,'|' ORDER BY x)", "arg_max(x,x,2)", "approx_count_distinct(x)", "fsum(x)", "bit_xor(x)")  # fmt: skip

EXPRESSIONS = {
    "text": (
        r"s LIKE 'a\b%'", r"s LIKE '%\%'", "s LIKE s", "s LIKE '$%' ESCAPE '$'", "s ILIKE 'ABC'", "upper(s)", "lower(s)", "length(s)",
        "strlen(s)", "substring(s,-2)", "substring(s,0,2)", "substring(s,-3,2)", "substring(s,2,-1)", "substr(s,3)", "substring(s,-100,99)",
        "s[0]", "s[1]", "s[-1]", "s[2:3]", "s[-2:]", "s[:-2]", "s[5:2]", "s[0:1]", "s[-100:2]", "split_part(s,',',2)", "split_part(s,',',-1)",
        "split_part(s,',',0)", "split_part(s,'',1)", "string_split(s,',')", "string_split(s,'')", "string_split_regex(s,'[,b]')",
        "regexp_matches(s,'l+')", r"regexp_matches(s,'\d')", "regexp_matches(s,'^$')", "regexp_replace(s,'[a-c]','X','g')",
        r"regexp_replace(s,'(.)','<\1>')", "regexp_replace(s,'','-','g')", "regexp_extract(s,'(.)b',1)", "regexp_extract_all(s,'.')",
        "regexp_full_match(s,'.*')", "s ~ 'abc'", "s !~ 'a.*'", "ascii(s)", "ord(s)", "unicode(s)", "hex(s)", "base64(encode(s))",
        "from_base64(base64(encode(s)))", "unhex(hex(s))", "bin(s)", "levenshtein(s,'abd')", "damerau_levenshtein(s,'bac')",
        "jaro_similarity(s,'abcd')", "jaro_winkler_similarity(s,'abcd')", "url_encode(s)", "url_decode(url_encode(s))",
        "format('{}|{:>8}|{:<5}|{:^7}|{:.1}',s,s,s,s,s)", "printf('%s|%8s|%-5s|%.2s',s,s,s,s)", "parse_path(s)", "parse_filename(s)",
        "s GLOB '*b*'", "starts_with(s,'')", "contains(s,'')", "prefix(s,'a')", "md5(s)", "repeat(s,2)", "left(s,-1)", "right(s,-1)",
        "left(s,2)", "lpad(s,4,'xy')", "rpad(s,2,'z')", "reverse(s)", "translate(s,'ab','c')", "replace(s,'','x')", "to_json(s)",
        "[s]::VARCHAR", "{'a':s}::VARCHAR", "trim(s)", "trim(s,'a ')", "instr(s,'b')", "concat(s,s)", "s^@'a'", "regexp_escape(s)",
    ),
    "whole": (
        "x^2", "2*x^2", "x%3", "x//2", "mod(x,3)", "hex(x)", "bin(x)", "bit_count(x)", "sign(x)", "even(x)", "printf('%d|%5d|%-5d|%05d|%x|%+d',x,x,x,x,x,x)",
        "format('{}|{:05d}|{:,}|{:x}|{:+}|{:>6}',x,x,x,x,x,x)", "if(x>0,'p','n')", "ifnull(x,5)", "to_days(x)::VARCHAR", "to_seconds(x)::VARCHAR",
        "to_hours(x % 1000)::VARCHAR", "xor(x,5)", "format_bytes(x)", "epoch_ms(x)", "to_base(abs(x::BIGINT),7)", "bar(x,0,10,10)", "[x,1]::VARCHAR",
        "to_json([x])", "x**2", "chr((x % 90 + 150)::INTEGER)", "gcd(x,6)", "lcm(x%100,6)", "divide(x,2)", "x IN (1,7)", "nullif(x,1)", "atan2(x,1)",
        "json_extract('[5,6]', x)", "json_object('a', x)", "json_array(x, 'b')", "split_part('a,b', ',', x)",
    ),
    "float": (
        "even(f)", "sign(f)", "isinf(f)", "isfinite(f)", "signbit(f)", "format('{}|{:.2f}|{:e}|{:g}|{:10.3f}|{:,}',f,f,f,f,f,f)",
        "printf('%f|%.1f|%e|%g|%8.2f',f,f,f,f,f)", "nextafter(f,1)", "fmod(f,2)", "to_json(f)", "round_even(f,0)", "asinh(f)", "[f]::VARCHAR",
        "gamma(f+1.5)", "lgamma(f+1.5)",
    ),
    "moment": (
        "strftime(t,'%Y-%m-%d %H:%M:%S.%f|%y|%j|%U|%W|%V|%G|%u|%w|%a|%A|%b|%B|%p|%I|%-I|%-d|%g')", "last_day(t)", "dayname(t)", "monthname(t)",
        "epoch_ms(t)", "epoch_us(t)", "epoch(t)", "yearweek(t)", "decade(t)", "century(t)", "millennium(t)", "era(t)", "millisecond(t)",
        "microsecond(t)", "date_trunc('decade',t)", "date_trunc('century',t)", "date_trunc('isoyear',t)", "date_trunc('millisecond',t)", "julian(t)",
        "time_bucket(INTERVAL '7 days',t)", "time_bucket(INTERVAL '5 months',t)", "time_bucket(INTERVAL '1 second',t)", "isfinite(t)", "to_json(t)",
        "age(t,TIMESTAMP '2020-02-29 12:00:00')::VARCHAR", "age(TIMESTAMP '2020-02-29 12:00:00',t)::VARCHAR", "[t]::VARCHAR",
        "strptime(strftime(t,'%d/%m/%Y %H:%M:%S.%f'),'%d/%m/%Y %H:%M:%S.%f')",
        *(f"{name}('{part}',t,TIMESTAMP '2020-02-29 12:00:00')" for name in ("date_diff", "date_sub") for part in _PARTS),
    ),
    "list": (
        "l[1]", "l[-1]", "l[0]", "l[2:3]", "l[-2:]", "l[:-2]", "l[5:2]", "l[1:3:2]", "len(l)", "list_contains(l,5)", "list_contains(l,NULL)",
        "list_position(l,5)", "list_position(l,9)", "list_sort(l)", "list_sort(l,'DESC')", "list_sort(l,'DESC','NULLS FIRST')", "list_reverse_sort(l)",
        "list_reverse(l)", "list_sort(list_distinct(l))", "list_unique(l)", "list_median(l)", "list_mode(l)", "l::VARCHAR", "to_json(l)",
        "list_transform(l, lambda x: x*2)", "list_filter(l, lambda x: x>1)", "[y+1 FOR y IN l IF y>0]", "array_to_string(l,'-')", "list_has_any(l,[5])",
        "list_has_all(l,[5])", "list_grade_up(l)", "list_select(l,[1,3])", "list_stddev_pop(l)", "list_append(l,4)", "list_prepend(4,l)",
        "list_sum(list_transform(l, lambda x: x+1))",
    ),
    "aggregate": _AGGREGATES,
    "nothing": _AGGREGATES,
    "nulls": _AGGREGATES,
}  # fmt: skip

#: The expressions whose answers differ, by kind of rows, with reasons.
DIFFERS: dict[tuple[str, str], str] = {}
