"""Looks at the packages in a folder as those who install them get them.

    python packaging/check.py dist --most-mb 30

The wheel is of a manylinux tag and abi3, has the licence texts, a stripped module and metadata; it is installed into an
environment of its own, where the README's start runs. The sdist has all sources that a build needs.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"warpmill-[^-]+-cp3\d+-abi3-(?P<platform>[\w.]+)\.whl")
_EXTENSION = ("warpmill.duckdb_extension", "warpmill_nopython.so", "warpmill_nopython_names.so")
# Fails where DuckDB would run the statement itself.
_STRICT = """con.execute("SET warpmill_fallback = 'error'")
print(con.sql("SELECT sum(a) FROM t").fetchall())
"""
# The newest version of GCC's library that every system has whose glibc is 2.28 (PEP 600's policy manylinux_2_28).
_LIBSTDCXX = 24


def wheel_problems(wheel: Path, most_mb: float) -> list[str]:
    """What is wrong with a wheel."""
    found = []
    name = _NAME.fullmatch(wheel.name)
    if name is None:
        found.append(f"{wheel.name}: no abi3 wheel")
    elif "manylinux" not in name["platform"]:
        found.append(f"{wheel.name}: tagged {name['platform']}, which package indexes refuse")
    if wheel.stat().st_size > most_mb * 1e6:
        found.append(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, more than {most_mb:g}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        parts = ("licenses/LICENSE", "THIRD_PARTY_LICENSES.txt", "/py.typed", *_EXTENSION)
        missing = [part for part in parts if not any(name.endswith(part) for name in names)]
        found += [f"{wheel.name}: without {part}" for part in missing]
        modules = [name for name in names if name.startswith("warpmill/_warpmill") and name.endswith(".so")]
        found += [f"{module}: not stripped" for module in modules if b".symtab\0" in archive.read(module)]
        if len(modules) != 1:
            found.append(f"{wheel.name}: modules {modules}")
        text = (ROOT / "duckdb" / "build.py").read_text(encoding="utf-8")
        shims = [f"warpmill_shim-v{version}.so" for version in re.findall(r'Version\("([\d.]+)"', text)]
        found += [f"{wheel.name}: without {shim}" for shim in shims if not any(name.endswith(shim) for name in names)]
        glibc = re.search(r"manylinux_2_(\d+)", wheel.name)
        if glibc:
            for library in names:
                if library.endswith((".so", ".duckdb_extension")):
                    found += library_problems(library, archive.read(library), int(glibc[1]))
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        found += metadata_problems(archive.read(metadata).decode())
    return found


def library_problems(name: str, content: bytes, glibc: int) -> list[str]:
    """The versions that a library needs and systems with glibc 2.`glibc` may lack."""
    found = []
    for library, most in ((b"GLIBC_2", glibc), (b"GLIBCXX_3.4", _LIBSTDCXX)):
        needed = [int(version) for version in re.findall(rb"\0%b\.(\d+)[.\d]*(?=\0)" % re.escape(library), content)]
        if max(needed, default=0) > most:
            found.append(f"{name}: needs {library.decode()}.{max(needed)}, more than {library.decode()}.{most}")
    return found


def metadata_problems(text: str) -> list[str]:
    """What is missing in the metadata of a package."""
    fields = Parser().parsestr(text)
    wanted = ("License-Expression", "Requires-Python", "Summary", "Keywords", "Description-Content-Type")
    return [f"METADATA: without {field}" for field in wanted if not fields[field]]


def sdist_problems(sdist: Path) -> list[str]:
    """What is missing in an sdist."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = ["pyproject.toml", "Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "python/warpmill/__init__.py"]
    return [f"{sdist.name}: without {name}" for name in wanted if name not in names]


def start_runs(wheel: Path) -> list[str]:
    """The errors of the first Python blocks of README.md and docs/duckdb.md, where only what they need is installed."""
    blocks = [_BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))[0] for page in ("README.md", "docs/duckdb.md")]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        install: list[str | Path] = [python, "-m", "pip", "install", "--quiet"]
        door = [*install, f"{wheel.resolve()}[duckdb]"]
        accelerated = blocks[1] + _STRICT
        for command in ([*install, wheel.resolve()], [python, "-c", blocks[0]], door, [python, "-c", accelerated]):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                return [f"{' '.join(map(str, command[1:4]))}: {done.stderr.strip()}"]
    return []


def main() -> None:
    """Print what is wrong; exit with 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--most-mb", type=float, default=30, help="largest wheel (default: %(default)s)")
    options = parser.parse_args()
    wheels, sdists = sorted(options.folder.glob("*.whl")), sorted(options.folder.glob("*.tar.gz"))
    problems = [] if wheels else [f"no wheel in {options.folder}"]
    problems += [] if sdists else [f"no sdist in {options.folder}"]
    for wheel in wheels:
        problems += wheel_problems(wheel, options.most_mb) or start_runs(wheel)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    for sdist in sdists:
        problems += sdist_problems(sdist)
        print(f"{sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")
    print("\n".join(problems) or "all is well")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
