"""Query suites of other benchmarks, on small data of the same shape, compared with DuckDB."""
