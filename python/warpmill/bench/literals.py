"""The literals of TPC-H's and SSB's queries, and others that may stand in their place.

Where the specifications have substitution parameters, the values are from their ranges, so that a query with other
literals does about the same work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Literal:
    """A piece of a query's text, and the pieces that may replace it, itself among them or not."""

    text: str
    values: tuple[str, ...]


REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    *("ALGERIA", "ARGENTINA", "BRAZIL", "CANADA", "EGYPT", "ETHIOPIA", "FRANCE", "INDIA", "INDONESIA", "IRAN", "IRAQ"),
    *("JAPAN", "GERMANY", "JORDAN", "KENYA", "MOROCCO", "MOZAMBIQUE", "PERU", "CHINA", "ROMANIA", "SAUDI ARABIA"),
    *("VIETNAM", "RUSSIA", "UNITED KINGDOM", "UNITED STATES"),
)
COLORS = (
    *("almond", "antique", "aquamarine", "azure", "beige", "bisque", "black", "blanched", "blue", "blush", "brown"),
    *("burlywood", "chartreuse", "chiffon", "chocolate", "coral", "cornflower", "cream", "cyan", "dark", "deep", "dim"),
    *("dodger", "drab", "firebrick", "floral", "forest", "frosted", "gainsboro", "ghost", "goldenrod", "green"),
)
TYPES = tuple(
    f"{first} {second} {third}"
    for first, second, third in product(
        ("ECONOMY", "LARGE", "MEDIUM", "PROMO", "SMALL", "STANDARD"),
        ("ANODIZED", "BRUSHED", "BURNISHED", "PLATED", "POLISHED"),
        ("BRASS", "COPPER", "NICKEL", "STEEL", "TIN"),
    )
)
BRANDS = tuple(f"Brand#{first}{second}" for first in range(1, 6) for second in range(1, 6))
CATEGORIES = tuple(f"MFGR#{first}{second}" for first in range(1, 6) for second in range(1, 6))
CONTAINERS = tuple(
    f"{first} {second}"
    for first, second in product(("SM", "LG", "MED", "JUMBO", "WRAP"), ("BAG", "BOX", "CAN", "CASE", "DRUM", "PACK"))
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _months(first: int, last: int) -> tuple[str, ...]:
    """Dates of the first days of months, both given as year * 12 + month - 1."""
    return tuple(f"date '{month // 12}-{month % 12 + 1:02}-01'" for month in range(first, last + 1))


def _years() -> tuple[str, ...]:
    return tuple(f"date '{year}-01-01'" for year in range(1993, 1998))


def _quoted(values: tuple[str, ...], before: str = "") -> tuple[str, ...]:
    return tuple(f"{before}'{value}'" for value in values)


def _numbers(text: str, first: int, last: int) -> tuple[str, ...]:
    return tuple(text.format(number) for number in range(first, last + 1))


#: Country codes of 22: seven different ones of 10 to 34.
_CODES = tuple(", ".join(f"'{10 + (start + 3 * at) % 25}'" for at in range(7)) for start in range(25))

TPCH = {
    "1": (Literal("interval '90' day", _numbers("interval '{}' day", 60, 120)),),
    "2": (Literal("p_size = 15", _numbers("p_size = {}", 1, 50)),),
    "3": (Literal("date '1995-03-15'", _numbers("date '1995-03-{:02}'", 1, 31)),),
    "4": (Literal("date '1993-07-01'", _months(1993 * 12, 1997 * 12 + 9)),),
    "5": (Literal("'ASIA'", _quoted(REGIONS)), Literal("date '1994-01-01'", _years())),
    "6": (Literal("date '1994-01-01'", _years()), Literal("0.06", _numbers("0.0{}", 2, 9))),
    "7": (Literal("'FRANCE'", _quoted(NATIONS[:12])), Literal("'GERMANY'", _quoted(NATIONS[12:]))),
    "8": (Literal("'ECONOMY ANODIZED STEEL'", _quoted(TYPES)),),
    "9": (Literal("%green%", tuple(f"%{color}%" for color in COLORS)),),
    "10": (Literal("date '1993-10-01'", _months(1993 * 12 + 1, 1995 * 12)),),
    "11": (Literal("'GERMANY'", _quoted(NATIONS)),),
    "12": (
        Literal("date '1994-01-01'", _years()),
        Literal("'MAIL'", _quoted(("MAIL", "RAIL", "TRUCK", "AIR", "FOB", "REG AIR"))),
    ),
    "13": (
        Literal("special", ("special", "pending", "unusual", "express", "final")),
        Literal("requests", ("packages", "requests", "accounts", "deposits", "ideas")),
    ),
    "14": (Literal("date '1995-09-01'", _months(1993 * 12, 1997 * 12 + 11)),),
    "15": (Literal("date '1996-01-01'", _months(1993 * 12, 1997 * 12 + 9)),),
    "16": (
        Literal("Brand#45", BRANDS),
        Literal("MEDIUM POLISHED", ("MEDIUM POLISHED", "LARGE BRUSHED", "SMALL PLATED")),
    ),
    "17": (Literal("Brand#23", BRANDS), Literal("MED BOX", CONTAINERS)),
    "18": (Literal("> 300", _numbers("> {}", 290, 330)),),
    "19": (Literal("Brand#12", BRANDS), Literal("Brand#34", BRANDS)),
    "20": (Literal("forest", COLORS), Literal("date '1994-01-01'", _years())),
    "21": (Literal("'SAUDI ARABIA'", _quoted(NATIONS)),),
    "22": (Literal("'13', '31', '23', '29', '30', '18', '17'", _CODES),),
}

SSB = {
    "1.1": (
        Literal("d_year = 1993", _numbers("d_year = {}", 1992, 1998)),
        Literal("lo_discount between 1 and 3", tuple(f"lo_discount between {at} and {at + 2}" for at in range(1, 9))),
    ),
    "1.2": (Literal("199401", tuple(f"{year}{month:02}" for year in range(1992, 1998) for month in range(1, 13))),),
    "1.3": (Literal("d_weeknuminyear = 6", _numbers("d_weeknuminyear = {}", 1, 52)),),
    "2.1": (Literal("'MFGR#12'", _quoted(CATEGORIES)), Literal("'AMERICA'", _quoted(REGIONS))),
    "2.2": (
        Literal("'MFGR#2221' and 'MFGR#2228'", tuple(f"'{name}21' and '{name}28'" for name in CATEGORIES)),
        Literal("'ASIA'", _quoted(REGIONS)),
    ),
    "2.3": (Literal("'MFGR#2221'", tuple(f"'{name}{brand}'" for name in CATEGORIES for brand in range(21, 29))),),
    "3.1": (
        Literal("c_region = 'ASIA'", _quoted(REGIONS, "c_region = ")),
        Literal("s_region = 'ASIA'", _quoted(REGIONS, "s_region = ")),
    ),
    "3.2": (Literal("'UNITED STATES'", _quoted(NATIONS)),),
    # Cities are nine characters of a nation, and a digit.
    "3.3": (Literal("UNITED KI", tuple(dict.fromkeys(f"{nation:9.9}" for nation in NATIONS))),),
    "3.4": (Literal("'Dec1997'", tuple(f"'{month}{year}'" for year in range(1992, 1998) for month in MONTHS)),),
    **{
        name: (
            Literal("c_region = 'AMERICA'", _quoted(REGIONS, "c_region = ")),
            Literal("s_region = 'AMERICA'", _quoted(REGIONS, "s_region = ")),
        )
        for name in ("4.1", "4.2")
    },
    "4.3": (Literal("'MFGR#14'", _quoted(CATEGORIES)), Literal("'UNITED STATES'", _quoted(NATIONS))),
}

SUITES = {"tpch": TPCH, "ssb": SSB}


def others(suite: str, name: str, sql: str) -> Iterator[str]:
    """The query with other literals, every text once, that of `sql` never.

    Raises `ValueError` where the text does not have the literals that are to be replaced.
    """
    literals = SUITES[suite][name]
    for literal in literals:
        if literal.text not in sql:
            raise ValueError(f"{suite} query {name} has no {literal.text!r}")
    # All are replaced at once: a value may be the text of another literal.
    found = re.compile("|".join(re.escape(literal.text) for literal in literals))
    for values in product(*(literal.values for literal in literals)):
        instead = {literal.text: value for literal, value in zip(literals, values, strict=True)}
        text = _replaced(sql, found, instead)
        if text != sql:
            yield text


def _replaced(sql: str, found: re.Pattern[str], instead: dict[str, str]) -> str:
    return found.sub(lambda match: instead[match[0]], sql)
