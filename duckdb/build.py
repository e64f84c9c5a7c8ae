"""Builds the DuckDB extension: fetches headers, compiles one shim per DuckDB version, packs the first stage.

    python duckdb/build.py --loader target/release/libwarpmill_duckdb_loader.so --out python/warpmill/duckdb/extension

The headers of a DuckDB version come from the crate `libduckdb-sys` of that version (crates.io), which holds its
sources. They are kept under target/duckdb-headers; nothing of DuckDB is compiled.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "duckdb" / "src"


@dataclass(frozen=True)
class Version:
    """A DuckDB version with a shim."""

    duckdb: str
    """As DuckDB calls itself, without the leading v."""
    crate: str
    """The version of libduckdb-sys that holds it."""
    sha256: str
    """Of the crate file."""

    @property
    def number(self) -> int:
        """20000 for 2.0.0: what the sources compare with."""
        major, minor, patch = map(int, self.duckdb.split("."))
        return major * 10000 + minor * 100 + patch


VERSIONS = [
    Version("1.5.6", "1.10506.1", "113d1c26c9f518405a17b5729bb6ab6abf029fdc46626406922cf9a8dc9b4609"),
    Version("2.0.0", "1.20000.1", "0140448c472968ee5cf5ba697435deebe558b366ef1e5c080d24d9696b600725"),
]

# The end of a DuckDB extension: eight fields of 32 bytes, the last one first, and room for a signature of 256 bytes.
MAGIC, PLATFORM, C_API, ABI = "4", "linux_amd64", "v1.2.0", "C_STRUCT"


def fetch(version: Version, folder: Path) -> Path | None:
    """The include folder of a version; None, with a warning, where its headers cannot be downloaded."""
    include = folder / version.duckdb / "include"
    if include.is_dir():
        return include
    name = f"libduckdb-sys-{version.crate}.crate"
    url = f"https://static.crates.io/crates/libduckdb-sys/{name}"
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    if cached := next(cargo.glob(f"registry/cache/*/{name}"), None):
        # The first stage depends on one of them.
        crate = cached.read_bytes()
    else:
        print(f"fetching {url}", flush=True)
        try:
            with urllib.request.urlopen(url, timeout=120) as response:
                crate = response.read()
        except OSError as error:
            print(f"no shim for DuckDB {version.duckdb}: its headers cannot be fetched: {error}", file=sys.stderr)
            return None
    found = hashlib.sha256(crate).hexdigest()
    if found != version.sha256:
        sys.exit(f"{url} has the checksum {found}, not {version.sha256}")
    with tarfile.open(fileobj=io.BytesIO(crate)) as outer:
        packed = outer.extractfile(f"libduckdb-sys-{version.crate}/duckdb.tar.gz")
        assert packed is not None
        sources = packed.read()
    unpacked = folder / f"{version.duckdb}.tmp-{os.getpid()}"
    with tarfile.open(fileobj=io.BytesIO(sources)) as inner:
        wanted = [
            member
            for member in inner.getmembers()
            if member.name.startswith("duckdb/src/include/") or member.name.endswith("/pragma_version.cpp")
        ]
        inner.extractall(unpacked, members=wanted, filter="data")
    shutil.rmtree(include.parent, ignore_errors=True)
    include.parent.mkdir(parents=True)
    (unpacked / "duckdb/src/include").rename(include)
    next(unpacked.rglob("pragma_version.cpp")).rename(include.parent / "version.cpp")
    shutil.rmtree(unpacked)
    return include


def interface() -> int:
    """The version of the interface to the engine, as in `interface.rs`: FNV-1a of the header."""
    checksum = 0x811C9DC5
    for byte in (SOURCES / "engine.h").read_bytes():
        checksum = (checksum ^ byte) * 0x01000193 % (1 << 32)
    return checksum


def compile_shim(version: Version, include: Path, out: Path) -> Path:
    """One shared library from all sources, against the headers of one version."""
    text = (include.parent / "version.cpp").read_text()
    names = dict(re.findall(r'#define (DUCKDB_\w+) "([^"]+)"', text))
    target = out / f"warpmill_shim-v{version.duckdb}.so"
    newest = max(path.stat().st_mtime for path in SOURCES.iterdir())
    if target.exists() and target.stat().st_mtime > newest:
        return target
    command = [
        os.environ.get("CXX", "c++"),
        *("-std=c++17", "-O2", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-w"),
        # The changes of a commit are private to DuckDB (versions.cpp): the headers are those of exactly this version.
        "-fno-access-control",
        f"-DWARPMILL_DUCKDB={version.number}",
        f'-DWARPMILL_DUCKDB_VERSION="{names["DUCKDB_VERSION"]}"',
        f'-DWARPMILL_DUCKDB_SOURCE="{names["DUCKDB_SOURCE_ID"]}"',
        f"-DWARPMILL_ENGINE_ABI={interface()}u",
        f"-I{include}",
        f"-I{SOURCES}",
        str(ROOT / "duckdb" / "unity.cpp"),
        *("-o", str(target)),
    ]
    print(f"compiling {target.name}", flush=True)
    subprocess.run(command, check=True)
    return target


def unpacked(engine: Path, folder: Path) -> Path:
    """The engine's library: a file, or in a wheel, from which it is copied to a folder."""
    if engine.suffix != ".whl":
        return engine
    with zipfile.ZipFile(engine) as wheel:
        library = folder / "_warpmill.abi3.so"
        library.write_bytes(wheel.read(f"warpmill/{library.name}"))
    return library


def nopython(engine: Path, out: Path) -> None:
    """The stand-in for Python in programs that have none: the engine is a Python module, and refers to Python's names.

    Two libraries: one with the names alone, and one that brings the engine with it, which alone sees them then.
    """
    listed = subprocess.run(["nm", "-D", "--undefined-only", str(engine)], check=True, capture_output=True, text=True)
    names = sorted(name for name in re.findall(r"\bU (\w+)", listed.stdout) if re.match(r"_?Py", name))
    lines = [
        "#include <stdio.h>",
        "#include <stdlib.h>",
        "static void missing(const char *name) {",
        '\tfprintf(stderr, "Warpmill called %s of Python in a program without Python\\n", name);',
        "\tabort();",
        "}",
    ]
    for name in names:
        is_data = name.startswith("PyExc_") or name.endswith(("_Type", "Struct", "EllipsisObject"))
        lines.append(f"void *{name}[64];" if is_data else f'void {name}(void) {{ missing("{name}"); }}')
    source = out / "nopython.c"
    source.write_text("\n".join(lines) + "\n")
    engine_flags = ["-Wl,--no-as-needed", f"-L{engine.parent}", f"-l:{engine.name}", "-Wl,-rpath,$ORIGIN/../..:$ORIGIN"]
    for target, flags in (("warpmill_nopython_names.so", []), ("warpmill_nopython.so", engine_flags)):
        command = [
            os.environ.get("CC", "cc"),
            "-shared",
            "-fPIC",
            "-O1",
            "-w",
            str(source),
            *flags,
            "-o",
            str(out / target),
        ]
        subprocess.run(command, check=True)
    source.unlink()


def pack(loader: Path, out: Path, version: str) -> Path:
    """The first stage with the footer that makes it an extension."""
    fields = [MAGIC, PLATFORM, C_API, version, ABI, "", "", ""]
    footer = b"".join(field.encode().ljust(32, b"\0") for field in reversed(fields)) + bytes(256)
    target = out / "warpmill.duckdb_extension"
    # A process may have the old file mapped: it keeps that one.
    fresh = target.with_suffix(".tmp")
    fresh.write_bytes(loader.read_bytes() + footer)
    fresh.replace(target)
    return target


def main() -> None:
    """Builds what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loader", type=Path, required=True, help="the first stage, as cargo built it")
    parser.add_argument("--out", type=Path, required=True, help="where the extension and its shims go")
    parser.add_argument(
        "--engine",
        type=Path,
        default=ROOT / "python" / "warpmill" / "_warpmill.abi3.so",
        help="the engine's library, which lies two folders above the extension, or a wheel that has it",
    )
    parser.add_argument("--headers", type=Path, default=ROOT / "target" / "duckdb-headers")
    parser.add_argument("--version", action="append", help="a DuckDB version (default: all that are supported)")
    arguments = parser.parse_args()
    chosen = [version for version in VERSIONS if not arguments.version or version.duckdb in arguments.version]
    arguments.out.mkdir(parents=True, exist_ok=True)
    package = re.search(r'^version = "([^"]+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert package is not None
    with ThreadPoolExecutor(max_workers=2) as pool:
        includes = list(pool.map(lambda version: fetch(version, arguments.headers), chosen))
        there = [(version, include) for version, include in zip(chosen, includes, strict=True) if include]
        list(pool.map(lambda pair: compile_shim(*pair, arguments.out), there))
    if arguments.engine.exists():
        with TemporaryDirectory() as folder:
            nopython(unpacked(arguments.engine, Path(folder)), arguments.out)
    else:
        print(f"only for Python: {arguments.engine} is not there", file=sys.stderr)
    print(pack(arguments.loader, arguments.out, f"v{package[1]}"))


if __name__ == "__main__":
    main()
