"""Reports of `warpmill bench matrix` as machines of known links, complexities and efficiencies would give them."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Seconds per byte on a device of efficiency 1, and seconds of any size.
QUERIES = {"1": (8e-11, 2e-3), "3": (4e-11, 1.5e-3), "6": (1e-11, 1e-3), "9": (6e-11, 3e-3), "18": (9e-11, 4e-3)}

#: Bytes of a query's input at size 1, and of the tables.
INPUTS = {"1": 2e8, "3": 3e8, "6": 1.5e8, "9": 4e8, "18": 2.5e8}
TABLES = 8e8

SIZES = (1.0, 3.0, 10.0, 30.0)


def matrix(
    gpu: str,
    efficiency: float,
    bmax: float,
    s0: float,
    noise: float = 0.0,
    overlap: float = 0.0,
    seed: int = 0,
    pieces: int = 0,
    each: float = 0.0,
) -> dict[str, Any]:
    """The report of a machine with a GPU so much faster than efficiency 1, behind a link.

    Inputs are copied at once, or in so many pieces at size 1; the engine needs `each` seconds for each copy.
    """
    random = np.random.default_rng(seed)

    def noisy(seconds: float) -> float:
        return seconds * float(random.uniform(1 - noise, 1 + noise))

    def copying(size: float, copies: int = 1) -> float:
        return (size + copies * s0) / bmax

    runs: list[dict[str, Any]] = []
    for size in SIZES:
        for query, (slope, fixed) in QUERIES.items():
            bytes_in = INPUTS[query] * size
            computing = slope / efficiency * bytes_in + fixed
            count = pieces * int(size) or 1
            for location in ("device", "pinned"):
                copied = bytes_in if location == "pinned" else 0.0
                comm = copying(copied, count) if copied else 0.0
                begun = each * count if copied else 0.0
                total = noisy(computing + comm - overlap * min(computing, comm) + begun)
                copies = {"to device": {"bytes": copied, "count": count, "ms": 1e3 * comm}} if copied else {}
                runs.append(
                    {
                        "suite": "tpch",
                        "size": size,
                        "query": query,
                        "engine": "warpmill",
                        "site": "gpu",
                        "source": "tables",
                        "location": location,
                        "state": "repeated",
                        "result": "host",
                        "copy_policy": "per-query" if copied else "per-dataset",
                        "median_ms": 1e3 * total,
                        "best_ms": 1e3 * total,
                        "runs_ms": [1e3 * total],
                        "rows": 4,
                        "verified": True,
                        "devices": ["gpu"],
                        "device_name": f"NVIDIA {gpu} 80GB HBM3",
                        "kernel_ms": 1e3 * computing / 2,
                        "operators_ms": {"join": 300 * computing, "group by": 200 * computing},
                        "transfers": copies,
                        "bytes_read": bytes_in,
                        "first_to_device_bytes": TABLES * size / len(QUERIES) if not copied else bytes_in,
                    }
                )
    sizes = [4**power for power in range(6, 16)]
    return {
        "benchmark": "matrix",
        "form": 1,
        "version": "0.1.0",
        "date": "2026-11-26",
        "commit": "0123456789ab",
        "command": "warpmill bench matrix --out somewhere",
        "quick": False,
        "threads": 8,
        "machine": {
            "cpu": "AMD EPYC 9124 16-Core Processor",
            "cores": 16,
            "gpu": gpu,
            "memory_bytes": 2**37,
            "versions": {},
        },
        "links": [
            {"link": "pinned to device", "device": gpu, "bytes": size, "seconds": noisy(copying(size))}
            for size in sizes
        ],
        "data": [{"suite": "tpch", "size": size, "table_bytes": TABLES * size} for size in SIZES],
        "filters": [
            {
                "suite": "tpch",
                "size": size,
                "query": "6",
                "rows": 1000,
                "rows_kept": 20,
                "median_ms": 1e3 * 5e-11 * 1.5e8 * size,
            }
            for size in SIZES
        ],
        "runs": runs,
        "skipped": [{"what": "cudf-polars", "reason": "it is not installed"}],
        "sessions": [],
        "left": [],
    }


def on_cpu(report: dict[str, Any], efficiency: float) -> list[dict[str, Any]]:
    """Runs on the machine's CPU, which skips parts of tables: it reads a fifth, and at smaller sizes another part."""
    return [
        {
            **row,
            "site": "cpu",
            "location": "host",
            "devices": ["cpu"],
            "device_name": None,
            "transfers": {},
            "first_to_device_bytes": 0,
            "bytes_read": row["bytes_read"] / 5 * (1 if row["size"] == SIZES[-1] else 0.7),
            "median_ms": 1e3 * (QUERIES[row["query"]][0] / efficiency * row["bytes_read"] + QUERIES[row["query"]][1]),
        }
        for row in report["runs"]
        if row["location"] == "device"
    ]
