"""Functions of texts, patterns and formats."""

from __future__ import annotations

from dialect.everyday.everyday import Everyday

TITLE = "Texts"

CASES = (
    Everyday(
        "SELECT upper('abc') AS a, lower('ABC') AS b, ucase('x') AS c, lcase('X') AS d, length('héllo') AS e, len('abc') AS f"
    ),
    Everyday(
        "SELECT upper('ß') AS a, upper('straße') AS b, lower('İ') AS c, upper('ŉ') AS d, lower('ΑΣ') AS e, upper('ﬁ') AS f"
    ),
    Everyday(
        "SELECT strlen('héllo') AS a, bit_length('abc') AS b, char_length('abc') AS c, character_length('é') AS d, octet_length('e'::BLOB) AS e"
    ),
    Everyday(
        "SELECT substring('hello', 2, 3) AS a, substr('hello', -3) AS b, substring('hello', 2) AS c, 'hello'[2] AS d, 'hello'[2:4] AS e, 'hello'[-2:] AS f"
    ),
    Everyday(
        "SELECT left('hello', 2) AS a, right('hello', 2) AS b, left('hello', -1) AS c, right('hello', -1) AS d, left('x', 9) AS e"
    ),
    Everyday(
        "SELECT trim('  x ') AS a, ltrim('  x ') AS b, rtrim('  x ') AS c, trim('xxhixx', 'x') AS d, ltrim('>>x', '>') AS e, trim(BOTH 'x' FROM 'xax') AS f"
    ),
    Everyday(
        "SELECT replace('hello', 'l', 'L') AS a, translate('12345', '143', 'ax') AS b, reverse('héllo') AS c, repeat('ab', 3) AS d, repeat('ab', 0) AS e"
    ),
    Everyday("SELECT lpad('7', 3, '0') AS a, rpad('7', 3, 'xy') AS b, lpad('hello', 2, ' ') AS c"),
    Everyday(
        "SELECT concat('a', NULL, 1, true) AS a, concat_ws('-', 'a', NULL, 'b') AS b, 'a' || 'b' AS c, 'a' || NULL AS d",
        state="differs",
        why="`||` with a NULL constant is a VARCHAR, and not of the type NULL",
    ),
    Everyday(
        "SELECT contains('hello', 'ell') AS a, starts_with('hello', 'he') AS b, ends_with('hello', 'lo') AS c, prefix('hello', 'he') AS d, suffix('hello', 'x') AS e, 'hello' ^@ 'he' AS f"
    ),
    Everyday("SELECT strpos('hello', 'l') AS a, instr('hello', 'z') AS b, position('l' IN 'hello') AS c"),
    Everyday(
        "SELECT split_part('a,b,c', ',', 2) AS a, split_part('a,b,c', ',', -1) AS b, split_part('a,b,c', ',', 9) AS c"
    ),
    Everyday(
        "SELECT string_split('a,b,c', ',') AS a, str_split('a b', ' ') AS b, split('a--b', '--') AS c, string_to_array('a,b', ',') AS d, string_split('', ',') AS e"
    ),
    Everyday("SELECT string_split_regex('a1b22c', '[0-9]+') AS a, regexp_split_to_array('a, b', ',\\s*') AS b"),
    Everyday(
        "SELECT regexp_matches('hello', 'l+') AS a, regexp_matches('hello', '^l') AS b, regexp_matches('HELLO', 'hello', 'i') AS c, regexp_full_match('hello', 'h.*o') AS d"
    ),
    Everyday(
        "SELECT regexp_replace('hello', 'l', 'L') AS a, regexp_replace('hello', 'l', 'L', 'g') AS b, regexp_replace('ab12', '([a-z]+)([0-9]+)', '\\2-\\1') AS c"
    ),
    Everyday(
        "SELECT regexp_extract('ab12cd', '[0-9]+') AS a, regexp_extract('ab12', '([a-z]+)([0-9]+)', 2) AS b, regexp_extract('x', '[0-9]') AS c"
    ),
    Everyday(
        "SELECT regexp_extract_all('a1b22', '[0-9]+') AS a, regexp_extract_all('a1b22', '([a-z])([0-9]+)', 2) AS b"
    ),
    Everyday(
        "SELECT regexp_extract('2023-04-15', '(\\d+)-(\\d+)-(\\d+)', ['y', 'm', 'd']) AS a",
    ),
    Everyday("SELECT regexp_escape('a.b') AS a"),
    Everyday(
        "SELECT 'hello' LIKE 'h%o' AS a, 'Hello' ILIKE 'h%' AS b, 'hello' NOT LIKE '_x%' AS c, 'a%b' LIKE 'a$%b' ESCAPE '$' AS d, 'hello' GLOB 'h*o' AS e, 'hello' SIMILAR TO 'h.*' AS f"
    ),
    Everyday("SELECT 'hello' ~ 'h.*o' AS a, 'hello' !~ 'x' AS b, 'hello' ~~ 'h%' AS c, 'Hello' ~~* 'h%' AS d"),
    Everyday("SELECT ascii('A') AS a, chr(65) AS b, ord('é') AS c, unicode('ü') AS d, ascii('') AS e"),
    Everyday(
        "SELECT md5('hello') AS a, sha256('hello') AS b, sha1('hello') AS c",
    ),
    Everyday(
        "SELECT base64('hello'::BLOB) AS a, to_base64('abc'::BLOB) AS b, from_base64('aGVsbG8=') AS c, encode('é') AS d, decode('abc'::BLOB) AS e"
    ),
    Everyday(
        "SELECT hex('abc') AS a, unhex('616263') AS b, to_hex(255) AS c, from_hex('41') AS d, unbin('01000001') AS e"
    ),
    Everyday(
        "SELECT levenshtein('kitten', 'sitting') AS a, editdist3('a', 'b') AS b, hamming('duck', 'luck') AS c, damerau_levenshtein('ab', 'ba') AS d"
    ),
    Everyday(
        "SELECT jaccard('duck', 'luck') AS a, jaro_similarity('duck', 'duckdb') AS b, jaro_winkler_similarity('duck', 'duckdb') AS c"
    ),
    Everyday(
        "SELECT format('{} is {}', 'x', 5) AS a, format('{:.2f}', 3.14159::DOUBLE) AS b, format('{:,}', 1234567) AS c, format('{1} {0}', 'a', 'b') AS d, format('{:05d}', 42) AS e"
    ),
    Everyday(
        "SELECT printf('%s is %d', 'x', 5) AS a, printf('%.2f', 3.14159::DOUBLE) AS b, printf('%05d', 42) AS c, printf('%x', 255) AS d, printf('100%%') AS e"
    ),
    Everyday("SELECT bar(5, 0, 10, 20) AS a"),
    Everyday(
        "SELECT formatReadableSize(1500000) AS a, format_bytes(1500000) AS b, formatReadableDecimalSize(1500000) AS c"
    ),
    Everyday(
        "SELECT strip_accents('héllo') AS a, nfc_normalize('é') AS b, unicode('é') AS c",
    ),
    Everyday("SELECT array_extract('hello', 1) AS a, array_slice('hello', 2, 3) AS b"),
    Everyday(
        "SELECT parse_path('/a/b/c.csv') AS a, parse_filename('/a/b/c.csv') AS b, parse_dirname('/a/b/c.csv') AS c, parse_filename('/a/b/c.csv', true) AS d"
    ),
    Everyday(
        "SELECT string_agg(s, ',' ORDER BY s) AS a, group_concat(s, '-' ORDER BY s DESC) AS b, listagg(s, ';' ORDER BY s) AS c FROM (VALUES ('b'), ('a'), (NULL)) t(s)",
    ),
    Everyday(
        "SELECT s FROM (VALUES ('b'), ('A'), ('C'), (NULL)) t(s) ORDER BY s COLLATE NOCASE DESC NULLS LAST",
    ),
    Everyday(
        "SELECT 'A' = 'a' COLLATE NOCASE AS a, s COLLATE NOCASE IN ('a', 'c') AS b, s COLLATE nocase < 'C' AS c, s BETWEEN 'a' AND 'B' COLLATE NOCASE AS d, s COLLATE NOCASE LIKE 'A%' AS e, s COLLATE NOCASE <> 'B' AS f, s COLLATE NOCASE IS DISTINCT FROM 'b' AS g FROM (VALUES ('b'), ('A'), ('É'), (NULL)) t(s)",
    ),
    Everyday(
        "SELECT s, row_number() OVER (ORDER BY s COLLATE NOCASE) AS n, t FROM (VALUES ('b', 1), ('A', 2), ('C', 3)) v(s, t) WHERE s COLLATE NOCASE >= 'B' ORDER BY t",
    ),
    Everyday(
        "SELECT string_agg(s, ',' ORDER BY s COLLATE NOCASE) AS a FROM (VALUES ('b'), ('A'), ('C')) t(s)",
    ),
    Everyday(
        "SELECT DISTINCT s COLLATE NOCASE AS a FROM (VALUES ('b'), ('A'), ('a')) t(s)",
        state="refused",
        why="COLLATE outside of comparisons and ORDER BY",
    ),
    Everyday(
        "SELECT s FROM (VALUES ('b'), ('é'), ('E')) t(s) ORDER BY s COLLATE NOACCENT",
        state="refused",
        why="NOCASE is the only collation",
    ),
    Everyday("SELECT url_encode('a b&c') AS a, url_decode('a%20b') AS b"),
    Everyday("SELECT 'it''s' AS a, E'tab\\tend' AS b, $$dollar$$ AS c, 'a' < 'b' AS d, 'Z' < 'a' AS e"),
    Everyday(
        "SELECT s, length(s) AS n, upper(s) AS u, s[1] AS f, s || '!' AS x FROM (VALUES ('abc'), (''), (NULL), ('日本')) t(s) ORDER BY s"
    ),
    Everyday(
        "SELECT 'abc'::BLOB AS a, '\\xAA\\xBB'::BLOB AS b, octet_length('\\xAA'::BLOB) AS c, 'a'::BLOB || 'b'::BLOB AS d"
    ),
    Everyday(
        "SELECT length(uuid()::VARCHAR) AS a, gen_random_uuid() IS NOT NULL AS b, '6b8a9e0c-3c4f-4d2e-9b61-1f2a3b4c5d6e'::UUID::VARCHAR AS c",
    ),
    Everyday(
        "SELECT concat_ws(', ', last, first) AS name, initcap IS NULL AS n FROM (VALUES ('Ann', 'Lee', NULL)) t(first, last, initcap)"
    ),
)
