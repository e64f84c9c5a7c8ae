"""``warpmill doctor``: what this machine has, and what Warpmill will use of it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import warpmill
from warpmill import _cpu, _warpmill
from warpmill.cli.hardware import hardware_rows
from warpmill.cli.units import size

PEERS = ("duckdb", "datafusion", "polars", "pyarrow", "pandas")


def cpu_model() -> str:
    """The CPU's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int | None:
    """Bytes of main memory: the machine's, or the container's limit where that is lower."""
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(limit).read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue
    return total


def versions(packages: tuple[str, ...]) -> dict[str, str | None]:
    """Installed versions; None for what is missing."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def report() -> dict[str, Any]:
    """Everything that the command shows."""
    flags = _cpu.flags() or frozenset()
    disk = os.statvfs(".")
    with warpmill.connect() as con:
        settings = {name: value for name, value in con.settings().items() if name.startswith("warpmill.")}
        answer = con.sql("SELECT 6 * 7").fetchone()
    return {
        "machine": {
            "cpu": cpu_model(),
            "cores": cores(),
            "vector": [name for name in ("avx2", "avx512f", "avx512_vbmi") if name in flags],
            "memory_bytes": memory(),
            "disk_free_bytes": disk.f_bavail * disk.f_frsize,
            "os": platform.platform(),
        },
        "devices": json.loads(_warpmill.devices()),
        "software": {
            "warpmill": warpmill.__version__,
            "python": platform.python_version(),
            "executable": sys.executable,
            **versions(PEERS),
        },
        "hardware": json.loads(_warpmill.hardware()),
        "settings": settings,
        "problems": _problems(answer),
    }


def _problems(answer: object) -> list[str]:
    found = [f"the CPU lacks {flag}" for flag in _cpu.missing()]
    if answer != (42,):
        found.append(f"SELECT 6 * 7 returned {answer}")
    total = memory()
    if total is not None and total < 2 << 30:
        found.append("less than 2 GiB of memory: large joins and aggregates will reach the limit")
    return found


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Measure this machine first (half a minute; nothing else should run), and keep the rates.",
        ),
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="With --calibrate: a folder on the drive that tables are on (default: the current one)."),
    ] = None,
) -> None:
    """Show what this machine has, and what Warpmill will use of it. Exit code 1 where something is wrong."""
    if folder is not None and not calibrate:
        raise typer.BadParameter("is for --calibrate", param_hint="--folder")
    if calibrate:
        _calibrate(folder or Path())
    found = report()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        _show(found)
    if found["problems"]:
        raise typer.Exit(1)


def _calibrate(folder: Path) -> None:
    """Measure the machine, with a line for each part on a terminal."""
    console = Console(stderr=True)
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is not a folder", param_hint="--folder")
    with console.status("measuring") as status:
        missing = _warpmill.calibrate(str(folder), lambda name: status.update(f"measuring: {name}"))
    for reason in missing:
        console.print(f"[yellow]not measured:[/yellow] {escape(reason)}")


def _links(links: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Lines for links between GPUs whose transfers go through the host, with the reason."""
    staged = [link for link in links if link["staged"]]
    rows = (
        [("GPU links", f"{len(links) - len(staged)} of {len(links)} direct, checked with a pattern")] if links else []
    )
    for link in staged:
        way = f"GPU {link['source']} to {link['destination']}"
        rows.append(("", f"[yellow]{way} through the host: {escape(link['staged'])}[/yellow]"))
    return rows


def _devices(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Lines of the table: devices that were found, and missing libraries."""
    rows = []
    for gpu in found["gpus"]:
        capability = f"{gpu['arch'][3:-1]}.{gpu['arch'][-1]}"
        free = f"{size(gpu['free_bytes'])} of {size(gpu['memory_bytes'])} free"
        rows.append((f"GPU {gpu['ordinal']}", f"{escape(gpu['name'])}, compute capability {capability}, {free}"))
        rows.append(("driver", f"CUDA {gpu['driver']}"))
    rows.extend(_links(found["links"]))
    if found["no_gpu"]:
        rows.append(("GPU", escape(found["no_gpu"])))
    nvrtc = found["nvrtc"]
    where = escape(nvrtc["path"] or "found by the loader") if nvrtc else ""
    rows.append(("NVRTC", f"{nvrtc['version']}, {where}" if nvrtc else "not found"))
    if found["no_nvrtc"] and found["gpus"]:
        rows.append(("", f"[yellow]{escape(found['no_nvrtc'])}[/yellow]"))
    nvcomp = found["nvcomp"]
    where = escape(nvcomp["path"] or "found by the loader") if nvcomp else ""
    rows.append(
        ("nvCOMP", f"{nvcomp['version']}, {where}" if nvcomp else "not found: the host undoes zstd and deflate")
    )
    if found["no_nvcomp"] and found["gpus"]:
        rows.append(("", f"[dim]{escape(found['no_nvcomp'])}[/dim]"))
    missing = found["no_simulated_device"]
    rows.append(("simulated device", escape(missing) if missing else "available: there is a C++ compiler"))
    first = " (GPU 0)" if found["default"] == "gpu" else ""
    rows.append(("queries run on", f"the {found['default'].upper()}{first}, unless warpmill.device says otherwise"))
    return rows


def _show(found: dict[str, Any]) -> None:
    console = Console()
    machine = found["machine"]
    out = Table(box=box.SIMPLE, show_header=False)
    out.add_row("CPU", machine["cpu"])
    out.add_row("cores", f"{machine['cores']} (Warpmill uses all of them unless told --threads)")
    out.add_row("vector units", ", ".join(machine["vector"]) or "none known")
    out.add_row("memory", size(machine["memory_bytes"]))
    out.add_row("free disk here", size(machine["disk_free_bytes"]))
    for title, text in _devices(found["devices"]):
        out.add_row(title, text)
    for title, text in hardware_rows(found["hardware"]):
        out.add_row(title, text)
    for name, version in found["software"].items():
        out.add_row(name, version or "not installed")
    for name, value in found["settings"].items():
        out.add_row(f"[dim]{name}[/dim]", f"[dim]{value}[/dim]")
    console.print(out)
    for problem in found["problems"]:
        console.print(f"[red]problem:[/red] {problem}")
    if not found["problems"]:
        console.print("[green]ready[/green]")
