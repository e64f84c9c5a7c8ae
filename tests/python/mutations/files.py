"""Small files of every supported kind, queries over them, and the layout of their bytes."""

from __future__ import annotations

import datetime
import decimal
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

import warpmill

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 600


@dataclass(frozen=True)
class Subject:
    """A file, or a folder of files, that is mutated."""

    name: str
    path: Path
    """The file that is mutated."""
    source: str
    """A query over a file, with ``{path}`` where the file's path is, or ``{folder}`` where that of its folder is."""
    queries: tuple[str, ...]
    """With ``{t}`` where the table is."""
    regions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Parts of the file, by what they are."""
    unnoticed: frozenset[str] = frozenset()
    """Regions in which no reader can notice every change."""
    claims: tuple[tuple[int, bytes], ...] = ()
    """Mutants that are tried first, each a place and what is there: lengths and places that claim too much."""


QUERIES = (
    "SELECT * FROM {t} ORDER BY k",
    "SELECT count(*), count(i), sum(k), min(k), max(k), min(text), max(text), sum(f) FROM {t}",
    "SELECT count(*) FROM {t}",
    "SELECT k, i, word FROM {t} WHERE k BETWEEN 250 AND 260 ORDER BY k",
    "SELECT word, count(*), sum(money), max(day) FROM {t} GROUP BY word ORDER BY word",
    "SELECT min(k), max(i), min(day) FROM {t}",
)


def rows(count: int = ROWS) -> pa.Table:
    """Types that matter, some NULLs, a sorted key."""
    day = datetime.date(1992, 1, 1)
    return pa.table(
        {
            "k": pa.array(range(count), pa.int64()),
            "i": pa.array([None if n % 11 == 0 else n * 13 % 41 - 20 for n in range(count)], pa.int32()),
            "b": pa.array([None if n % 7 == 3 else n % 3 == 0 for n in range(count)], pa.bool_()),
            "f": pa.array([n * 0.125 for n in range(count)], pa.float64()),
            "money": pa.array([decimal.Decimal(n * 37 - 9000) / 100 for n in range(count)], pa.decimal128(15, 2)),
            "day": pa.array([day + datetime.timedelta(days=n % 90) for n in range(count)], pa.date32()),
            "word": pa.array([None if n % 13 == 5 else ["", "nord", "süd", "hafen"][n * n % 4] for n in range(count)]),
            "text": pa.array([f"row {n} of {count}" for n in range(count)]),
        }
    )


WRITERS: dict[str, dict[str, Any]] = {
    "parquet with checksums": {"write_page_checksum": True, "write_page_index": True, "compression": "snappy"},
    "parquet": {"write_page_index": True, "compression": "snappy", "data_page_size": 512},
    "parquet of version 2": {"data_page_version": "2.0", "compression": "zstd", "store_decimal_as_integer": True},
    "parquet of differences": {
        "compression": "none",
        "use_dictionary": ["word"],
        "column_encoding": {"k": "DELTA_BINARY_PACKED", "f": "BYTE_STREAM_SPLIT", "text": "DELTA_BYTE_ARRAY"},
        "write_page_checksum": True,
    },
}


def parquet(folder: Path, name: str) -> Subject:
    """A Parquet file as one of `WRITERS` writes it."""
    path = folder / f"{name.replace(' ', '_')}.parquet"
    pq.write_table(rows(), path, row_group_size=200, **WRITERS[name])
    size = path.stat().st_size
    metadata = pq.read_metadata(path)
    footer = size - 8 - int.from_bytes(path.read_bytes()[-8:-4], "little")
    regions = {"footer": (footer, size - 8), "tail": (size - 8, size)}
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    chunks = [group.column(column) for group in groups for column in range(group.num_columns)]
    end = 4
    for number, chunk in enumerate(chunks):
        start = min(x for x in (chunk.dictionary_page_offset, chunk.data_page_offset) if x is not None)
        end = start + chunk.total_compressed_size
        regions[f"pages {number}"] = (start, end)
    if end < footer:
        regions["index"] = (end, footer)
    unnoticed = {"footer", "index"}
    if "write_page_checksum" not in WRITERS[name]:
        unnoticed |= {region for region in regions if region.startswith("pages")}
    return Subject(name, path, "'{path}'", QUERIES, regions, frozenset(unnoticed))


def text_file(folder: Path, name: str) -> Subject:
    """A CSV or JSON file: any change may change valid contents."""
    path = folder / f"rows.{name}"
    table = rows(60).drop_columns(["money", "day", "b"])
    if name == "csv":
        pyarrow.csv.write_csv(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    everything = {"text": (0, path.stat().st_size)}
    return Subject(name, path, "'{path}'", (QUERIES[0], QUERIES[2]), everything, frozenset(everything))


HUGE = {4: (-1, 1 << 30, (1 << 31) - 1), 8: (-1, 1 << 33, 1 << 40, (1 << 63) - 1)}
"""Numbers that lengths and places are changed to, by the bytes that they have."""


def claims(place: int, width: int) -> list[tuple[int, bytes]]:
    """Numbers of `width` bytes at `place` that claim too much."""
    return [(place, number.to_bytes(width, "little", signed=True)) for number in HUGE[width]]


def number(data: bytes, place: int, width: int) -> int:
    """The number at `place`."""
    return int.from_bytes(data[place : place + width], "little", signed=True)


def blocks(data: bytes, footer: int) -> list[int]:
    """The blocks in the footer of an Arrow file: offset, bytes of metadata, and bytes of data."""
    found = []
    for at in range(footer, len(data) - 34, 4):
        place, metadata, body = number(data, at, 8), number(data, at + 8, 4), number(data, at + 16, 8)
        if 8 <= place < footer and metadata > 8 and body > 0 and place + metadata + body <= footer:
            found.append(at)
    return found


def messages(data: bytes, start: int) -> list[tuple[int, int, int]]:
    """The messages of a stream from `start` on: offsets of the message, of its data, and of their end."""
    found, at = [], start
    while number(data, at, 4) == -1 and number(data, at + 4, 4) > 0:
        body, data_bytes = at + 8 + number(data, at + 4, 4), pyarrow.ipc.read_message(data[at:]).body
        end = body + (data_bytes.size if data_bytes is not None else 0)
        found.append((at, body, end))
        at = end
    return found


def arrow(folder: Path, name: str, compression: str | None = None) -> Subject:
    """An Arrow IPC file, or a stream."""
    path, table = folder / f"{name.replace(' ', '_')}.arrow", rows()
    table = table.append_column("kind", table["word"].dictionary_encode())
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    new = pyarrow.ipc.new_stream if "stream" in name else pyarrow.ipc.new_file
    with new(path, table.schema, options=options) as file:
        file.write_table(table, max_chunksize=200)
    data, regions = path.read_bytes(), {}
    footer = len(data)
    seeds: list[tuple[int, bytes]] = []
    if "stream" not in name:
        footer = len(data) - 10 - number(data, len(data) - 10, 4)
        regions["footer"] = (footer, len(data))
        seeds += claims(len(data) - 10, 4)
        first, *others = blocks(data, footer)
        for at in (first, *others):
            seeds += [*claims(at, 8), *claims(at + 8, 4), *claims(at + 16, 8)]
        # One part, as often as there are parts.
        seeds += [(at, data[first : first + 24]) for at in others]
    for count, (begin, body, end) in enumerate(messages(data, 0 if "stream" in name else 8)):
        regions[f"metadata {count}"] = (begin, body)
        regions[f"data {count}"] = (body, min(end, footer))
        seeds += claims(begin + 4, 4)
        length = (end - body).to_bytes(8, "little")
        seeds += [seed for at in range(begin, body, 8) if data[at : at + 8] == length for seed in claims(at, 8)]
        seeds += [*claims(body, 8), (body, (1).to_bytes(8, "little"))] if compression and end > body else []
    regions = {region: place for region, place in regions.items() if place[0] < place[1]}
    queries = (QUERIES[0], QUERIES[2], "SELECT kind, count(*), sum(k) FROM {t} GROUP BY kind ORDER BY kind")
    return Subject(name, path, "'{path}'", queries, regions, frozenset(regions), tuple(seeds))


def tables(folder: Path) -> list[Subject]:
    """The files of a table of ours: two versions, codecs, metadata; and the log of another one."""
    database = folder / "database"
    with warpmill.connect(database, codec="lz4", segment_rows=1024, pruning_metadata="all") as con:
        con.create_table("t", rows())
        con.sql("INSERT INTO t SELECT k + 600, i, b, f, money, day, word || 'x', text FROM t")
    found = []
    for path in sorted((database / "t").iterdir()):
        if path.suffix in {".manifest", ".data"}:
            regions = {path.suffix[1:]: (0, path.stat().st_size)}
            found.append(Subject(f"own {path.suffix[1:]}", path, "t", QUERIES, regions))
    logged = folder / "logged"
    with warpmill.connect(logged) as con:
        con.create_table("t", rows(200))
        for n in range(5):
            kept = "i, b, f, money, day, word || 'x', text"
            con.sql(f"INSERT INTO t SELECT k + {200 + 9 * n}, {kept} FROM t WHERE k < 9")
    (log,) = (logged / "t").glob("*.log")
    found.append(Subject("own log", log, "t", QUERIES, {"log": (0, log.stat().st_size)}))
    return found


def subjects(folder: Path) -> list[Subject]:
    """One of each kind."""
    return [
        *(parquet(folder, name) for name in WRITERS),
        *(text_file(folder, name) for name in ("csv", "json")),
        arrow(folder, "arrow"),
        arrow(folder, "arrow stream"),
        arrow(folder, "arrow of lz4", "lz4"),
        arrow(folder, "arrow stream of zstd", "zstd"),
        *tables(folder),
    ]
