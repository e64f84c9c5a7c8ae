"""A Flight SQL server in a process of its own, and a client through ADBC that brings rows in and queries them."""

import subprocess
import sys
import tempfile

import pyarrow as pa
from adbc_driver_flightsql import dbapi


def main() -> None:
    """Starts the server on a free port, uses it, and stops it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "warpmill", "serve", "--database", folder, "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            # The first line is: Warpmill serves grpc://127.0.0.1:PORT
            address = server.stdout.readline().split()[-1]
            with dbapi.connect(address, autocommit=True) as con, con.cursor() as cursor:
                rows = pa.table({"city": ["Oslo", "Rome", "Oslo"], "degrees": [4, 21, 6]})
                cursor.adbc_ingest("weather", rows, mode="create")
                cursor.execute(
                    "SELECT city, max(degrees) FROM weather WHERE degrees > ? GROUP BY city ORDER BY city", (3,)
                )
                print(cursor.fetchall())
                cursor.execute("SELECT * FROM weather ORDER BY degrees")
                print(cursor.fetch_arrow_table().to_pydict())
        finally:
            server.terminate()
            server.wait(timeout=30)


if __name__ == "__main__":
    main()
