"""Completions in the shell: keywords, tables, columns, functions, commands, files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import Completer, Completion

import warpmill
from warpmill.cli.output import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

KEYWORDS = re.findall(
    r"\w+",
    "select from where group by having order limit offset join left right full outer inner cross semi anti asof "
    "on using union all distinct as and or not in exists between like ilike is null case qualify "
    "when then else end cast create table view schema replace drop insert into values update delete merge with explain "
    "analyze set show describe summarize date timestamp interval extract over partition rows copy to alter",
)

COMMANDS = {
    ".exit": "leave",
    ".help": "list the commands",
    ".mode": "how rows are written",
    ".output": "where rows are written",
    ".quit": "leave",
    ".read": "run a file of statements",
    ".schema": "columns and types",
    ".tables": "list the tables",
    ".timer": "print how long statements took",
}

_WORD = re.compile(r'(?:(?P<of>[\w"]+)\.)?(?P<word>"?\w*)$')
#: Tables behind FROM and its kin, each with its alias, if any.
_TABLES = re.compile(
    r'\b(?:from|join|into|update|table|describe|summarize)\s+(?P<table>[\w".]+)(?:\s+(?:as\s+)?(?P<alias>\w+))?|'
    r',\s*(?P<next>[\w".]+)',
    re.IGNORECASE,
)
_WANTS_TABLE = re.compile(r"\b(?:from|join|into|update|table|describe|summarize)\s+[\w\".]*$", re.IGNORECASE)


class Names:
    """Names of a connection, cached until a statement may have changed them."""

    def __init__(self, con: warpmill.Connection) -> None:
        self._con = con
        self._functions: list[str] | None = None
        self._tables: list[str] | None = None
        self._columns: dict[str, list[str]] = {}

    def forget(self) -> None:
        """A statement has run."""
        self._tables, self._columns = None, {}

    def functions(self) -> list[str]:
        """All functions."""
        if self._functions is None:
            self._functions = self._con.functions()
        return self._functions

    def tables(self) -> list[str]:
        """All tables; none where the database cannot be read, which statements report."""
        if self._tables is None:
            try:
                self._tables = [table.qualified for table in self._con.tables()]
            except warpmill.Error:
                self._tables = []
        return self._tables

    def columns(self, table: str) -> list[str]:
        """The columns of a table; none where there is no such table."""
        name = table.replace('"', "")
        if name not in self._columns:
            known = next((known for known in self.tables() if known.lower() == name.lower()), None)
            try:
                self._columns[name] = [] if known is None else self._con.table(known).columns
            except warpmill.Error:
                self._columns[name] = []
        return self._columns[name]


def candidates(names: Names, before: str, text: str) -> Iterator[tuple[str, str]]:
    """The completions of the word at the end of `before`, a part of `text`, with their kinds."""
    found = _WORD.search(before)
    owner = found["of"] if found else None
    tables = {}
    for match in _TABLES.finditer(text):
        table = match["table"] or match["next"]
        tables[(match["alias"] or table).lower()] = table
    if owner is not None:
        table = tables.get(owner.lower(), owner)
        yield from ((column, "column") for column in names.columns(table))
        # A schema has tables.
        beginning = f"{owner.lower()}."
        yield from ((name[len(beginning) :], "table") for name in names.tables() if name.lower().startswith(beginning))
        return
    if not _WANTS_TABLE.search(before):
        for table in dict.fromkeys(tables.values()):
            yield from ((column, "column") for column in names.columns(table))
    yield from ((name, "table") for name in names.tables())
    if not _WANTS_TABLE.search(before):
        yield from ((name, "function") for name in names.functions())
        yield from ((word, "keyword") for word in KEYWORDS)


def completions(names: Names, before: str, text: str) -> list[tuple[str, str, int]]:
    """The possible completions: text, kind, and the number of letters before the cursor that it replaces."""
    if before.lstrip().startswith("."):
        return [*_commands(before.lstrip())]
    found = _WORD.search(before)
    word = found["word"] if found else ""
    begin = word.strip('"').lower()
    seen: dict[str, str] = {}
    for name, kind in candidates(names, before, text):
        if name.lower().startswith(begin) and name.lower() != begin:
            seen.setdefault(_spelled(name), kind)
    if not begin and (found is None or found["of"] is None) and not _WANTS_TABLE.search(before):
        return []
    return [(name, kind, len(word)) for name, kind in seen.items()]


def _spelled(name: str) -> str:
    """A name as SQL takes it: in quotes where it has other letters than words, or capitals."""
    plain = all(re.fullmatch(r"[A-Za-z_]\w*", part) for part in name.split("."))
    return name if plain else '"' + name.replace('"', '""') + '"'


def _commands(line: str) -> Iterator[tuple[str, str, int]]:
    command, space, argument = line.partition(" ")
    if not space:
        yield from ((name, what, len(line)) for name, what in COMMANDS.items() if name.startswith(line))
    elif command == ".mode":
        yield from ((mode.value, "mode", len(argument)) for mode in Mode if mode.value.startswith(argument))
    elif command == ".timer":
        yield from ((state, "", len(argument)) for state in ("on", "off") if state.startswith(argument))
    elif command in (".read", ".output"):
        folder, _, begin = argument.rpartition("/")
        try:
            entries = sorted(Path(folder + "/" if folder or argument.startswith("/") else ".").iterdir())
        except OSError:
            return
        for entry in entries:
            if entry.name.startswith(begin):
                yield (entry.name + ("/" if entry.is_dir() else ""), "file", len(begin))


class SqlCompleter(Completer):
    """Completion of the shell's prompt."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The completions at the cursor."""
        del complete_event
        for text, kind, replaced in completions(self._names, document.text_before_cursor, document.text):
            yield Completion(text, -replaced, display_meta=kind)
