"""Puts the DuckDB extension into the wheel whose module it was built from.

    python packaging/complete.py dist/*.whl --extension python/warpmill/duckdb/extension

Building the wheel once more, with the extension beside its sources, would compile everything anew: the loader is built
with other flags. Everything is compressed by libdeflate, whose streams any unzip reads: 3% less than zlib's best.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import deflate

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The folder of the extension in the package.
PLACE = "warpmill/duckdb/extension/"


def record_line(name: str, data: bytes) -> tuple[str, str, str]:
    """A file's line in a wheel's RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return name, f"sha256={digest}", str(len(data))


class Deflater:
    """A compressor as `zipfile` calls it, which compresses a file as a whole."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def compress(self, data: bytes) -> bytes:
        """Keep a part of the file."""
        self.parts.append(bytes(data))
        return b""

    def flush(self) -> bytes:
        """The whole file, compressed."""
        return bytes(deflate.deflate_compress(b"".join(self.parts), 12))

    @classmethod
    def of(cls, *_: object) -> Deflater:
        """A new one, for any method and level."""
        return cls()


@contextmanager
def libdeflate() -> Iterator[None]:
    """Let `zipfile` compress with libdeflate: it has no public way to choose a compressor."""
    with mock.patch.object(zipfile, "_get_compressor", Deflater.of):
        yield


def complete(wheel: Path, files: list[Path]) -> None:
    """Writes `wheel` anew with `files`, which replace those of an earlier extension."""
    made = wheel.with_suffix(".part")
    with (
        libdeflate(),
        zipfile.ZipFile(wheel) as old,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        record = next(name for name in old.namelist() if name.endswith(".dist-info/RECORD"))
        kept = [entry for entry in old.infolist() if entry.filename != record and not entry.filename.startswith(PLACE)]
        lines = [line for line in csv.reader(io.StringIO(old.read(record).decode())) if not line[0].startswith(PLACE)]
        for entry in kept:
            new.writestr(entry, old.read(entry), zipfile.ZIP_DEFLATED)
        own = [line for line in lines if line[0] == record]
        others = [line for line in lines if line[0] != record]
        for file in sorted(files):
            name, data = f"{PLACE}{file.name}", file.read_bytes()
            entry = zipfile.ZipInfo.from_file(file, name)
            new.writestr(entry, data, zipfile.ZIP_DEFLATED)
            others.append(list(record_line(name, data)))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(others + own)
        new.writestr(record, text.getvalue(), zipfile.ZIP_DEFLATED)
    made.replace(wheel)


def main() -> None:
    """Completes a wheel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--extension", type=Path, required=True, help="the folder that duckdb/build.py has written")
    arguments = parser.parse_args()
    files = [file for file in arguments.extension.iterdir() if file.is_file() and file.name != ".gitignore"]
    complete(arguments.wheel, files)
    print(f"{arguments.wheel}: {arguments.wheel.stat().st_size / 1e6:.1f} MB with {len(files)} files of the extension")


if __name__ == "__main__":
    main()
