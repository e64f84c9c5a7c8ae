"""Queries over Parquet files on the CPU, without importing them."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import warpmill


def write_files(folder: Path) -> None:
    """Two files with the orders of two months."""
    for month, amounts in ((1, [10, 20, 30]), (2, [5, 50])):
        rows = {"month": [month] * len(amounts), "city": ["Oslo", "Rome", "Oslo"][: len(amounts)], "amount": amounts}
        pq.write_table(pa.table(rows), folder / f"orders-{month}.parquet")


def main() -> None:
    """Queries a folder of files twice; the second query finds the columns encoded."""
    with tempfile.TemporaryDirectory() as name, warpmill.connect(device="cpu") as con:
        folder = Path(name)
        write_files(folder)
        con.register_file("orders", folder / "*.parquet")
        con.sql("SELECT city, sum(amount) AS total FROM orders GROUP BY city ORDER BY city").show()
        largest = con.sql("SELECT month, max(amount) AS largest FROM orders GROUP BY month ORDER BY month")
        print(largest.fetchall())
        largest.write(str(folder / "largest.csv"))
        print((folder / "largest.csv").read_text())


if __name__ == "__main__":
    main()
