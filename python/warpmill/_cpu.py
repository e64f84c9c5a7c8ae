"""The features that the CPU must have: the native module is compiled for x86-64-v3 (AVX2, 2013 and later)."""

from __future__ import annotations

import os

#: Flags of /proc/cpuinfo that x86-64-v3 requires.
REQUIRED = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})


def flags() -> frozenset[str] | None:
    """Feature flags of this CPU, or None where the system does not tell."""
    try:
        # The first CPU's are all that is read: the file has a part for each, which takes time to make.
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "flags":
                    return frozenset(value.split())
    except OSError:
        return None
    return None


def missing() -> list[str]:
    """Required features that this CPU lacks; empty on other architectures."""
    found = flags()
    if os.uname().machine not in ("x86_64", "AMD64") or found is None:
        return []
    return sorted(REQUIRED - found)


def require() -> None:
    """Raise ImportError with a clear message where the native module would die of an illegal instruction."""
    lacking = missing()
    if lacking:
        raise ImportError(
            f"warpmill needs a CPU with AVX2 (x86-64-v3); this one lacks {', '.join(lacking)}. "
            "Building from source with RUSTFLAGS='-C target-cpu=native' runs, slowly, on older CPUs."
        )
