//! The engine side of the DuckDB extension: a C interface that takes DuckDB plans and data and gives back results.
