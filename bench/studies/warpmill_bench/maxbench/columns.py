"""The tables of the report: their columns, and the notes above them."""

from __future__ import annotations

from warpmill_bench.maxbench.errors import ANOTHER, HANDLED, PROBES
from warpmill_bench.maxbench.page import Column

ERRORS = (
    "Runs that the prediction has not seen. size: one size of a query, by the line through its other sizes. query: one "
    "query on a device, by its lines on the other devices and by all other queries. device: "
    f"all queries but {PROBES} on a device, by the other devices' complexities. {ANOTHER}: there is no other device of "
    "its kind, a CPU or one behind a link. transfers: time of the copies within a query, by the link measured alone. "
    "copies: runs that copy their input, by operators in place and links measured alone, one after the other as in the "
    f"paper; {HANDLED}: the same with a part at once and a cost of each copy, as found with other queries at other "
    "sizes."
)
BREAKDOWN = (
    "Input in page-locked (pinned) or pageable (host) memory, copied by every run, at the largest size. The total is "
    "measured; computing is the fitted time in place, copying that of the link alone. They sum to more than the total "
    "where they overlap."
)
CONFIGURATIONS = "Predicted times of all queries of a suite one after the other, at its largest measured size."

MACHINE = [
    Column("cpu", "CPU"),
    Column("cores", "cores"),
    Column("memory", "GiB"),
    Column("gpu", "GPU"),
    Column("date", "date"),
    Column("commit", "commit"),
    Column("command", "command"),
    Column("versions", "versions"),
]
ERROR = [
    Column("held_out", "held out"),
    Column("device", "device"),
    Column("location", "data"),
    Column("predictions", "predictions"),
    Column("median_error", "median error, %", unit=100),
    Column("p90_error", "90th percentile, %", unit=100),
    Column("largest_error", "largest, %", unit=100),
    Column("median_signed", "median with sign, %", unit=100),
]
LINK = [
    Column("link", "link"),
    Column("device", "device"),
    Column("bmax", "Bmax, GB/s", unit=1e-9),
    Column("s0", "s0, kB", unit=1e-3),
    Column("bytes_at_90_percent", "kB at 90%", unit=1e-3),
    Column("points", "sizes"),
    Column("median_error", "median error, %", unit=100),
    Column("largest_error", "largest, %", unit=100),
]
BREAK = [
    Column("suite", "suite"),
    Column("query", "query"),
    Column("size", "size", digits=6),
    Column("device", "device"),
    Column("location", "data"),
    Column("input_bytes", "MB copied", unit=1e-6),
    Column("total_ms", "total, ms"),
    Column("slowdown", "by fastest"),
    Column("computing_ms", "computing, ms"),
    Column("copying_ms", "copying, ms"),
    Column("kernels_ms", "kernels, ms"),
]
LINE = [
    Column("suite", "suite"),
    Column("query", "query"),
    Column("device", "device"),
    Column("a", "a, ns per byte", unit=1e9),
    Column("b", "b, ms", unit=1e3),
    Column("sizes", "sizes"),
    Column("largest_input", "largest input, MB", unit=1e-6),
    Column("median_error", "median error, %", unit=100),
    Column("largest_error", "largest, %", unit=100),
]
CROSSING = [
    Column("suite", "suite"),
    Column("device", "device"),
    Column("policy", "copies"),
    Column("gb_per_s", "GB/s beyond which computing takes longer"),
]
CONFIGURATION = [
    Column("suite", "suite"),
    Column("size", "size", digits=6),
    Column("device", "device"),
    Column("link", "link"),
    Column("queries", "queries"),
    Column("operators_seconds", "in place, ms", unit=1e3),
    Column("per_query_seconds", "copies per query, ms", unit=1e3),
    Column("per_data_set_seconds", "copies per data set, ms", unit=1e3),
    Column("transfer_share_per_query", "transfers per query, %", unit=100),
    Column("transfer_share_per_data_set", "transfers per data set, %", unit=100),
]
SELECTION = [
    Column("suite", "suite"),
    Column("query", "query"),
    Column("kept", "\N{GREEK SMALL LETTER SIGMA}"),
    Column("filter_seconds_per_byte", "filtering, ns per byte", unit=1e9),
    Column("filter_seconds", "filtering, ms", unit=1e3),
    Column("break_even", "pays below, GB/s", unit=1e-9),
]
RUN = [
    Column("suite", "suite"),
    Column("query", "query"),
    Column("size", "size", digits=6),
    Column("engine", "engine"),
    Column("device", "device"),
    Column("source", "source"),
    Column("location", "data"),
    Column("copy_policy", "copies"),
    Column("state", "state"),
    Column("median_ms", "median, ms"),
    Column("best_ms", "best, ms"),
    Column("rows", "rows"),
    Column("verified", "equal to DuckDB"),
    Column("error", "error"),
]
SKIPPED = [Column("machine", "machine"), Column("what", "what"), Column("reason", "reason")]

ENGINES_NOTE = (
    "Sums of medians over the queries that every engine and place of the same suite, size, source and state has run "
    "with DuckDB's rows. Engines take turns by process, not query by query."
)

ENGINES = [
    Column("suite", "suite"),
    Column("size", "size", digits=6),
    Column("source", "source"),
    Column("state", "state"),
    Column("engine", "engine"),
    Column("device", "device"),
    Column("location", "data"),
    Column("queries", "queries"),
    Column("total_ms", "sum, ms"),
    Column("by_fastest", "by fastest"),
]
