"""A directory of compressed tables: rows come in, change, and stay for the next process."""

import tempfile

import pyarrow as pa

import warpmill


def main() -> None:
    """Creates, fills and changes tables, reads an older version, and opens the directory again."""
    with tempfile.TemporaryDirectory() as folder:
        with warpmill.connect(folder) as con:
            con.set("keep_versions", 5)
            con.create_table("cities", pa.table({"city": ["Oslo", "Rome"], "country": ["NO", "IT"]}))
            con.execute("CREATE TABLE sales (city VARCHAR NOT NULL, day DATE, amount DECIMAL(9, 2))")
            con.execute("INSERT INTO sales VALUES ('Oslo', DATE '2026-01-01', 10.5), ('Rome', DATE '2026-01-01', 20)")
            con.execute("INSERT INTO sales VALUES (?, ?, ?)", ["Oslo", "2026-01-02", 3])
            con.execute("UPDATE sales SET amount = amount * 2 WHERE city = 'Rome'")
            con.execute("DELETE FROM sales WHERE day > DATE '2026-01-01'")
            con.sql(
                "SELECT country, sum(amount) AS total FROM sales JOIN cities USING (city) GROUP BY ALL ORDER BY ALL"
            ).show()
            # CREATE TABLE made version 1, each statement since then one more.
            print("now:", con.sql("SELECT count(*) FROM sales").fetchall())
            print("before DELETE:", con.sql("SELECT count(*) FROM sales AT (VERSION => 4)").fetchall())
        with warpmill.connect(folder) as con:
            print([table.name for table in con.tables()], con.sql("SELECT sum(amount) FROM sales").fetchall())
            for column in con.inspect("sales"):
                print(column["name"], column["type"], column["encodings"])


if __name__ == "__main__":
    main()
