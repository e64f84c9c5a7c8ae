"""``warpmill bench model``."""

from __future__ import annotations

import datetime
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from warpmill.cli.options import pair

if TYPE_CHECKING:
    from warpmill_bench.maxbench.fits import Link


class Times(StrEnum):
    """The time that counts of several runs."""

    median = "median"
    best = "best"


EXAMPLES = (
    "Examples:\n\n"
    "warpmill bench model quick/matrix.json\n\n"
    'warpmill bench model h100/matrix.json h200/matrix.json --link "PCIe 7.0=242e9" --out both/'
)


def model(
    reports: Annotated[list[str], typer.Argument(metavar="MATRIX.json...", help="Reports of `warpmill bench matrix`.")],
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="DIR", help="Where model.json and report.html go (default: beside the first)."),
    ] = None,
    times: Annotated[
        Times, typer.Option("--times", help="The time of a query that counts: MaxBench takes the best of its runs.")
    ] = Times.median,
    link: Annotated[
        list[str] | None,
        typer.Option("--link", metavar="NAME=BYTES/S", help="A further link for predictions: its peak bandwidth."),
    ] = None,
) -> None:
    """Fit MaxBench's cost model to a matrix: links, queries, devices, limits, and errors of what was held out."""
    from warpmill_bench.maxbench import session
    from warpmill_bench.maxbench.report import Report

    places = [Path(name) for name in reports]
    matrices = [session.load(path) for path in places]
    if not any(row.get("median_ms") for one in matrices for row in one["runs"]):
        raise typer.BadParameter("no report has a time: there is nothing to fit")
    found = Report(matrices, _links(link or []), times.value)
    folder = Path(out) if out else places[0].parent
    folder.mkdir(parents=True, exist_ok=True)
    today, commit = datetime.date.today().isoformat(), session.commit()
    typed = sys.argv[sys.argv.index("model") + 1 :] if "model" in sys.argv else []
    content = found.as_json(" ".join(["warpmill", "bench", "model", *typed]), today, commit)
    (folder / "model.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "report.html").write_text(found.html(today, commit), encoding="utf-8")
    console = Console(width=None if sys.stdout.isatty() else 160)
    for shown in (_links_table(content), _devices_table(content), _errors_table(content)):
        console.print(shown)
    for name in ("model.json", "report.html"):
        typer.echo(folder / name)


def _links(texts: list[str]) -> dict[str, Link]:
    from warpmill_bench.maxbench.fits import Link

    found: dict[str, Link] = {}
    for name, value in (pair(text, "--link") for text in texts):
        try:
            bandwidth = float(value)
        except ValueError:
            raise typer.BadParameter(f"--link {name}={value}: bytes per second, such as 64e9") from None
        if not bandwidth > 0:
            raise typer.BadParameter(f"--link {name}={value}: more than 0")
        found[name] = Link(bandwidth, 0.0)
    return found


def _table(title: str, *heads: str) -> Table:
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for at, head in enumerate(heads):
        shown.add_column(head, justify="left" if at == 0 else "right")
    return shown


def _links_table(content: dict[str, Any]) -> Table:
    shown = _table("links", "link", "Bmax, GB/s", "s0, kB", "median error")
    for row in content["links"]:
        if row["points"]:
            name = f"{row['link']} ({row['device']})"
            shown.add_row(name, f"{row['bmax'] / 1e9:.3g}", f"{row['s0'] / 1e3:.3g}", f"{row['median_error']:.1%}")
    return shown


def _devices_table(content: dict[str, Any]) -> Table:
    shown = _table("devices", "device", "efficiency")
    found = content["characteristics"]
    for name, value in (found["devices"] if found else {}).items():
        shown.add_row(name, f"{value:.3g}")
    return shown


def _errors_table(content: dict[str, Any]) -> Table:
    shown = _table("errors", "held out", "device", "data", "predictions", "median", "90th percentile")
    for row in content["errors"]:
        numbers = (str(row["predictions"]), f"{row['median_error']:.1%}", f"{row['p90_error']:.1%}")
        shown.add_row(row["held_out"], row["device"], row["location"], *numbers)
    return shown
