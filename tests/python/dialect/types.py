"""Types, casts, and what becomes of values between them."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Types"

#: Moments around the limits, and NULL.
MOMENTS = (
    "CREATE TABLE m AS SELECT CAST(d AS DATE) AS d, CAST(t AS TIMESTAMP) AS t FROM (VALUES ('2024-02-28', '2024-02-28"
    " 13:14:15.5'), ('1969-12-31', '1969-12-31 23:59:59.999'), ('9999-12-30', '9999-12-30 00:00:00'), ('0001-01-01',"
    " '0001-01-01 00:00:00'), (NULL, NULL)) v(d, t)",
)

CASES = (
    Case("a cast that does not fit is an error", "SELECT CAST(300 AS TINYINT) AS x"),
    Case("a cast of a text that is no number is an error", "SELECT CAST('x' AS INTEGER) AS x"),
    Case("`TRY_CAST` gives NULL instead", "SELECT TRY_CAST('x' AS INTEGER) AS x"),
    Case(
        "`TRY_CAST` of what does not fit", "SELECT TRY_CAST(300 AS TINYINT) AS a, TRY_CAST(1234.5 AS DECIMAL(5,2)) AS b"
    ),
    Case(
        "what is compared is what a cast gives",
        "SELECT d, d::INTEGER > 1 AS a, d::DECIMAL(9,0) = 2 AS b, round(d, 1) = 1.5 AS c, TRY_CAST(d AS INTEGER)"
        " IN (2, 3) AS e FROM c WHERE d::INTEGER BETWEEN 1 AND 2 AND d::DECIMAL(4,1) <> 2.4 ORDER BY d",
        ("CREATE TABLE c AS SELECT * FROM (VALUES (1.45), (1.5), (2.4), (2.44), (NULL), (0.5), (2.5)) t(d)",),
    ),
    Case(
        "what does not fit is an error wherever it is compared",
        "SELECT x FROM c WHERE x::TINYINT = 3",
        ("CREATE TABLE c AS SELECT * FROM (VALUES (3), (200)) t(x)",),
    ),
    Case(
        "and NULL with `TRY_CAST`",
        "SELECT x, TRY_CAST(x AS TINYINT) > 2 AS a FROM c WHERE TRY_CAST(x AS TINYINT) IS DISTINCT FROM 3 ORDER BY x",
        ("CREATE TABLE c AS SELECT * FROM (VALUES (3), (200), (1)) t(x)",),
    ),
    Case("numbers are no moments", "SELECT CAST(1577836800 AS TIMESTAMP)"),
    Case("numbers are no times", "SELECT CAST(x AS TIME) FROM (VALUES (5)) t(x)"),
    Case("moments are no numbers", "SELECT CAST(TIMESTAMP '2020-01-01' AS BIGINT)"),
    Case("dates are no numbers", "SELECT CAST(d AS INTEGER) FROM m", MOMENTS),
    Case("numbers are no bytes", "SELECT CAST(5 AS BLOB)"),
    Case("bytes are no numbers", r"SELECT CAST(x AS INTEGER) FROM (VALUES (CAST('\x01' AS BLOB))) t(x)"),
    Case(
        "`TRY_CAST` where there is no cast is NULL",
        "SELECT TRY_CAST(5 AS TIME) AS a, TRY_CAST(x AS TIMESTAMP) AS b, TRY_CAST(DATE '2020-01-01' AS INTEGER) AS c,"
        " TRY_CAST(x AS BLOB) AS d FROM (VALUES (1), (NULL)) t(x)",
    ),
    Case(
        "NULL is cast to everything",
        "SELECT CAST(NULL AS TIMESTAMP) AS a, CAST(x AS DATE) AS b, CAST(x AS BLOB) AS c"
        " FROM (VALUES (CAST(NULL AS INTEGER))) t(x)",
    ),
    Case(
        "UUIDs are read from texts",
        "SELECT s::UUID AS a, typeof(s::UUID) AS b, s::UUID::VARCHAR AS c, s::UUID::BLOB AS d,"
        " TRY_CAST('x' || s AS UUID) AS e"
        " FROM (VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), ('{FFFFFFFF-ffff-ffff-ffff-ffffffffffff}'), (NULL),"
        " ('00000000000000000000000000000000')) t(s)",
    ),
    Case("a text that is no UUID is an error", "SELECT 'a0eebc99'::UUID"),
    Case("numbers are no UUIDs", "SELECT 1::UUID"),
    Case(
        "constant texts beside UUIDs are read as such",
        "SELECT u, u > '80000000-0000-0000-0000-000000000000' AS a, coalesce(u, 'ffffffff-ffff-ffff-ffff-ffffffffffff')"
        " AS b, u || '!' AS c FROM (VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::UUID),"
        " ('00000000-0000-0000-0000-000000000000'), (NULL)) t(u) ORDER BY u",
    ),
    Case("UUIDs are no texts to functions", "SELECT upper(uuid())"),
    Case("a UUID and a text that is no constant are not mixed", "SELECT coalesce(uuid(), s) FROM (VALUES ('x')) t(s)"),
    Case("so is what is not computed", "SELECT CASE WHEN x > 1 THEN CAST(x AS TIME) END AS a FROM (VALUES (1)) t(x)"),
    Case(
        "numbers in texts are no times and moments",
        "SELECT TRY_CAST(s AS TIME) AS a, TRY_CAST(s AS TIMESTAMP) AS b"
        " FROM (VALUES ('5'), ('20200101'), ('120000'), ('1577836800'), (NULL)) t(s)",
    ),
    Case("a number in a text is no time", "SELECT CAST('5' AS TIME)"),
    Case(
        "texts as intervals: a number alone counts seconds",
        "SELECT CAST(CAST(s AS INTERVAL) AS VARCHAR) AS a, CAST(CAST('2' AS INTERVAL) AS VARCHAR) AS b"
        " FROM (VALUES ('1'), ('-1.5'), ('1 day'), ('2 months 3 days'), (NULL)) t(s)",
    ),
    Case("an interval that ends with a number is none", "SELECT CAST('1 day 5' AS INTERVAL)"),
    Case(
        "`~` and `!~` look for a match in the text",
        "SELECT s, s ~ 'b' AS a, s ~ '^b' AS b, s !~ 'c$' AS c, s ~ '' AS d, s SIMILAR TO 'b' AS e"
        " FROM (VALUES ('abc'), ('b'), ('ABC'), (''), (NULL)) t(s) ORDER BY s",
    ),
    Case(
        "`cast_to_type`",
        "SELECT cast_to_type(s, i) AS a, cast_to_type(2.5, i) AS b, cast_to_type(i, s) AS c,"
        " cast_to_type(NULL, 1.5) AS d FROM (VALUES ('7', 1), (NULL, NULL)) t(s, i) ORDER BY s",
    ),
    Case(
        "`sha1` of texts and bytes",
        "SELECT s, sha1(s) AS a, sha1(s::BLOB) AS b FROM (VALUES ('a'), (''), (NULL)) t(s) ORDER BY s",
    ),
    Case(
        "`strip_accents` and `nfc_normalize`",
        "SELECT strip_accents(s) AS a, nfc_normalize(s) AS b, length(nfc_normalize(s)) AS n"
        " FROM (VALUES ('Åéîøü ß ﬁ 中'), ('e' || chr(769)), ('plain'), (''), (NULL)) t(s) ORDER BY s",
    ),
    Case(
        "`json_structure` and `json_pretty`",
        "SELECT json_structure(s)::VARCHAR AS a, json_pretty(s)::VARCHAR AS b FROM (VALUES"
        ' (\'{"a": null, "b": -1, "c": [1.5, 2], "d": [1, -1], "e": [{"x": 1}, {"y": "z"}]}\'),'
        " ('[1, \"a\", true]'), ('[]'), ('{}'), ('[{}, {\"x\": {}}, {\"x\": {\"y\": 1}}]'),"
        " ('[[1], [null], [2.5]]'), ('7'), (NULL)) t(s) ORDER BY s",
    ),
    Case(
        "`age` of one moment",
        "SELECT age(d) = age(current_date::TIMESTAMP, d) AS a FROM (VALUES (TIMESTAMP '2000-02-29 01:02:03')) t(d)",
    ),
    Case("`sha256` is a text", "SELECT s, sha256(s) AS a FROM (VALUES ('a'), (''), ('é'), (NULL)) t(s) ORDER BY s"),
    Case(
        "texts as truth values",
        "SELECT s, TRY_CAST(s AS BOOLEAN) AS b FROM (VALUES ('t'), ('Yes'), ('1'), ('F'), ('no'), ('0'), ('2')) v(s)"
        " ORDER BY s",
    ),
    Case(
        "more texts are truth values",
        "SELECT CAST('on' AS BOOLEAN) AS a, CAST(' true ' AS BOOLEAN) AS b",
        differs="`on`, `off` and spaces around are read, too: to DuckDB these are no truth values",
    ),
    Case("eight digits are no date", "SELECT CAST('20200101' AS DATE) AS a"),
    Case(
        "decimals and truth values",
        "SELECT CAST(b AS DECIMAL(5,2)) AS a, CAST(b AS HUGEINT) AS b, CAST(d AS BOOLEAN) AS d"
        " FROM (VALUES (true, 0.00), (false, 0.01), (NULL, NULL)) t(b, d)",
    ),
    Case("numbers and dates are not compared", "SELECT DATE '2020-01-01' = 5"),
    Case("nor are they in a list", "SELECT DATE '2020-01-01' IN (1, 2)"),
    Case("nor in CASE", "SELECT CASE WHEN x > 0 THEN DATE '2020-01-01' ELSE x END FROM (VALUES (1)) t(x)"),
    Case("nor in UNION", "SELECT DATE '2020-01-01' UNION ALL SELECT 5"),
    Case("lists are cast as their elements are", "SELECT CAST([1] AS TIMESTAMP[])"),
    Case("numbers are not inserted as moments", "INSERT INTO m VALUES (DATE '2020-01-01', 5)", MOMENTS),
    Case(
        "`to_timestamp` has a zone",
        "SELECT to_timestamp(0) AS a, CAST(to_timestamp(x) AS VARCHAR) AS b"
        " FROM (VALUES (1577836800.123456), (-0.5), (NULL)) t(x)",
    ),
    Case(
        "`to_timestamp` of every number",
        "SELECT to_timestamp(CAST(5 AS UTINYINT)) AS a, to_timestamp(CAST(1.5 AS FLOAT)) AS b,"
        " to_timestamp(25e-7) AS c, to_timestamp(CAST(1 AS HUGEINT)) AS d, to_timestamp(NULL) AS e",
    ),
    Case("`to_timestamp` beyond all moments", "SELECT to_timestamp(1e300)"),
    Case("`to_timestamp` of no number", "SELECT to_timestamp(DATE '2020-01-01')"),
    Case(
        "texts as integers",
        "SELECT CAST(s AS INTEGER) AS x FROM (VALUES ('12'), ('3.7'), (' 12 '), ('1e3'), ('1_000'), ('2.5'),"
        " ('-2.5'), (NULL)) t(s)",
    ),
    Case(
        "texts as decimals",
        "SELECT CAST('1.005' AS DECIMAL(5,2)) AS a, CAST('1.115' AS DECIMAL(5,2)) AS b, CAST('1e2' AS DECIMAL(5,1))"
        " AS c",
    ),
    Case(
        "texts as DOUBLE",
        "SELECT CAST(s AS DOUBLE) AS x FROM (VALUES ('1e3'), ('inf'), ('-inf'), ('nan'), ('.5')) t(s)",
    ),
    Case("a text out of range is an error", "SELECT CAST(s AS TINYINT) FROM (VALUES ('1'), ('300')) t(s)"),
    Case("a DOUBLE beyond all FLOATs is none", "SELECT CAST(x AS FLOAT) AS y FROM (VALUES (1e0), (1e300)) t(x)"),
    Case(
        "`TRY_CAST` of DOUBLE to FLOAT",
        "SELECT TRY_CAST(x AS FLOAT) AS y FROM (VALUES (1e300), (-1e39), (1e-50), (0.1e0), (CAST('inf' AS DOUBLE)),"
        " (CAST('nan' AS DOUBLE)), (NULL)) t(x)",
    ),
    Case("strings with escapes, and between dollars", r"SELECT E'it\'s 1_0' AS a, $$b  -- 1_0$$ AS b, $t$it's$t$ AS c"),
    Case("`TRY_CAST` of texts", "SELECT TRY_CAST(s AS TINYINT) AS x FROM (VALUES ('1'), ('300'), ('x')) t(s)"),
    Case("decimals that do not fit are errors", "SELECT CAST(x AS DECIMAL(5,2)) FROM (VALUES (1234.5)) t(x)"),
    Case(
        "decimals round half away from zero",
        "SELECT CAST(1.005 AS DECIMAL(5,2)) AS a, CAST(-1.005 AS DECIMAL(5,2)) AS b",
    ),
    Case(
        "floats as texts",
        "SELECT CAST(x AS VARCHAR) AS s FROM (VALUES (1e0), (1e20), (1e15), (1e16), (1e-5), (1e-4), (0.1e0),"
        " (CAST('inf' AS DOUBLE)),"
        " (CAST('nan' AS DOUBLE)), (-1.5e0)) t(x)",
    ),
    Case(
        "FLOAT as text",
        "SELECT CAST(CAST(0.1 AS FLOAT) AS VARCHAR) AS a, CAST(CAST(123456789 AS FLOAT) AS VARCHAR) AS b",
    ),
    Case(
        "exact numbers as texts",
        "SELECT CAST(1.10 AS VARCHAR) AS a, CAST(-5 AS VARCHAR) AS b, CAST(true AS VARCHAR) AS c",
    ),
    Case("dates and moments as texts", "SELECT CAST(d AS VARCHAR) AS d, CAST(t AS VARCHAR) AS t FROM m", MOMENTS),
    Case(
        "a text beside a number is read as one",
        "SELECT 1 = '1' AS a, 10 > '9' AS b, 1.5 = '1.50' AS c, 1 IN ('1', '2') AS d",
    ),
    Case("a text that is no number beside one is an error", "SELECT 1 < 'abc'"),
    Case("DECIMAL without a width", "SELECT CAST(1.2345 AS DECIMAL) AS x"),
    Case(
        "names of integers",
        "SELECT CAST(1 AS INT8) AS a, CAST(1 AS INT1) AS b, CAST(1 AS HUGEINT) AS c, CAST(1 AS UBIGINT) AS d, CAST(1"
        " AS UINTEGER) AS e",
    ),
    Case(
        "`typeof`",
        "SELECT typeof(i) AS a, typeof(i + 1.5) AS b, typeof(r) AS c, typeof(s) AS d, typeof(t) AS e,"
        " typeof(NULL) AS f,"
        " typeof(i > 1) AS g, typeof(i / 2) AS h, typeof(z) AS j FROM (SELECT CAST(1 AS INTEGER) AS i, CAST(1 AS FLOAT)"
        " AS r, 'x' AS s, TIMESTAMP '2020-01-01' AS t, TIMESTAMPTZ '2020-01-01 00:00:00+00' AS z) v",
    ),
    Case(
        "`typeof` of whole numbers of 128 bits",
        "SELECT typeof(sum(x)) AS s FROM (VALUES (1), (2)) t(x)",
    ),
    Case("widths of texts mean nothing", "SELECT CAST('abc' AS VARCHAR(2)) AS a, CAST('abc' AS CHAR(1)) AS b"),
    Case(
        "unsigned and signed integers",
        "SELECT CAST(1 AS UBIGINT) = -1 AS a, CAST(18446744073709551615 AS UBIGINT) > CAST(9223372036854775807 AS"
        " BIGINT) AS b",
    ),
    Case("`DATE` literals and differences of days", "SELECT DATE '2024-03-01' - DATE '2024-02-28' AS days"),
    Case(
        "dates and numbers of days",
        "SELECT d + 1 AS a, d - 1 AS b, 1 + d AS c FROM m WHERE d > DATE '1900-01-01'",
        MOMENTS,
    ),
    Case(
        "a date with an interval is a moment",
        "SELECT DATE '2020-01-01' + INTERVAL '36' HOUR AS a, DATE '2020-03-31' - INTERVAL '1' MONTH AS b, d +"
        " INTERVAL '1' DAY AS c FROM m",
        MOMENTS,
    ),
    Case(
        "moments with intervals",
        "SELECT t + INTERVAL '1' HOUR AS a, t - INTERVAL '1' MONTH AS b FROM m WHERE t > '1900-01-01'",
        MOMENTS,
    ),
    Case(
        "time zones from 2100 on",
        "SELECT CAST(TIMESTAMPTZ '2150-07-01 12:00:00+00' AT TIME ZONE 'America/New_York' AS VARCHAR) AS a",
        differs="without daylight saving time",
    ),
    Case(
        "differences of moments",
        "SELECT TIMESTAMP '2020-01-01 10:00:00' - TIMESTAMP '2019-12-31' AS a",
        retyped="an exact length of time, without calendar months",
    ),
    Case(
        "intervals are compared by their length",
        "SELECT INTERVAL 1 MONTH = INTERVAL 30 DAY AS a, INTERVAL 25 HOUR > INTERVAL 1 DAY AS b,"
        " t - TIMESTAMP '2020-01-01' > INTERVAL 1 DAY AS c,"
        " t - TIMESTAMP '2020-01-01' BETWEEN INTERVAL 1 DAY AND INTERVAL '1 month' AS d,"
        " t - TIMESTAMP '2020-01-01' IN (INTERVAL 25 HOUR, INTERVAL 1 MONTH) AS e"
        " FROM (VALUES (TIMESTAMP '2020-01-02 01:00:00'), (TIMESTAMP '2020-01-01 23:00:00')) v(t)",
    ),
    Case(
        "intervals are sorted by their length",
        "SELECT CAST(x AS VARCHAR) AS s FROM (VALUES (INTERVAL 1 MONTH), (INTERVAL 29 DAY), (INTERVAL 800 HOUR)) t(x)"
        " ORDER BY x",
    ),
    Case(
        "intervals are not grouped",
        "SELECT count(*) AS n FROM (VALUES (INTERVAL 24 HOUR), (INTERVAL 1 DAY)) t(x) GROUP BY x",
        differs="refused: equal lengths are written in several ways",
    ),
    Case(
        "intervals, times and bytes as texts",
        "SELECT CAST(INTERVAL '14 months -3 days 25 hours' AS VARCHAR) AS a,"
        " CAST(INTERVAL '-1.5 seconds' AS VARCHAR) AS b, CAST(TIME '12:34:56.5' AS VARCHAR) AS c,"
        " CAST(X'00FF5C41' AS VARCHAR) AS d,"
        " CAST(TIMESTAMP '2020-02-02 01:00:00' - TIMESTAMP '2020-01-01' AS VARCHAR) AS e",
    ),
    Case(
        "texts as bytes",
        r"SELECT CAST('\x41b' AS BLOB) AS a, TRY_CAST('\xGG' AS BLOB) AS b, TRY_CAST('é' AS BLOB) AS c",
    ),
    Case(
        "values that become parts of texts",
        "SELECT 'a' || TIMESTAMP '2020-01-01' AS a, 'a' || 1e20 AS b,"
        " concat(1e20, TIMESTAMP '2020-01-01', true, 1.50) AS c, concat_ws('-', 1e20, INTERVAL 1 DAY) AS d",
    ),
    Case("values that are put together", "SELECT string_agg(x, ',') AS s FROM (VALUES (1e20), (2e0)) t(x)"),
    Case(
        "dates compared with moments",
        "SELECT count(*) AS n FROM m WHERE d < TIMESTAMP '2024-02-28 00:00:01' AND d >= DATE '1969-12-30' + INTERVAL"
        " '1' DAY",
        MOMENTS,
    ),
    Case(
        "parts of moments are BIGINT",
        "SELECT extract(year FROM t) AS y, extract(month FROM t) AS m, extract(day FROM d) AS d, extract(hour FROM"
        " t) AS h,"
        " extract(second FROM t) AS s, extract(dow FROM d) AS w, extract(isodow FROM d) AS i, extract(week FROM d)"
        " AS k,"
        " extract(doy FROM d) AS o, extract(quarter FROM d) AS q FROM m",
        MOMENTS,
    ),
    Case(
        "parts of moments have functions",
        "SELECT year(t) AS y, Month(t) AS m, day(d) AS d, dayofmonth(d) AS e, hour(t) AS h, minute(t) AS i,"
        " second(t) AS"
        " s, quarter(d) AS q, week(d) AS k, weekofyear(d) AS l, dayofweek(d) AS w, weekday(d) AS v, isodow(d) AS o,"
        " dayofyear(d) AS x, isoyear(d) AS z FROM m",
        MOMENTS,
    ),
    Case("and a name each", 'SELECT "isodow(d)", "epoch(t)" FROM (SELECT isodow(d), epoch(t) FROM m) p', MOMENTS),
    Case("`extract(epoch ...)` is a DOUBLE", "SELECT extract(epoch FROM TIMESTAMP '2020-01-01 00:00:01.5') AS e"),
    Case(
        "`date_trunc` gives a moment",
        "SELECT date_trunc('month', d) AS a, date_trunc('hour', t) AS b, date_trunc('week', d) AS c FROM m",
        MOMENTS,
    ),
    Case("moments at the end of time", "SELECT max(t) AS a, min(t) AS b, max(d) AS c FROM m", MOMENTS),
    Case("moments as dates", "SELECT CAST(t AS DATE) AS d FROM m", MOMENTS),
    Case(
        "intervals of columns",
        "SELECT d + INTERVAL (x) DAY AS a, d + INTERVAL (x + 1) MONTH AS b, d - INTERVAL (f) HOUR AS c,"
        " d + INTERVAL (f) SECOND AS e, d + INTERVAL (1 + 1) WEEKS AS g"
        " FROM (VALUES (DATE '2020-01-31', 1, 1.7), (DATE '1969-12-31', -2, -2.5), (DATE '2000-01-01', NULL, NULL))"
        " t(d, x, f) ORDER BY d",
    ),
    Case(
        "texts as moments: to the minute, or with short parts",
        "SELECT s, TRY_CAST(s AS TIMESTAMP) AS t FROM (VALUES ('2020-02-29 10:00'), ('2020-02-29T7:05'),"
        " ('2020-02-29 1:2:3.5'), ('2020-02-29 10:00:00'), ('2020-02-29 10'), ('2020-02-30 10:00'),"
        " ('2020-02-29 25:00'), ('x'), (NULL)) v(s) ORDER BY s",
    ),
    Case(
        "and a column of these",
        "SELECT s::TIMESTAMP AS t FROM (VALUES ('2020-02-29 10:00'), ('2020-02-29 10:01')) v(s) ORDER BY s",
    ),
    Case(
        "texts with an offset as TIMESTAMP: it is read over",
        "SELECT CAST('2020-01-01 10:00:00+02:00' AS TIMESTAMP) AS t",
        since="2.0",
    ),
    Case(
        "digits of nanoseconds",
        "SELECT CAST(CAST('2020-01-01 10:00:00.123456789' AS TIMESTAMP_NS) AS VARCHAR) AS t",
    ),
    Case(
        "casts of moments to coarser ones round",
        "SELECT x::TIMESTAMP_S::VARCHAR AS s, x::TIMESTAMP_MS::VARCHAR AS m, TRY_CAST(x AS TIMESTAMP_S)::VARCHAR AS t"
        " FROM (VALUES (TIMESTAMP '2020-01-01 00:00:00.7'), (TIMESTAMP '1969-12-31 23:59:59.5'), (NULL),"
        " (TIMESTAMP '1969-12-31 23:59:59.3'), (TIMESTAMP '2020-01-01 00:00:00.0005'),"
        " (TIMESTAMP '1969-12-31 23:59:00.0004')) v(x)",
    ),
    Case(
        "casts of nanoseconds round",
        "SELECT x::TIMESTAMP::VARCHAR AS a, x::TIMESTAMP_MS::VARCHAR AS b, x::VARCHAR AS c FROM (SELECT"
        " unnest(['2020-01-01 10:00:00.123456789', '1969-12-31 23:59:59.9999995', '1970-01-01 00:00:00.0000004',"
        " '2020-01-01', NULL])::TIMESTAMP_NS AS x) q",
    ),
    Case(
        "texts as moments round",
        "SELECT x::TIMESTAMP_S::VARCHAR AS a, x::TIMESTAMP_MS::VARCHAR AS b,"
        " '2020-01-01 10:00:00.6'::TIMESTAMP_S::VARCHAR AS c"
        " FROM (VALUES ('2020-01-01 00:00:00.5'), ('1969-12-31 23:59:59.9994'), ('2020-02-29'), (NULL)) v(x)",
    ),
    Case("TIMESTAMPTZ literals have a zone", "SELECT TIMESTAMPTZ '2020-01-01 10:00:00+02' AS t"),
    Case(
        "`AT TIME ZONE` both ways",
        "SELECT TIMESTAMPTZ '2020-01-01 10:00:00+02' AT TIME ZONE 'Europe/Berlin' AS a, TIMESTAMP '2020-07-01"
        " 10:00:00' AT TIME ZONE"
        " 'Europe/Berlin' AS b",
    ),
    Case(
        "columns of moments with a zone",
        "SELECT t AT TIME ZONE 'America/New_York' AS a, t = TIMESTAMPTZ '2020-01-01 08:00:00+00' AS b FROM z",
        setup=("CREATE TABLE z AS SELECT TIMESTAMPTZ '2020-01-01 10:00:00+02' AS t UNION ALL SELECT NULL",),
    ),
    Case(
        "an interval of a number in brackets",
        "SELECT TIMESTAMP '2020-03-01' + INTERVAL (5) HOUR AS a, DATE '2020-03-01' - INTERVAL (1) YEAR AS b,"
        " INTERVAL (2.7) DAY + DATE '2020-03-01' AS c, DATE '2020-03-01' + INTERVAL ('3') MONTH AS d",
    ),
    Case(
        "a text among the numbers of a list of rows",
        "SELECT x, typeof(x) AS t FROM (VALUES (1::DOUBLE), ('nan'), (0.5)) t(x) ORDER BY x",
    ),
    Case(
        "a text among decimals of a list of rows",
        "SELECT x, typeof(x) AS t FROM (VALUES (1.5), ('2.25')) t(x) ORDER BY x",
    ),
    Case(
        "series of moments before 1677 and after 2262",
        "SELECT generate_series(TIMESTAMP '1500-01-31', TIMESTAMP '1500-05-01', INTERVAL 1 MONTH) AS a,"
        " range(DATE '2500-01-01', DATE '2500-01-03', INTERVAL 1 DAY) AS b,"
        " range(TIMESTAMP '2500-01-01', TIMESTAMP '2499-12-31', INTERVAL (-12) HOUR) AS c,"
        " generate_series(NULL::TIMESTAMP, TIMESTAMP '1500-05-01', INTERVAL 1 DAY) AS d",
    ),
    Case(
        "series of moments before 1677 and after 2262 as tables",
        "SELECT * FROM generate_series(TIMESTAMP '1500-01-31', TIMESTAMP '1500-05-01', INTERVAL 1 MONTH) UNION ALL"
        " SELECT * FROM range(DATE '2500-01-01', DATE '2500-01-03', INTERVAL 1 DAY) ORDER BY 1",
    ),
    Case(
        "`epoch_ms` rounds",
        "SELECT epoch_ms(TIMESTAMP '2024-02-29 23:59:59.9996') AS a,"
        " epoch_ms(TIMESTAMP '1924-02-29 23:59:59.9995') AS b,"
        " epoch_ms(TIMESTAMP '1924-02-29 23:59:59.9996') AS c, epoch_ms(TIMESTAMP '2020-01-01 00:00:00.0005') AS d,"
        " epoch_us(TIMESTAMP '2020-01-01 00:00:00.0005') AS e",
    ),
    Case(
        "texts of a negative length",
        "SELECT lpad(s, n, 'x') AS a, rpad(s, n, 'x') AS b, repeat(s, n) AS c, left(s, n) AS d, right(s, n) AS e"
        " FROM (VALUES ('abc', -1), ('abc', -2147483648), ('', 0), ('a', 2), (NULL, -1)) t(s, n)",
    ),
)
