"""The dialect of `warpmill.connect()`, case by case, in lockstep with DuckDB.

Every case of a topic (`numbers`, `types`, `lists`, `names`, `queries`, `tables`) runs on both engines and must give the
same columns, types and rows, or an error on both; a difference is documented in its case, with the reason, and must
really be there. `docs/sql.md` is written from the cases: ``WARPMILL_BLESS=1 pytest tests/python/dialect``.

To add a case, append it to `CASES` of its topic.
"""
