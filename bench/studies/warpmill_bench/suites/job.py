"""The Join Order Benchmark: 113 queries in 33 families of joins, whose texts are read from a folder of the user's.

The benchmark (Leis et al., "How Good Are Query Optimizers, Really?", PVLDB 9(3), 2015) has a public repository, with a
file for each query. The suite `job26` has 26 of them here; the others' texts are not ours to pass on.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The environment variable for the path of the folder with the texts.
VARIABLE = "WARPMILL_JOB"

#: The repository from which users get the texts.
REPOSITORY = "https://github.com/gregrahn/join-order-benchmark"

#: The number of queries in each of the families 1 to 33, which differ in their predicates.
VARIANTS = (4, 4, 3, 3, 3, 6, 3, 4, 4, 3, 4, 3, 4, 3, 4, 4, 6, 3, 4, 3, 3, 4, 3, 2, 3, 3, 3, 3, 3, 3, 3, 2, 3)

#: The names of the queries by family and variant: 1a to 33c.
NAMES = tuple(f"{family}{letter}" for family, count in enumerate(VARIANTS, 1) for letter in "abcdef"[:count])

TABLES = (
    *("aka_name", "aka_title", "cast_info", "char_name", "comp_cast_type", "company_name", "company_type"),
    *("complete_cast", "info_type", "keyword", "kind_type", "link_type", "movie_companies", "movie_info"),
    *("movie_info_idx", "movie_keyword", "movie_link", "name", "person_info", "role_type", "title"),
)

_QUOTED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""
_GAP = re.compile(rf"({_QUOTED})|(?:\s|--[^\n]*|/\*.*?\*/)+", re.DOTALL)

#: The alias of family 15 that is a word of the grammar in DuckDB.
_AT = re.compile(rf"(?i)({_QUOTED})|\bat\b(?!\s+time\b)")


class JobUnavailableError(FileNotFoundError):
    """Some or all texts are missing; the message says which ones, and where to get them."""


def texts(folder: str | Path | None = None, *, whole: bool = True) -> dict[str, str]:
    """The queries by name, each in one line, without comments and without the semicolons at their ends.

    The files `1a.sql` to `33c.sql` are in `folder`, or in the one that `WARPMILL_JOB` names; other files there are not
    read. With `whole=False` some may be missing.

    Raises `JobUnavailableError` where there is no folder, where texts are missing, and for a file that has not one
    statement.
    """
    place = _named() if folder is None else Path(folder)
    where = str(place) if folder is not None else f"{VARIABLE} names {place}, which"
    if not place.is_dir():
        raise JobUnavailableError(f"{where} is no folder: {_advice(place)}")
    files = {name: place / f"{name}.sql" for name in NAMES}
    found = {name: path for name, path in files.items() if path.is_file()}
    if not found:
        raise JobUnavailableError(f"{where} has none of the files {NAMES[0]}.sql to {NAMES[-1]}.sql: {_advice()}")
    if whole and (missing := [path.name for name, path in files.items() if name not in found]):
        lack = f"lacks {len(missing)} of the {len(NAMES)} texts of the Join Order Benchmark ({', '.join(missing)})"
        raise JobUnavailableError(f"{where} {lack}: {_advice()}")
    return {name: _read(path) for name, path in found.items()}


def _named() -> Path:
    if folder := os.environ.get(VARIABLE):
        return Path(folder).absolute()
    raise JobUnavailableError(f"the texts of the Join Order Benchmark are not in this repository: {_advice()}")


def _advice(folder: Path | None = None) -> str:
    target = folder or "FOLDER"
    return f"run `git clone {REPOSITORY} {target}`, and set {VARIABLE}={target}"


def _read(path: Path) -> str:
    try:
        sql = statement(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise JobUnavailableError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    if not sql or ";" in re.sub(_QUOTED, "", sql):
        raise JobUnavailableError(f"{path} has {'more than one' if sql else 'no'} statement")
    return sql


def statement(text: str) -> str:
    """A text without comments and semicolons at its ends, with one space wherever it has white space.

    The alias `AT` is in quotes, without which DuckDB does not read it.
    """
    line = _GAP.sub(lambda found: found[1] or " ", text).strip("; ")
    return _AT.sub(lambda found: found[1] or '"at"', line)


#: Shifts of years, small ones first; ratings are shifted by as many tenths.
SHIFTS = (0, -1, 1, -2, 2, -3, 3, -4, 4)

#: The last year after shifts: there are few later movies.
NEWEST = 2012

#: Years that a text compares with, and years in notes: "production_year > 2005", "'%(2006)%'".
_YEARS = re.compile(r"(?i)\bproduction_year\s*(?:between\s+\d{4}\s+and\s+\d{4}|[<>=]+\s*\d{4})\b|\(\d{4}\)")
_YEAR = re.compile(r"\d{4}")

#: Ratings are texts of one digit, a point and another digit: "info > '8.0'".
_RATING = re.compile(r"(?i)(\binfo\s*[<>]=?\s*')(\d)\.(\d)(?=')")


@dataclass(frozen=True)
class Rule:
    """Replaces a literal: the first group of `found` matches it, and `values` are the other literals."""

    found: re.Pattern[str]
    values: tuple[str, ...]

    def others(self, sql: str) -> Iterator[str]:
        """Yield the query with each value that it does not have; nothing if it has no such literal."""
        if place := self.found.search(sql):
            for value in self.values:
                if f"'{value}'" not in sql:
                    yield f"{sql[: place.start(1)]}{value}{sql[place.end(1) :]}"


_KEYWORDS = (
    *("sequel", "murder", "violence", "fight", "blood", "death", "superhero", "based-on-comic", "gore"),
    *("murder-in-title", "character-name-in-title", "female-nudity", "marvel-cinematic-universe"),
)

#: Rules for queries with neither years nor ratings: values of the same column in the queries of `job26`. The first
#: rule that finds a literal is used.
RULES = (
    Rule(re.compile(r"(?i)\bkeyword\s*(?:=|\bin\s*\()\s*'([^']+)'"), _KEYWORDS),
    Rule(re.compile(r"(?i)\bcountry_code\s*=\s*'([^']+)'"), ("[us]", "[de]", "[jp]", "[ru]", "[pl]")),
    Rule(re.compile(r"'(Drama|Horror)'"), ("Drama", "Horror")),
    Rule(re.compile(r"(?i)\bname\s+like\s+'(%(?:Ang|Tim|Yo)%)'"), ("%Ang%", "%Tim%", "%Yo%")),
)


def others(sql: str) -> Iterator[str]:
    """Yield the query with other years and ratings, or by the first of `RULES` that applies; nothing if none does."""
    years = [int(year) for found in _YEARS.findall(sql) for year in _YEAR.findall(found)]
    ratings = [int(found[1] + found[2]) for found in _RATING.findall(sql)]
    if not years and not ratings:
        changed = (list(rule.others(sql)) for rule in RULES)
        yield from next((found for found in changed if found), [])
        return
    later = [by for by in SHIFTS if by <= 0 or max(years) + by <= NEWEST] if years else [0]
    better = [by for by in SHIFTS if 0 < min(ratings) + by <= max(ratings) + by < 100] if ratings else [0]
    for tenths, by in product(better, later):
        if by or tenths:
            yield _moved(sql, by, tenths)


def _moved(sql: str, by: int, tenths: int) -> str:
    """The query with its years and the tenths of its ratings shifted."""

    def later(found: re.Match[str]) -> str:
        return _YEAR.sub(lambda year: str(int(year[0]) + by), found[0])

    def better(found: re.Match[str]) -> str:
        rating = int(found[2] + found[3]) + tenths
        return f"{found[1]}{rating // 10}.{rating % 10}"

    return _RATING.sub(better, _YEARS.sub(later, sql))
