"""Strings, quoted names and comments in the texts of statements, which are looked at before they are parsed."""

from __future__ import annotations

import pytest

import warpmill
from warpmill.cli.statements import complete, split

#: Texts that a query must return unchanged, in each form of a string.
CONTENTS = ("a  b", "a b", "it's  -- no comment", "a /* b */ c", "1_0", "?", "$1", "x;  y", "'", '"', "/*", "--")


def _forms(content: str) -> list[str]:
    return [
        "'" + content.replace("'", "''") + "'",
        "E'" + content.replace("'", r"\'") + "'",
        f"$${content}$$",
        f"$tag${content}$tag$",
    ]


@pytest.mark.parametrize("content", CONTENTS)
def test_strings_are_what_they_are(con: warpmill.Connection, content: str) -> None:
    """Also from cached plans, next to parameters, and in tables made of them."""
    con.sql("CREATE TABLE t AS SELECT 1 AS i")
    for form in _forms(content):
        for other in _forms(content.replace("  ", " ")):
            assert con.sql(f"SELECT {other} AS s FROM t").fetchall() == [(content.replace("  ", " "),)]
            assert con.sql(f"SELECT {form} AS s FROM t").fetchall() == [(content,)]
        assert con.sql(f"SELECT {form} AS s, ? AS p /* /* */ ? */ FROM t -- ?", [7]).fetchall() == [(content, 7)]
        con.sql(f"CREATE OR REPLACE TABLE u AS SELECT {form} AS s")
        assert con.sql("FROM u").fetchall() == [(content,)]
        text = f"SELECT {form}; SELECT 1"
        assert split(text) == [f"SELECT {form}", "SELECT 1"]
        assert not complete(text)
        assert complete(f"{text};")
