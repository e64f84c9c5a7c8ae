#!/usr/bin/env bash
# DuckDB's own JDBC driver with the extension: tests/jvm/duckdb.sh VERSION EXTENSION PARQUET_FOLDER QUERIES_FOLDER.
# Ends with 77, and says why, where Java, Maven or the driver cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
version=$1
shift
cache="${WARPMILL_JVM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/warpmill-jvm}"
jar="$cache/duckdb_jdbc-$version.jar"

skip() { echo "skipped: $*" >&2; exit 77; }

command -v java >/dev/null || skip "there is no java"
release=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/.*java.specification.version = //p')
[ "${release%%.*}" -ge 17 ] 2>/dev/null || skip "Java 17 or later is needed, not $release"
if [ ! -f "$jar" ]; then
    command -v mvn >/dev/null || skip "there is no mvn to fetch the JDBC driver with"
    mkdir -p "$cache" 2>/dev/null || skip "$cache cannot be written"
    part=$(mktemp -d "$cache/part.XXXXXX")
    trap 'rm -rf "$part"' EXIT
    timeout 180 mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
        "-Dartifact=org.duckdb:duckdb_jdbc:$version" "-DoutputDirectory=$part" >/dev/null 2>&1 \
        || skip "Maven cannot fetch duckdb_jdbc $version"
    mv "$part/$(basename "$jar")" "$jar"
fi
java -cp "$jar" "$here/DuckDbJdbc.java" "$@"
