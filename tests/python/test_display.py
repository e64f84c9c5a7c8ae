"""Results as tables of text and of HTML."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import warpmill
from warpmill.display import render


def wide(con: warpmill.Connection, columns: int) -> warpmill.Relation:
    return con.sql("SELECT " + ", ".join(f"'{'v' * 20}{i}' AS column_{i}" for i in range(columns)))


@pytest.mark.parametrize("columns", [1, 2, 5, 20, 200])
@pytest.mark.parametrize("width", [20, 40, 80, 133])
def test_tables_fit_the_terminal(con: warpmill.Connection, columns: int, width: int) -> None:
    lines = render(wide(con, columns)._result, 10, width).splitlines()
    assert max(map(len, lines[:-1])) <= width, "\n".join(lines)
    # A row is a line: nothing wraps.
    assert len(lines) == 7
    assert "column_0"[:7] in lines[1]
    if columns > 1:
        assert lines[1].rstrip(" │").endswith(("…", str(columns - 1)))


def test_cut_cells_have_an_ellipsis_and_the_footer_says_what_is_left_out(con: warpmill.Connection) -> None:
    text = render(wide(con, 30)._result, 10, 80)
    assert "vvvv…" in text
    assert "1 row, 30 columns (5 shown)" in text
    assert "column_29" in text
    assert "…" not in render(wide(con, 30)._result, 10, 10_000)


def test_a_narrow_column_keeps_its_width_beside_a_wide_one(con: warpmill.Connection) -> None:
    text = render(con.sql(f"SELECT 12345 AS n, '{'x' * 500}' AS s, 'end' AS e")._result, 10, 60)
    assert "12345" in text
    assert "end" in text
    assert "xxx…" in text


def test_lines_in_cells_and_rows_between(con: warpmill.Connection) -> None:
    assert "one\\ntwo\\tthree" in render(con.sql("SELECT 'one\ntwo\tthree' AS s")._result, 10, 80)
    text = render(con.sql("SELECT i FROM range(100) r(i)")._result, 4, 80)
    assert text.splitlines()[-1] == "100 rows (4 shown), 1 column"
    assert render(con.sql("SELECT 1 AS a WHERE false")._result, 10, 80).splitlines()[-1] == "0 rows, 1 column"
    assert "汉字" in render(con.sql("SELECT '汉字' AS s")._result, 10, 80)


class Cells(HTMLParser):
    """The cells of an HTML table, and its unclosed tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag not in ("br", "meta"):
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if any(tag in ("td", "th") for tag in self.open):
            self.cells[-1] += data


def test_notebooks_get_tables(con: warpmill.Connection) -> None:
    html = con.sql("SELECT 1 AS \"<i>\", NULL AS n, '<b>&' AS s")._repr_html_()
    found = Cells(html)
    assert found.open == []
    assert found.cells == ["<i>Int64", "nNull", "sUtf8", "1", "NULL", "<b>&"]
    assert '<td class="null">NULL</td>' in html
    assert "<p>1 row, 3 columns</p>" in html


def test_notebooks_get_an_excerpt_of_what_is_long_or_wide(con: warpmill.Connection) -> None:
    html = con.sql("SELECT i FROM range(1000) r(i) ORDER BY i")._repr_html_()
    cells = Cells(html).cells
    assert cells[1:11] == [str(i) for i in range(10)]
    assert cells[-10:] == [str(i) for i in range(990, 1000)]
    assert "1,000 rows (20 shown), 1 column" in html
    html = wide(con, 100)._repr_html_()
    assert "100 columns (30 shown)" in html
    assert Cells(html).cells[15] == "…"
    assert con.sql("CREATE TABLE t (a INT)")._repr_html_() == "<p>done</p>"
    assert "0 rows, 1 column" in con.sql("FROM t")._repr_html_()


def test_notebooks_get_plans_as_trees(con: warpmill.Connection) -> None:
    con.sql("CREATE TABLE t AS SELECT i AS a FROM range(10) r(i)")
    plan = con.explain("SELECT sum(a) FROM t WHERE a < 5")
    assert "scan t" in plan
    html = plan._repr_html_()  # type: ignore[attr-defined]  # of the class that it has
    assert "warpmill-plan" in html
    assert "<body>" not in html
    assert Cells(html).open == []
    shown = con.sql("EXPLAIN SELECT sum(a) FROM t WHERE a < 5")._repr_html_()
    assert "a &lt; 5" in shown
    assert Cells(shown).open == []
    assert "warpmill-plan" in con.sql("EXPLAIN (FORMAT html) SELECT sum(a) FROM t")._repr_html_()
