"""Packages: licence texts, checks of contents, the build profile, the release workflow."""

from __future__ import annotations

import importlib.util
import io
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"packaging_{name}", ROOT / "packaging" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"packaging_{name}"] = module
    spec.loader.exec_module(module)
    return module


licenses, check, complete = load("licenses"), load("check"), load("complete")


def crates(folder: Path) -> dict[str, Any]:
    """The metadata of a program: crates that it links, and crates that it does not."""
    packages: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    kinds: dict[str, list[str | None]] = {
        "linked": [None],
        "deep": [None],
        "builds": ["build"],
        "tests": ["dev"],
        "macros": [None],
    }
    for name in ("program", *kinds):
        (folder / name).mkdir()
        if name != "deep":
            (folder / name / "LICENSE-MIT").write_text(f"Copyright {name if name == 'builds' else 'somebody'}\n\nMIT")
        target = "proc-macro" if name == "macros" else "lib"
        packages.append(
            {
                "id": name,
                "name": name,
                "version": "1.0",
                "license": "MIT",
                "license_file": None,
                "authors": ["A. Author"],
                "manifest_path": str(folder / name / "Cargo.toml"),
                "source": None if name == "program" else "registry",
                "targets": [{"kind": [target]}],
            }
        )
        nodes.append({"id": name, "deps": []})
    nodes[0]["deps"] = [
        {"pkg": name, "dep_kinds": [{"kind": kind} for kind in kinds[name]]} for name in kinds if name != "deep"
    ]
    nodes[1]["deps"] = [{"pkg": "deep", "dep_kinds": [{"kind": None}]}]
    return {"packages": packages, "resolve": {"nodes": nodes}}


def test_licences_are_those_of_what_is_linked(tmp_path: Path) -> None:
    found = licenses.linked(crates(tmp_path), ("program",))
    assert [crate.title for crate in found] == ["deep 1.0", "linked 1.0"]
    text = licenses.document(found)
    assert "linked 1.0: MIT" in text
    assert "deep 1.0: MIT; A. Author" in text
    assert text.count("Copyright somebody") == 1
    assert "builds" not in text


def wheel(path: Path, module: bytes = b"code", parts: tuple[str, ...] = ()) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("warpmill/_warpmill.abi3.so", module)
        archive.writestr("warpmill/py.typed", "")
        archive.writestr("warpmill/duckdb/extension/warpmill.duckdb_extension", "")
        archive.writestr("warpmill-0.1.0.dist-info/licenses/LICENSE", "")
        for part in parts:
            archive.writestr(part, "")
        fields = ["License-Expression: Apache-2.0", "Requires-Python: >=3.11", "Summary: s", "Keywords: k"]
        fields.append("Description-Content-Type: text/markdown")
        archive.writestr("warpmill-0.1.0.dist-info/METADATA", "\n".join(fields))
    return path


def test_checks_find_what_is_wrong_with_packages(tmp_path: Path) -> None:
    extension = "warpmill/duckdb/extension"
    libraries = ("nopython", "nopython_names", "shim-v1.5.6", "shim-v2.0.0")
    parts = (
        "warpmill/licenses/THIRD_PARTY_LICENSES.txt",
        *(f"{extension}/warpmill_{library}.so" for library in libraries),
    )
    good = wheel(tmp_path / "warpmill-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl", parts=parts)
    assert check.wheel_problems(good, 1) == []
    assert "more than" in check.wheel_problems(good, 0)[0]
    new = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBCXX_3.4.21\0GLIBCXX_3.4.29\0"
    newer = check.wheel_problems(wheel(good, new, parts), 1)
    assert [problem.split(": ")[1] for problem in newer] == [
        "needs GLIBC_2.34, more than GLIBC_2.28",
        "needs GLIBCXX_3.4.29, more than GLIBCXX_3.4.24",
    ]
    lacking = "\n".join(check.wheel_problems(wheel(good, parts=parts[:-1]), 1))
    assert "without warpmill_shim-v2.0.0.so" in lacking
    bad = wheel(tmp_path / "warpmill-0.1.0-cp311-abi3-linux_x86_64.whl", b"\0.symtab\0")
    problems = "\n".join(check.wheel_problems(bad, 1))
    assert all(part in problems for part in ("indexes refuse", "not stripped", "THIRD_PARTY_LICENSES.txt"))
    sdist = tmp_path / "warpmill-0.1.0.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        entry = tarfile.TarInfo("warpmill-0.1.0/pyproject.toml")
        archive.addfile(entry, io.BytesIO())
    assert "Cargo.lock" in "\n".join(check.sdist_problems(sdist))


def test_the_extension_is_put_into_a_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "warpmill-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl"
    record = "warpmill-0.1.0.dist-info/RECORD"
    stale = f"{complete.PLACE}warpmill.duckdb_extension"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("warpmill/__init__.py", b"import this")
        archive.writestr(stale, b"an earlier one")
        lines = [complete.record_line("warpmill/__init__.py", b"import this"), (stale, "sha256=x", "14")]
        archive.writestr(record, "".join(f"{','.join(line)}\n" for line in [*lines, (record, "", "")]))
    made = tmp_path / "extension"
    made.mkdir()
    (made / "warpmill.duckdb_extension").write_bytes(b"loader")
    (made / "warpmill_nopython.so").write_bytes(b"stand-in")
    (made / "warpmill_nopython.so").chmod(0o755)
    complete.complete(wheel, list(made.iterdir()))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert len(set(names)) == len(names) == 4
        assert archive.testzip() is None
        assert archive.read(stale) == b"loader"
        assert archive.getinfo(f"{complete.PLACE}warpmill_nopython.so").external_attr >> 16 & 0o111
        written = {line.split(",")[0]: line for line in archive.read(record).decode().splitlines()}
        assert written.keys() == set(names)
        assert written.pop(record) == f"{record},,"
        for name, line in written.items():
            assert line == ",".join(complete.record_line(name, archive.read(name)))


def test_what_is_shipped_is_optimized_as_a_whole_and_has_no_symbols() -> None:
    profile = tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]["dist"]
    packages = profile.pop("package")
    assert packages["*"] == {"opt-level": "s"}
    assert packages["hashbrown"] == packages["parquet"] == {"opt-level": 3}
    rows = {"cpu", "engine", "eval", "format", "functions", "gpu", "ir"}
    assert packages.keys().isdisjoint(f"warpmill-{crate}" for crate in rows), "loops over rows are built for speed"
    assert profile == {
        "inherits": "release",
        "opt-level": 3,
        "codegen-units": 1,
        "lto": "thin",
        "strip": "symbols",
    }
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = [entry["path"] for entry in package["tool"]["maturin"]["include"]]
    assert "python/warpmill/licenses/*" in included
    assert package["project"]["entry-points"]["ibis.backends"] == {"warpmill": "warpmill.ibis"}


def test_the_release_is_what_make_builds() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for part in ("--profile dist", "--auditwheel check", "packaging/licenses.py", "packaging/check.py dist"):
        assert part in makefile, part
    for part in ("make dist DIST_FLAGS=--zig", "make audit"):
        assert part in workflow, part
