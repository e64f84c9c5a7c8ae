"""Dates, moments, times and intervals."""

from __future__ import annotations

from dialect.everyday.everyday import Everyday

TITLE = "Dates"

_M = " FROM (VALUES (TIMESTAMP '2024-02-29 13:45:30.123456'), (TIMESTAMP '1969-12-31 23:59:59'), (NULL)) m(t)"

CASES = (
    Everyday("SELECT year(t) AS y, month(t) AS m, day(t) AS d, hour(t) AS h, minute(t) AS i, second(t) AS s" + _M),
    Everyday(
        "SELECT quarter(t) AS q, week(t) AS w, dayofweek(t) AS d, isodow(t) AS i, dayofyear(t) AS y, weekofyear(t) AS k, yearweek(t) AS z"
        + _M
    ),
    Everyday(
        "SELECT extract(year FROM t) AS y, extract('month' FROM t) AS m, extract(dow FROM t) AS d, extract(epoch FROM t) AS e"
        + _M
    ),
    Everyday(
        "SELECT date_part('year', t) AS a, datepart('month', t) AS b, date_part('decade', t) AS c, date_part('century', t) AS d, date_part('millisecond', t) AS e, date_part('microsecond', t) AS f"
        + _M
    ),
    Everyday("SELECT date_part(['year', 'month'], DATE '2024-02-29') AS a"),
    Everyday(
        "SELECT date_trunc('month', t) AS a, date_trunc('hour', t) AS b, datetrunc('year', t) AS c, date_trunc('week', t) AS d, date_trunc('quarter', t) AS e, date_trunc('decade', t) AS f"
        + _M
    ),
    Everyday(
        "SELECT date_trunc('month', DATE '2024-02-29') AS a, date_trunc('day', TIMESTAMP '2024-02-29 12:00:00') AS b"
    ),
    Everyday(
        "SELECT date_diff('day', DATE '2024-01-01', DATE '2024-03-01') AS a, datediff('month', DATE '2024-01-31', DATE '2024-02-01') AS b, date_diff('year', DATE '2020-12-31', DATE '2021-01-01') AS c, date_diff('week', DATE '2024-01-01', DATE '2024-01-14') AS d"
    ),
    Everyday(
        "SELECT date_diff('hour', TIMESTAMP '2024-01-01 00:59:00', TIMESTAMP '2024-01-01 02:01:00') AS a, date_diff('minute', t, TIMESTAMP '2024-03-01') AS b, date_diff('second', t, TIMESTAMP '2024-03-01') AS c, date_diff('quarter', t, TIMESTAMP '2024-03-01') AS d"
        + _M
    ),
    Everyday(
        "SELECT date_sub('month', DATE '2024-01-31', DATE '2024-02-29') AS a, datesub('day', TIMESTAMP '2024-01-01 12:00:00', TIMESTAMP '2024-01-03 11:00:00') AS b"
    ),
    Everyday(
        "SELECT age(TIMESTAMP '2024-03-01', TIMESTAMP '2023-01-31')::VARCHAR AS a, age(DATE '2000-02-29', DATE '1999-03-01')::VARCHAR AS b"
    ),
    Everyday(
        "SELECT make_date(2024, 2, 29) AS a, make_timestamp(2024, 2, 29, 12, 30, 1.5) AS b, make_time(12, 30, 1.5) AS c, make_date(NULL, 1, 1) AS d"
    ),
    Everyday(
        "SELECT DATE '2024-01-31' + INTERVAL 1 MONTH AS a, DATE '2024-01-31' + 1 AS b, DATE '2024-03-01' - DATE '2024-02-01' AS c, DATE '2024-01-01' - INTERVAL '2 days' AS d"
    ),
    Everyday("SELECT date_add(DATE '2024-01-01', INTERVAL 1 DAY) AS a"),
    Everyday(
        "SELECT TIMESTAMP '2024-01-01 10:00:00' + INTERVAL '1 hour 30 minutes' AS a, INTERVAL 1 DAY * 3 = INTERVAL 3 DAY AS b, TIMESTAMP '2024-01-02' - TIMESTAMP '2024-01-01' > INTERVAL 12 HOUR AS c"
    ),
    Everyday(
        "SELECT (INTERVAL 1 YEAR + INTERVAL 2 MONTH)::VARCHAR AS a, (INTERVAL '1 day' * 2)::VARCHAR AS b, to_days(3)::VARCHAR AS c, to_months(2)::VARCHAR AS d, to_hours(5)::VARCHAR AS e"
    ),
    Everyday(
        "SELECT to_years(1)::VARCHAR AS a, to_weeks(2)::VARCHAR AS b, to_minutes(90)::VARCHAR AS c, to_seconds(1.5)::VARCHAR AS d, to_milliseconds(1500)::VARCHAR AS e"
    ),
    Everyday(
        "SELECT extract(day FROM INTERVAL '3 days 4 hours') AS a, date_part('hour', INTERVAL '3 days 4 hours') AS b, extract(epoch FROM INTERVAL '1 hour') AS c"
    ),
    Everyday(
        "SELECT strftime(t, '%Y-%m-%d') AS a, strftime(t, '%d.%m.%y %H:%M:%S') AS b, strftime(t, '%a %b %j %p %I') AS c, strftime(t, '%-d/%-m %A %B') AS d, strftime(t, '%f %g') AS e"
        + _M
    ),
    Everyday(
        "SELECT strftime(DATE '2024-02-29', '%x') AS a, strftime('%Y', DATE '2024-02-29') AS b, strftime(DATE '2024-02-29', '%U %W %u %w %%') AS c, strftime(TIMESTAMP '2024-02-29 01:02:03', '%c|%X|%n') AS d"
    ),
    Everyday(
        "SELECT strptime('29.02.2024', '%d.%m.%Y') AS a, strptime('2024-02-29 13:45', '%Y-%m-%d %H:%M') AS b, strptime('Feb 5, 2024', '%b %d, %Y') AS c, strptime('05/02/24 1:02 PM', '%d/%m/%y %I:%M %p') AS d"
    ),
    Everyday(
        "SELECT strptime('2024/02/29', ['%Y-%m-%d', '%Y/%m/%d']) AS a, try_strptime('nonsense', '%Y') AS b, try_strptime('2024', '%Y') AS c"
    ),
    Everyday("SELECT epoch(t) AS a, epoch_ms(t) AS b, epoch_us(t) AS c, epoch_ns(t) AS d" + _M),
    Everyday(
        "SELECT epoch_ms(1709214330123) AS a, make_timestamp(1709214330123456) AS b, to_timestamp(1709214330) AS c, make_timestamp_ms(1000) AS d"
    ),
    Everyday(
        "SELECT last_day(DATE '2024-02-10') AS a, dayname(DATE '2024-02-29') AS b, monthname(DATE '2024-02-29') AS c, dayname(t) AS d"
        + _M
    ),
    Everyday(
        "SELECT current_date = today() AS a, now() = current_timestamp AS b, get_current_timestamp() IS NOT NULL AS c, current_date > DATE '2020-01-01' AS d, current_time IS NOT NULL AS e"
    ),
    Everyday(
        "SELECT time_bucket(INTERVAL '15 minutes', t) AS a, time_bucket(INTERVAL '1 week', t) AS b, time_bucket(INTERVAL '3 months', t) AS c"
        + _M
    ),
    Everyday("SELECT time_bucket(INTERVAL 2 DAY, DATE '2024-02-29') AS a"),
    Everyday(
        "SELECT TIME '12:34:56' AS a, TIME '12:34:56' + INTERVAL 1 HOUR AS b, hour(TIME '12:34:56') AS c, t::TIME AS d, t::DATE AS e"
        + _M
    ),
    Everyday(
        "SELECT '2024-02-29'::DATE AS a, '2024-02-29 12:00'::TIMESTAMP AS b, TRY_CAST('2024-02-30' AS DATE) AS c, '2024-02-29T12:00:00Z'::TIMESTAMPTZ AS d"
    ),
    Everyday(
        "SELECT isfinite(DATE '2024-01-01') AS a, isinf('infinity'::DATE) AS b, 'infinity'::TIMESTAMP > now()::TIMESTAMP AS c",
        state="refused",
        why="Cast error: Cannot cast string 'infinity' to value of Date32 type",
    ),
    Everyday(
        "SELECT greatest(DATE '2024-01-01', DATE '2023-01-01') AS a, DATE '2024-01-01' BETWEEN DATE '2023-01-01' AND DATE '2025-01-01' AS b"
    ),
    Everyday("SELECT range::DATE AS d FROM range(DATE '2024-01-30', DATE '2024-02-03', INTERVAL 1 DAY) ORDER BY d"),
    Everyday(
        "SELECT generate_series AS d FROM generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-04-01', INTERVAL 1 MONTH) ORDER BY d",
    ),
    Everyday("SELECT unnest(generate_series(DATE '2024-01-01', DATE '2024-01-03', INTERVAL '1 day')) AS d ORDER BY d"),
    Everyday(
        "SELECT era(DATE '2024-01-01') AS a, millennium(DATE '2024-01-01') AS b, century(DATE '2024-01-01') AS c, decade(DATE '2024-01-01') AS d, microsecond(TIMESTAMP '2024-01-01 00:00:01.5') AS e, millisecond(TIMESTAMP '2024-01-01 00:00:01.5') AS f"
    ),
    Everyday("SELECT julian(DATE '2024-01-01') AS a"),
    Everyday(
        "SELECT TIMESTAMP '2024-01-01' + INTERVAL '1 day 04:05' AS a, TIMESTAMP '2024-01-01' + INTERVAL '04:05:06.5' AS b, TIMESTAMP '2024-01-01' - INTERVAL '-1 day -04:05' AS c, CAST(INTERVAL '1 year 2 months 25:00:00' AS VARCHAR) AS d, CAST(CAST(s AS INTERVAL) AS VARCHAR) AS e FROM (VALUES ('1 day 04:05'), ('-00:00:01')) t(s)"
    ),
    Everyday(
        "SELECT TIMESTAMP_S '2024-01-01 00:00:01' AS a, TIMESTAMP_MS '2024-01-01 00:00:01.5' AS b, TIMESTAMP_NS '2024-01-01 00:00:01.123456789' AS c",
    ),
    Everyday(
        "SELECT date_trunc('month', d) AS m, count(*) AS n FROM (VALUES (DATE '2024-01-01'), (DATE '2024-01-31'), (DATE '2024-02-01')) v(d) GROUP BY 1 ORDER BY 1"
    ),
    Everyday(
        "SELECT timezone('Europe/Berlin', TIMESTAMPTZ '2024-07-01 12:00:00+00') AS a, TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'UTC' AS b"
    ),
)
