"""Numbers for people."""

from __future__ import annotations


def size(count: float | None) -> str:
    """Bytes in units of 1000: 1.2 GB."""
    if count is None:
        return ""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("unreachable")


def milliseconds(ms: float | None) -> str:
    """A time with three digits that matter."""
    if ms is None:
        return "-"
    if ms >= 10_000:
        return f"{ms / 1000:.2f} s"
    digits = 0 if ms >= 100 else 1 if ms >= 10 else 2 if ms >= 1 else 3
    return f"{ms:.{digits}f} ms"


def ratio(plain: int | None, stored: int | None) -> str:
    """The factor by which stored bytes are smaller."""
    return f"{plain / stored:.2f}x" if plain and stored else ""
