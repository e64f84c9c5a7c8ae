"""Random SQL, run on Warpmill and on DuckDB, with equal answers expected.

`columns` makes tables, `expressions` and `queries` make SQL over them, `judge` runs both engines and compares,
`shrink` makes a failing case small. Everything follows from one seed.

What the generator leaves out
-----------------------------
Both engines are right where their SQL differs: Warpmill's is DataFusion's. The generator makes no query whose meaning
differs, so that every difference is a finding.

Numbers
- Overflow: both engines refuse it, but not always in the same rows (a filter may run first or last) and not at the same
  widths (DuckDB types a literal by its value, DataFusion as BIGINT). Every integer and decimal node carries bounds,
  proven from the data, and arithmetic is made only where its bounds fit the narrower of the two result types.
- ``/`` on integers divides exactly in DuckDB and truncates in DataFusion: operands are cast to DOUBLE. ``%`` and ``/``
  have literals or NULLIF(x, 0) on the right.
- Decimals are never divided (DuckDB answers with DOUBLE), and ``avg`` of a decimal (DOUBLE against DECIMAL) is an
  output column only, compared within one unit of the decimal's last place.
- ``avg`` of integers is made where their sum stays below 2^53: DataFusion sums them as floats.
- A decimal literal is written as a CAST of text: ``1.5`` is a decimal to DuckDB and a DOUBLE to DataFusion.
- ``nullif`` of two decimals has the first one's type in DuckDB and a common type in DataFusion: equal types only.
- Two decimals meet only where a common type of at most 38 digits holds both.
- Casts from DOUBLE to integers round in DuckDB and truncate in DataFusion: they are cast after ``floor``. Casts of
  floats, timestamps to text print differently, and are left out.
- Floats are multiples of 1/8 that every order of summation adds exactly, or "wild" (NaN, infinities, the smallest and
  largest numbers), which are compared and moved, never computed with. What is rounded (quotients, averages,
  deviations) is an output column only: nothing is decided by its last bit.
- Negative zero is left out: DuckDB's ``=`` takes it for zero, Arrow's total order does not.

Text
- Letters have one-to-one upper and lower cases (no sharp s, no dotted capital i); ``reverse`` is left out, for DuckDB
  reverses grapheme clusters.
- ``substr`` starts at 1 or later and takes 0 characters or more; ``replace`` and ``split_part`` have no empty needle.

Dates
- DATE plus INTERVAL is a timestamp in DuckDB: results are cast back to DATE. Dates and timestamps beyond 1700 to 2200
  are compared and taken apart, not converted into each other: DataFusion goes through nanoseconds. Such timestamps have
  no literals, for the same reason.

Queries
- ORDER BY says NULLS FIRST or NULLS LAST, for the engines' defaults differ, and a LIMIT comes with an ORDER BY over all
  output columns.
- GROUP BY and ORDER BY name no bare constants (they would be positions); NULL is written with its type.
- What DataFusion 55 itself answers wrongly or does not plan: EXISTS over an aggregate without GROUP BY (one row always,
  but decorrelated into a semi join); a constant that is NOT IN a subquery with NULLs; NOT IN a subquery under OR (a
  mark join, which takes unknown for false); NULL in the IN list of something that is never NULL; HAVING without
  GROUP BY (a constant one is pushed below the aggregate); ``x IS TRUE`` outside of WHERE; ORDER BY over a join with a
  derived table (sort keys are lost); differences of dates.
- Queries that DataFusion does not plan (some correlated subqueries) are counted as refused; see `judge`.

The list of DataFusion's mistakes cannot be complete. So every difference is put to the plain ``datafusion`` package:
where it answers as Warpmill does, its planning is at fault. Such a case is counted, printed with the tally of a long
run, and does not fail.
"""
