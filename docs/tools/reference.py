"""Reference pages from the code: settings, the command line, the Python package.

`python docs/tools/reference.py` (`make docs-reference`) writes `docs/reference`; a test compares it with the code.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

import warpmill
import warpmill.duckdb
from warpmill.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parents[1] / "reference"

_WRITTEN = "<!-- Written by `make docs-reference` from the code. -->\n"

#: Defaults that depend on the machine.
_BY_MACHINE = {"column_cache_limit": "a quarter of the machine's memory"}


def settings() -> str:
    """The page of all settings."""
    query = "SELECT name, value, description FROM information_schema.df_settings ORDER BY name"
    with warpmill.connect() as con:
        found = [row for row in con.sql(query).fetchall() if row[0].startswith("warpmill.")]
    rows = [(name.removeprefix("warpmill."), value, description) for name, value, description in found]
    lines = [
        "# All settings",
        "",
        _WRITTEN,
        "By SQL (`SET warpmill.name = value`), as keywords of `warpmill.connect(...)`, or with `--set name=value`",
        "on the command line. [Settings](../settings.md) explains them.",
        "",
        "| setting | default | |",
        "|---|---|---|",
    ]
    for name, value, description in rows:
        default = _BY_MACHINE.get(name) or (f"`{value}`" if value else "")
        lines.append(f"| `{name}` | {default} | {_cell(description)} |")
    return "\n".join(lines) + "\n"


def commands() -> str:
    """The page of all commands and their options."""
    group = typer.main.get_command(app)
    lines = ["# All commands", "", _WRITTEN, "[The command line](../cli.md) explains them."]
    for path, command in _commands(group, ("warpmill",)):
        lines += ["", f"## {' '.join(path)}", "", *_command(path, command)]
    return "\n".join(lines) + "\n"


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _commands(command, (*path, name))
        elif inspect.unwrap(command.callback).__module__.startswith("warpmill."):
            # Other packages add commands of their own.
            yield (*path, name), command


def _command(path: tuple[str, ...], command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = [*path, *(["[OPTIONS]"] if options else []), *(_argument(one) for one in arguments)]
    yield f"    {' '.join(usage)}"
    yield ""
    yield _paragraphs(command.help or "")
    if arguments or options:
        yield from ["", "| | default | |", "|---|---|---|"]
    for one in arguments:
        yield f"| `{_argument(one)}` |  | {_cell(one.help or '')} |"
    for one in options:
        names = ", ".join(f"`{name}`" for name in [*one.opts, *one.secondary_opts])
        kind = "" if one.is_flag else f" `{_kind(one)}`".replace("|", "\\|")
        yield f"| {names}{kind} | {_default(one)} | {_cell(one.help or '')} |"
    examples = [line.strip() for line in (command.epilog or "").splitlines() if line.strip()]
    if examples:
        yield from ["", *(f"    {line}" if line != "Examples:" else "For example:\n" for line in examples)]


def _argument(one: Any) -> str:
    name = (one.metavar or one.name.upper()).strip("[]").removesuffix("...")
    shown = f"{name}..." if one.nargs == -1 else name
    return shown if one.required else f"[{shown}]"


def _kind(one: Any) -> str:
    """The metavariable of an option, its choices, or its type; where typer keeps the type depends on its version."""
    if one.metavar:
        return str(one.metavar)
    kind = one.type_descriptor.annotation if hasattr(one, "type_descriptor") else one.type
    choices = list(kind) if isinstance(kind, type) and issubclass(kind, Enum) else getattr(kind, "choices", ())
    if choices:
        return "|".join(str(getattr(choice, "value", choice)) for choice in choices)
    return str(getattr(kind, "__name__", None) or kind.name).upper()


def _default(one: Any) -> str:
    value = one.default
    if one.required:
        return "required"
    if value is None or callable(value) or (one.is_flag and not value) or value in ((), [], ""):
        return ""
    return f"`{getattr(value, 'value', value)}`"


def python() -> str:
    """The page of the Python package."""
    lines = [
        "# The Python package",
        "",
        _WRITTEN,
        "`import warpmill`. Exceptions of queries are subclasses of `warpmill.Error`.",
    ]
    for name in ("connect", "udaf", "udf"):
        lines += ["", f"## warpmill.{name}", "", *_function(name, getattr(warpmill, name))]
    for name in ("Connection", "Relation", "TableInfo", "FunctionInfo", "Notice"):
        lines += ["", f"## warpmill.{name}", "", *_class(getattr(warpmill, name))]
    lines += ["", "## Exceptions", "", "| | |", "|---|---|"]
    for name in sorted(warpmill.__all__):
        value = getattr(warpmill, name)
        if isinstance(value, type) and issubclass(value, Exception) and not issubclass(value, Warning):
            bases = ", ".join(base.__name__ for base in value.__bases__ if base is not Exception)
            lines.append(f"| `{name}`{f' ({bases})' if bases and bases != 'Error' else ''} | {_cell(_doc(value))} |")
    lines += ["", "## warpmill.duckdb", "", _paragraphs(_doc(warpmill.duckdb))]
    for name in ("connect", "accelerate", "extension_path"):
        lines += ["", *_function(f"warpmill.duckdb.{name}", getattr(warpmill.duckdb, name))]
    return "\n".join(lines) + "\n"


def _class(one: type) -> Iterator[str]:
    yield _paragraphs(_doc(one))
    fields = getattr(one, "__dataclass_fields__", {})
    if fields:
        yield from ["", "Fields: " + ", ".join(f"`{name}`" for name in fields) + "."]
    for name, value in vars(one).items():
        if name.startswith("_") or name in fields:
            continue
        if isinstance(value, property):
            yield from ["", f"**`{name}`**", "", _paragraphs(_doc(value))]
        elif inspect.isfunction(value) and value.__doc__:
            yield from ["", *_function(name, value)]


def _function(name: str, value: Any) -> Iterator[str]:
    # Annotations are texts; the values of defaults keep their quotes.
    signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))
    signature = re.sub(r"^\(self(?:, )?", "(", signature)
    yield f"**`{name}{signature}`**"
    yield ""
    yield _paragraphs(_doc(value))


def _doc(value: Any) -> str:
    return inspect.cleandoc(value.__doc__ or "")


def _paragraphs(text: str) -> str:
    """A docstring as Markdown: a line for each paragraph, code marks of Markdown, no doctests."""
    parts = [part for part in re.split(r"\n\s*\n", inspect.cleandoc(text)) if not part.lstrip().startswith(">>>")]
    return "\n\n".join(" ".join(part.split()).replace("``", "`") for part in parts)


def _cell(text: str) -> str:
    return _paragraphs(text).replace("\n\n", " ").replace("|", "\\|")


PAGES = {"settings.md": settings, "commands.md": commands, "python.md": python}


def main() -> None:
    """Writes the pages, or with --check compares them with what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit code 1 if a page is another one")
    options = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    for name, made in PAGES.items():
        path, text = FOLDER / name, made()
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"docs/reference/{name} is not that of the code: make docs-reference")


if __name__ == "__main__":
    main()
