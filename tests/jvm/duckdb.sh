#!/usr/bin/env bash
# DuckDB's own JDBC driver with the extension: tests/jvm/duckdb.sh VERSION EXTENSION PARQUET_FOLDER QUERIES_FOLDER.
# Ends with 77, and says why, where Java, Maven or the driver cannot be had.
set -euo pipefail
source "$(dirname "$0")/driver.sh"
driver org.duckdb duckdb_jdbc "$1"
shift
exec java -cp "$jar" "$here/DuckDbJdbc.java" "$@"
