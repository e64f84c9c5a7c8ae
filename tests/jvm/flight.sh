#!/usr/bin/env bash
# The Arrow JDBC driver against a running server: tests/jvm/flight.sh HOST:PORT [USER PASSWORD].
# Ends with 77, and says why, where Java, Maven or the driver cannot be had.
set -euo pipefail
source "$(dirname "$0")/driver.sh"
driver org.apache.arrow flight-sql-jdbc-driver 18.3.0
exec java --add-opens=java.base/java.nio=ALL-UNNAMED -cp "$jar" "$here/FlightJdbc.java" "$@"
