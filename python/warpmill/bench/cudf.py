"""cudf-polars as a peer: Polars on a GPU, in the Python environment that has it, with its own PDS-H queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpmill.bench.engines import TOLERANCES, Measured, Peer
from warpmill.bench.processes import Served, launch, rows_of

if TYPE_CHECKING:
    from warpmill.bench.engines import Setup


class CudfPolars(Peer):
    """A process that runs the queries of its PDS-H module, by number, over Parquet files.

    The module builds frames, no SQL, with constants of its own: a new statement is the same query, built again. Times
    are those of that process, from building the frame to the last row in host memory.
    """

    name = "cudf-polars"
    fixed_text = True
    tolerance = TOLERANCES[name]

    def __init__(self, setup: Setup, names: dict[str, str]) -> None:
        self._names = names
        self._served = Served(launch(self.name, setup))
        self.version: str = self._served.opened["version"]

    def run(self, sql: str) -> Any:
        """Run the query that this text has."""
        return self._served.answer(self._names[sql], sql)

    def rows(self, result: Any) -> list[tuple[Any, ...]]:
        """All rows."""
        return rows_of(result)

    def measured(self, result: Any) -> Measured:
        """The time that its process took."""
        return Measured(elapsed_ms=(result["answered"] - result["begun"]) / 1e6)

    def close(self) -> None:
        """End the process."""
        self._served.close()
