"""Random SQL, run on Warpmill through each of its doors and on DuckDB, with equal answers expected.

`columns` makes tables, `expressions` and `queries` make SQL over them, `judge` runs both engines and compares,
`shrink` makes a failing case small, `known` lists what the native dialect does not do as DuckDB does it, which queries
leave out there. Everything follows from one seed. Some queries become tables (CREATE TABLE AS, on both engines) that
later queries of the seed read.

DuckDB is the judge: an answer that differs is wrong, whoever in Warpmill's house made it.

What the generator leaves out
-----------------------------
Queries that DuckDB itself may answer in more than one way, or refuse for some orders of evaluation.

Numbers
- Overflow: both engines refuse it, but not always in the same rows (a filter may run first or last) and not at the same
  widths (DuckDB types a literal by its value). Every integer and decimal node carries bounds, proven from the data, and
  arithmetic is made only where its bounds fit the narrower of the two result types. ``%``, ``//`` and ``/`` have
  literals or NULLIF(x, 0) on the right.
- Two decimals meet only where a common type of at most 38 digits holds both.
- Floats are multiples of 1/8 that every order of summation adds exactly, or "wild" (NaN, infinities, the smallest and
  largest numbers), which are compared and moved, never computed with. What is rounded (quotients, averages,
  deviations) is an output column only: nothing is decided by its last bit. Texts of floats and timestamps are left out.
- Negative zero is left out: DuckDB's ``=`` takes it for zero, Arrow's total order does not.

Text
- Letters have one-to-one upper and lower cases (no sharp s, no dotted capital i); ``reverse`` is left out, for DuckDB
  reverses grapheme clusters.
- ``substr`` starts at 1 or later and takes 0 characters or more; ``replace`` and ``split_part`` have no empty needle.

Dates
- Dates and timestamps beyond 1700 to 2200 are compared and taken apart, not converted into each other. Such timestamps
  have no literals.

Queries
- A LIMIT comes with an ORDER BY over all output columns; windows are such that the order of peers changes nothing.
- GROUP BY and ORDER BY name no bare constants (they would be positions); NULL is written with its type.
"""
