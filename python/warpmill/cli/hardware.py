"""The hardware profile as ``warpmill doctor`` shows it."""

from __future__ import annotations

from typing import Any

from rich.markup import escape

SOURCES = {
    "assumed": "assumptions; `warpmill doctor --calibrate` measures this machine",
    "file": "measured, in {file}",
    "refused": "assumptions, for {file} is not used: {reason}",
    "installed": "given by the process",
}


def _rate(per_second: float, unit: str = "B") -> str:
    """A rate with a prefix: 1.5e9 is ``1.5 GB/s``."""
    for limit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if per_second >= limit:
            return f"{per_second / limit:.3g} {prefix}{unit}/s"
    return f"{per_second:.3g} {unit}/s"


def _curve(curve: dict[str, float]) -> str:
    half = curve["half"]
    return _rate(curve["bandwidth"]) + (f", half of it at {half / 1024:.0f} KiB" if half >= 1024 else "")


def _codecs(rates: dict[str, float]) -> str:
    return ", ".join(f"{name} {_rate(rate)}" for name, rate in rates.items())


def hardware_rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Lines of the table: the source of the rates, then each rate, with a mark on assumptions."""
    profile = found["profile"]
    cpu, measured = profile["cpu"], set(profile["measured"])

    def row(title: str, text: str, rate: str, among: set[str]) -> tuple[str, str]:
        return title, text if rate in among else f"{text} [dim](assumed)[/dim]"

    rows = [
        ("rates", escape(SOURCES[found["origin"]].format(file=found["file"], reason=found["reason"]))),
        row("scans, a thread", _rate(cpu["values"], " values"), "values", measured),
        row("joins, a thread", _rate(cpu["near"], " rows"), "near", measured),
        row("joins beyond the caches", _rate(cpu["far"], " rows"), "far", measured),
        row("copies, a thread", f"{_rate(cpu['copy'])}, all {_rate(cpu['copy_limit'])}", "copy", measured),
        row("decompression, a thread", _codecs(cpu["codecs"]), "host_codecs", measured),
        row("reading files", _curve(profile["storage"]), "storage", measured),
    ]
    for device in profile["devices"]:
        name, own = escape(device["name"]), set(device["measured"])
        rows += [
            row(f"{name}: link", _curve(device["link"]), "link", own),
            row(f"{name}: back", _curve(device["back"]), "back", own),
            row(f"{name}: memory", _rate(device["memory"]), "memory", own),
        ]
    return rows
