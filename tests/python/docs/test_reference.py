"""Reference pages match the code, and the documents about settings and commands are complete."""

from __future__ import annotations

import importlib.util
import re
import sys
from typing import Any

import pytest
import typer

import warpmill
from warpmill.cli import app

from .markdown import ROOT


def load() -> Any:
    path = ROOT / "docs" / "tools" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    return module


reference = load()


@pytest.mark.parametrize("name", reference.PAGES)
def test_pages_are_those_of_the_code(name: str) -> None:
    assert (reference.FOLDER / name).read_text() == reference.PAGES[name](), "make docs-reference"


def test_there_are_no_other_pages() -> None:
    assert {path.name for path in reference.FOLDER.iterdir()} == set(reference.PAGES)


def test_all_settings_are_explained_with_their_defaults() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    table = text[: text.index("## Environment variables")]
    explained: dict[str, str] = {}
    for names, default in re.findall(r"^\| ((?:`[\w.]+`(?:, )?)+) \| ([^|]*?) ?\|", table, re.MULTILINE):
        explained.update(dict.fromkeys(re.findall(r"`([\w.]+)`", names), default.strip("`")))
    with warpmill.connect() as con:
        settings = con.settings().items()
    found = {name.removeprefix("warpmill."): value for name, value in settings if name.startswith("warpmill.")}
    assert set(explained) == set(found)
    # Defaults of the environment, of the machine, or of nothing are written in words.
    words = {"s3_endpoint", "s3_region", "s3_access_key_id", "s3_secret_access_key", "s3_session_token"}
    words |= {"temp_directory", "column_cache_limit", "storage_bandwidth"}
    assert {name: value for name, value in explained.items() if name not in words and value != found[name]} == {}
    assert float(explained["storage_bandwidth"]) == float(found["storage_bandwidth"])


def test_all_commands_are_explained() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert re.search(rf"^\| `warpmill {name}\b", text, re.MULTILINE), name
