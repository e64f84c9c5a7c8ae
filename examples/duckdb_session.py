"""DuckDB with Warpmill inside: DuckDB's API, tables and transactions; SELECTs run on Warpmill where it can."""

import warpmill.duckdb as duckdb


def main() -> None:
    """Runs a query, and asks who ran it and why."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE trips AS SELECT i AS id, i % 7 AS zone, (i * 37 % 100) / 4 AS fare FROM range(100000) r(i)"
    )
    query = "SELECT zone, count(*) AS trips, avg(fare) AS fare FROM trips GROUP BY zone ORDER BY zone"
    print(con.sql(query).fetchall())
    accelerated, reason = con.execute("SELECT accelerated, reason FROM warpmill_last()").fetchall()[0]
    print("run by Warpmill" if accelerated else f"run by DuckDB: {reason}")
    # Rows that are not committed yet are seen, as by DuckDB itself.
    con.execute("BEGIN")
    con.execute("INSERT INTO trips VALUES (100000, 7, 1.0)")
    print(con.sql("SELECT count(DISTINCT zone) FROM trips").fetchall())
    con.execute("ROLLBACK")
    print(con.sql("SELECT count(DISTINCT zone) FROM trips").fetchall())


if __name__ == "__main__":
    main()
