"""The measured queries of a suite: constants for the scale factor, and texts with other literals."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import islice

from warpmill import _warpmill
from warpmill.bench.literals import others

#: The fraction of the total value from which TPC-H 11 takes a part, at scale factor 1.
FRACTION = "0.0001"


@dataclass(frozen=True)
class Query:
    """A query, and its variants with other literals, each of which is a new statement once."""

    name: str
    sql: str
    others: tuple[str, ...] = ()


def texts(suite: str, sf: float) -> dict[str, str]:
    """The queries of a suite by name, with constants that depend on the scale factor (TPC-H 11)."""
    found = dict(_warpmill.queries(suite))
    if suite == "tpch":
        found["11"] = found["11"].replace(f"* {FRACTION}\n", f"* {fraction(sf)}\n")
    return found


def fraction(sf: float) -> str:
    """The constant of TPC-H 11, 0.0001 / SF, as a decimal number of ten digits at most."""
    return f"{+Decimal(f'{Decimal(FRACTION) / Decimal(str(sf)):.10g}'):f}"


def chosen(suite: str, sf: float, names: str | None, new_statements: int) -> list[Query]:
    """The queries that a list of names asks for, all where there is none, each with so many texts to run once.

    Raises `ValueError` for a name that the suite does not have, and where there are fewer texts.
    """
    known = texts(suite, sf)
    wanted = list(known) if names is None else [name.strip().lower().lstrip("q") for name in names.split(",")]
    made = []
    for name in wanted:
        if name not in known:
            raise ValueError(f"{suite} has no query {name!r}: it has {', '.join(known)}")
        different = tuple(islice(others(suite, name, known[name]), new_statements))
        if len(different) < new_statements:
            raise ValueError(f"{suite} {name} can be a new statement {len(different)} times, not {new_statements}")
        made.append(Query(name, known[name], different))
    return made
