"""One query of Polars in a process of its own: ``python -m warpmill.bench.trial name=file...``, SQL on stdin."""

from __future__ import annotations

import resource
import sys

from warpmill.bench.engines import parquet_files
from warpmill.cli.doctor import memory


def main() -> None:
    """Run; an error is one line on stderr and exit code 1."""
    limit = int((memory() or 8 << 30) * 0.6)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    import polars

    context = polars.SQLContext({name: polars.scan_parquet(path) for name, path in parquet_files(sys.argv[1:]).items()})
    try:
        context.execute(sys.stdin.read(), eager=True)
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
