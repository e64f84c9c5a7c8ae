"""``warpmill import``, ``generate`` and ``inspect``: tables on disk."""

from __future__ import annotations

import json
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

import warpmill
from warpmill import _warpmill
from warpmill.cli import options
from warpmill.cli.progress import bars
from warpmill.cli.units import ratio, size

IMPORT_EXAMPLES = (
    "Examples:\n\n"
    "warpmill import sales.parquet shop/sales\n\n"
    "warpmill import 'logs/*.csv' db/logs --sort-by day,host --replace\n\n"
    "warpmill import sales.parquet shop/sales --codec auto --objective balanced\n\n"
    "warpmill import orders.parquet shop/orders --cluster auto --sideways customer_id=customers.id:country"
)
GENERATE_EXAMPLES = "Example: warpmill generate ssb --sf 1 --out ssb/"
INSPECT_EXAMPLES = "Examples:\n\nwarpmill inspect ssb/lineorder\n\nwarpmill inspect lineorder --database ssb/ --json"


class PruningMetadata(StrEnum):
    """Metadata by which queries skip rows."""

    auto = "auto"
    none = "none"
    minmax = "minmax"
    histogram = "histogram"
    bloom = "bloom"
    all = "all"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


class CodecName(StrEnum):
    """Codecs of column chunks."""

    none = "none"
    lz4 = "lz4"
    snappy = "snappy"
    zstd = "zstd"
    deflate = "deflate"
    gdeflate = "gdeflate"
    auto = "auto"


class ObjectiveName(StrEnum):
    """The objective of `--codec auto`."""

    time = "time"
    size = "size"
    balanced = "balanced"


def _place(target: str) -> tuple[str, str]:
    """Database directory and table name of DIR/table."""
    path = Path(target)
    if not path.name:
        raise typer.BadParameter(f"{target!r} names no table: write DIR/table")
    return str(path.parent), path.name


def import_(
    source: Annotated[
        str, typer.Argument(metavar="SRC", help="A Parquet or CSV file, a quoted glob, or a URL (s3://, https://).")
    ],
    target: Annotated[
        str,
        typer.Argument(metavar="DIR/TABLE", help="Database directory and name of the new table, or DIR/SCHEMA.TABLE."),
    ],
    sort_by: Annotated[
        str | None, typer.Option("--sort-by", metavar="COL,...", help="Sort rows by these columns first.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="auto|COL,...",
            help="Sort rows by these columns or attributes of --sideways; auto: by those with the fewest values.",
        ),
    ] = None,
    pruning: Annotated[
        PruningMetadata, typer.Option("--pruning", help="Metadata by which queries skip rows.")
    ] = PruningMetadata.auto,
    sideways: Annotated[
        list[str] | None,
        typer.Option(
            "--sideways",
            metavar="COL=TABLE.KEY:ATTR,...",
            help="Store pruning metadata of attributes of another table, which COL refers to. Repeatable.",
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the rows of a table that exists.")] = False,
    codec: Annotated[
        CodecName | None,
        typer.Option("--codec", help="Compress column chunks; auto: the best for each column (default: none)."),
    ] = None,
    objective: Annotated[
        ObjectiveName | None,
        typer.Option("--objective", help="Goal of --codec auto: scan time (default), size, or both."),
    ] = None,
    codec_sample: Annotated[
        float | None, typer.Option("--codec-sample", metavar="PART", help="Part of a column that is sampled (0.1).")
    ] = None,
    codec_block: Annotated[
        str | None, typer.Option("--codec-block", metavar="SIZE", help="Bytes of a codec's block, such as 64KiB.")
    ] = None,
    codec_light: Annotated[
        bool, typer.Option("--codec-light", help="Store compressed chunks uncompressed, too; queries read either.")
    ] = False,
    set_: options.Settings = None,
    as_json: Json = False,
) -> None:
    """Read files into a table of compressed segments: all of them, or nothing."""
    directory, name = _place(target)
    if sort_by and cluster:
        raise typer.BadParameter("--sort-by and --cluster exclude each other: both give the order of rows")
    keys = [key.strip() for key in sort_by.split(",")] if sort_by else []
    start = time.perf_counter()
    with options.connect(directory, None, None, None, set_) as con, bars(quiet=as_json) as bar:
        con.create_table(
            name,
            source if "://" in source else Path(source),
            sort_by=keys,
            cluster=[key.strip() for key in cluster.split(",")] if cluster else [],
            pruning=pruning.value,
            sideways=sideways or [],
            replace=replace,
            codec=codec.value if codec else None,
            objective=objective.value if objective else None,
            codec_sample=codec_sample,
            codec_block=codec_block,
            codec_light=True if codec_light else None,
            progress=bar(name),
        )
        table = con.info(name)
    _report([table], time.perf_counter() - start, as_json)


def generate(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="tpch, ssb or taxi.")],
    sf: Annotated[float, typer.Option("--sf", help="Scale factor: 1 is about 6 million rows in the largest table.")],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Database directory, made where it is missing.")],
    threads: Annotated[int, typer.Option("--threads", min=0, help="Worker threads, 0: all.")] = 0,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write Parquet files, not Warpmill tables.")] = False,
    as_json: Json = False,
) -> None:
    """Make a benchmark's tables."""
    start = time.perf_counter()
    names = _warpmill.tables(suite)
    if parquet:
        Path(out).mkdir(parents=True, exist_ok=True)
        with bars(quiet=as_json) as bar:
            for name in names:
                path = str(Path(out) / f"{name}.parquet")
                _warpmill.generate_parquet(suite, name, sf, path, threads, bar(name))
        if as_json:
            typer.echo(json.dumps({"files": [str(Path(out) / f"{name}.parquet") for name in names]}))
        return
    with warpmill.connect(out) as con, bars(quiet=as_json) as bar:
        for name in names:
            con.generate(suite, name, sf, threads=threads, progress=bar(name))
        made = [table for table in con.tables() if table.name in names]
    _report(made, time.perf_counter() - start, as_json)


def _report(tables: list[warpmill.TableInfo], seconds: float, as_json: bool) -> None:
    if as_json:
        rows = [vars(table) for table in tables]
        typer.echo(json.dumps({"seconds": round(seconds, 3), "tables": rows}))
        return
    out = Table(box=box.SIMPLE)
    for name in ("table", "rows", "stored", "plain", "ratio"):
        out.add_column(name, justify="left" if name == "table" else "right")
    for table in tables:
        out.add_row(
            table.qualified,
            f"{table.rows:,}" if table.rows is not None else "",
            size(table.stored_bytes),
            size(table.plain_bytes),
            ratio(table.plain_bytes, table.stored_bytes),
        )
    console = Console()
    console.print(out)
    console.print(f"{seconds:.1f} s", style="dim")


def inspect(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A table's name with --database, or DIR/table.")],
    database: options.Database = None,
    as_json: Json = False,
) -> None:
    """Show how a table is stored: encodings, bytes and ratio of every column."""
    directory, name = (database, table) if database is not None else _place(table)
    if not Path(directory).is_dir():
        raise FileNotFoundError(f"no such database directory: {directory}")
    with warpmill.connect(directory) as con:
        columns = con.inspect(name)
    if as_json:
        typer.echo(json.dumps({"table": name, "columns": columns}))
        return
    deleted = columns[0]["deleted"] if columns else 0
    title = f"{name}, {deleted} of {columns[0]['rows']} rows are deleted: OPTIMIZE drops them" if deleted else name
    out = Table(box=box.SIMPLE, title=title, title_justify="left")
    numbers = ("stored", "plain", "light", "heavy", "ratio", "GB/s")
    for title in ("column", "type", "encodings", "codec", *numbers):
        out.add_column(title, justify="right" if title in numbers else "left")
    stored = plain = light = 0
    for column in columns:
        stored, plain = stored + column["stored_bytes"], plain + column["plain_bytes"]
        light += column["light_bytes"]
        rate = column["predicted_bytes_per_s"]
        kinds = ", ".join(f"{kind} x{count}" for kind, count in column["encodings"].items())
        out.add_row(
            column["name"],
            column["type"],
            kinds,
            _codecs(column),
            size(column["stored_bytes"]),
            size(column["plain_bytes"]),
            ratio(column["plain_bytes"], column["light_bytes"]),
            ratio(column["light_bytes"], column["stored_bytes"]),
            ratio(column["plain_bytes"], column["stored_bytes"]),
            f"{rate / 1e9:.1f}" if rate else "",
        )
    out.add_section()
    ratios = (ratio(plain, light), ratio(light, stored), ratio(plain, stored))
    out.add_row("all", "", "", "", size(stored), size(plain), *ratios, "")
    # A pipe has no width: let lines be as long as they are.
    Console(width=None if sys.stdout.isatty() else 160).print(out)


def _codecs(column: dict[str, Any]) -> str:
    """The codecs of a column's segments with their block sizes; a plus marks codecs of second forms."""

    def told(codecs: dict[str, int], blocks: list[int]) -> str:
        kinds = ", ".join(f"{name} x{count}" for name, count in codecs.items())
        return f"{kinds} ({', '.join(f'{block // 1024}K' for block in sorted(set(blocks)))})"

    if column["heavy"]:
        # In addition to the light encodings.
        return f"+ {told(column['heavy'], column['heavy_block_bytes'])}, {size(column['heavy_bytes'])}"
    return told(column["codecs"], column["block_bytes"]) if set(column["codecs"]) != {"none"} else ""
