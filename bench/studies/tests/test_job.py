"""The Join Order Benchmark: the texts of a folder, texts with other literals, and files that are not read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import duckdb
import pytest
from typer.testing import CliRunner, Result

from suites import job as all_texts
from warpmill.cli import app
from warpmill_bench import suites
from warpmill_bench.suites import imdb, job

if TYPE_CHECKING:
    from pathlib import Path

    from warpmill.bench.queries import Query

#: Other spellings of a text with the same meaning.
SPELLINGS = {
    "as it is": "{}",
    "semicolons": "{};\n",
    "several semicolons": "\n{} ; ;\n;",
    "comments": "-- It's a query; really\n/* of \"several\n lines; */{}-- the end",
    "byte order mark": "\ufeff{}\r\n",
}


def own() -> dict[str, Query]:
    """The queries of this repository."""
    return {query.name: query for query in suites.queries("job26", 6000, None, 100)}


def written(folder: Path, texts: dict[str, str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.sql").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A folder with the queries of this repository and with files that are no queries."""
    folder = written(tmp_path / "few", {name: query.sql for name, query in own().items()})
    return written(folder, {"schema": "CREATE TABLE title (id integer);", "34a": "SELECT 1", "01a": "SELECT 1"})


def test_names_are_those_of_33_families() -> None:
    assert len(job.NAMES) == len(set(job.NAMES)) == 113
    assert (job.NAMES[0], job.NAMES[-1]) == ("1a", "33c")
    assert {int(name[:-1]) for name in job.NAMES} == set(range(1, 34))
    assert set(own()) < set(job.NAMES)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_texts_are_read_as_they_are_meant(tmp_path: Path, spelling: str) -> None:
    queries = own()
    folder = written(tmp_path, {name: SPELLINGS[spelling].format(query.sql) for name, query in queries.items()})
    found = job.texts(folder, whole=False)
    assert list(found) == [name for name in job.NAMES if name in queries]
    # No literal in the queries of this repository has two spaces.
    assert found == {name: " ".join(query.sql.split()) for name, query in queries.items()}


def test_white_space_is_one_space_and_literals_stay() -> None:
    assert job.statement("\tSELECT\r\n  1,\u00a0 2 --\n ,/**/3;") == "SELECT 1, 2 , 3"
    kept = "SELECT 'a  -- b', 'it''s; /* c */', \"d  ;\" FROM t WHERE e LIKE '%  f;'"
    assert job.statement(kept.replace(" FROM", "\n-- it's\nFROM") + ";") == kept
    assert job.statement("SELECT 4/2, 3 - -1") == "SELECT 4/2, 3 - -1"
    assert job.statement(" ;-- nothing\n") == ""


def test_an_alias_that_is_a_word_of_the_grammar_is_in_quotes() -> None:
    sql = own()["15a"].sql
    public = sql.replace("as aka_t,", "AS AT,").replace("aka_t.", "at.")
    assert public.count("at.") == 4
    with duckdb.connect() as con:
        for name, rows in imdb.tables(6000).items():
            con.register(name, rows)
        with pytest.raises(duckdb.ParserException):
            con.execute(public)
        assert con.execute(job.statement(public)).fetchall() == con.execute(sql).fetchall() != [(None, None)]
    assert job.statement("SELECT \"AT\", 'at' FROM t AS at") == 'SELECT "AT", \'at\' FROM t AS "at"'
    assert job.statement("SELECT format, d AT  TIME ZONE 'UTC'") == "SELECT format, d AT TIME ZONE 'UTC'"


def test_a_folder_without_some_texts_is_refused_by_their_names(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = own()
    missing = [f"{name}.sql" for name in job.NAMES if name not in queries]
    assert len(missing) == 87
    reason = (
        f"lacks 87 of the 113 texts of the Join Order Benchmark ({', '.join(missing)}): run `git clone {job.REPOSITORY}"
    )
    with pytest.raises(suites.JobUnavailableError, match=re.escape(f"{few} {reason}")):
        job.texts(few)
    monkeypatch.setenv(job.VARIABLE, str(few))
    with pytest.raises(suites.JobUnavailableError, match=re.escape(f"{job.VARIABLE} names {few}, which {reason}")):
        suites.queries("job", 6000)
    # A folder with the name of a text is no text.
    written(few, dict.fromkeys(set(job.NAMES) - set(queries) - {"33c"}, "SELECT 1"))
    (few / "33c.sql").mkdir()
    with pytest.raises(suites.JobUnavailableError, match=r"lacks 1 of the 113 texts .* \(33c.sql\)"):
        suites.queries("job", 6000)
    (few / "33c.sql").rmdir()
    written(few, {"33c": "SELECT 1"})
    assert [query.name for query in suites.queries("job", 6000)] == list(job.NAMES)


def test_missing_folders_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    monkeypatch.setenv(job.VARIABLE, str(gone))
    clone = re.escape(f"run `git clone {job.REPOSITORY} {gone}`, and set {job.VARIABLE}={gone}")
    with pytest.raises(suites.JobUnavailableError, match=f"{job.VARIABLE} names {gone}, which is no folder: {clone}"):
        suites.queries("job", 6000)
    gone.write_text("a file")
    with pytest.raises(suites.JobUnavailableError, match="is no folder"):
        job.texts(gone, whole=False)
    monkeypatch.setenv(job.VARIABLE, str(tmp_path))
    with pytest.raises(suites.JobUnavailableError, match=r"has none of the files 1a.sql to 33c.sql: run `git clone"):
        suites.queries("job", 6000)
    with pytest.raises(suites.JobUnavailableError, match="has none of the files"):
        job.texts(tmp_path, whole=False)
    for value in ("", None):
        monkeypatch.delenv(job.VARIABLE) if value is None else monkeypatch.setenv(job.VARIABLE, value)
        with pytest.raises(suites.JobUnavailableError, match=rf"not in this repository: .* {job.VARIABLE}=FOLDER"):
            suites.queries("job", 6000)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has no statement"),
        (b"-- SELECT 1\n;", "has no statement"),
        (b"SELECT 1; SELECT 2;", "has more than one statement"),
        (b"SELECT 1 AS \xff", "is not UTF-8: invalid start byte at byte 12"),
    ],
)
def test_files_that_are_no_text_are_named(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "1a.sql"
    path.write_bytes(content)
    with pytest.raises(suites.JobUnavailableError, match=f"{path} {reason}"):
        job.texts(tmp_path, whole=False)


def test_a_plan_goes_on_without_texts_unless_they_are_asked_for(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(job.VARIABLE, str(few))

    def listed(*options: str) -> Result:
        return CliRunner().invoke(app, ["bench", "matrix", "--list", "--out", str(few), *options])

    done = listed("--device", "cpu", "--peers", "none")
    assert done.exit_code == 0, done.stderr
    assert f"not measured: suite job: {job.VARIABLE} names {few}, which lacks 87 of the 113" in done.stderr
    assert "job26/" in done.stdout
    assert "job/" not in done.stdout
    done = listed("--suites", "job")
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {job.VARIABLE} names {few}, which lacks 87")
    assert listed("--suites", "job26", "--queries", "33a").exit_code == 0


def test_suites_share_their_tables() -> None:
    one, other = suites.suite("job"), suites.suite("job26")
    assert (one.data, one.tables, one.quick, one.sizes) == (other.data, other.tables, other.quick, other.sizes)


def joins(sql: str) -> list[str]:
    """The equalities of columns."""
    return re.findall(r"\w+\.\w+ = \w+\.\w+", sql)


def test_statements_are_new_by_years_ratings_or_values() -> None:
    queries = own()
    assert {name for name, query in queries.items() if not query.others} == {"1a"}
    for name, query in queries.items():
        assert len({query.sql, *query.others}) == len(query.others) + 1, name
        for other in query.others:
            assert joins(other) == joins(query.sql), name
            assert len(other.splitlines()) == len(query.sql.splitlines()), name
            assert other.partition("\nfrom")[0] == query.sql.partition("\nfrom")[0], name
    literals = {literal for query in queries.values() for literal in re.findall(r"'([^']*)'", query.sql)}
    assert {value for rule in job.RULES for value in rule.values} <= literals


def test_years_and_ratings_move_together() -> None:
    sql = "SELECT 1 FROM t WHERE production_year BETWEEN 2005 AND 2008 AND n LIKE '%(2006)%' AND i.info>'8.0'"
    others = list(job.others(sql))
    assert others[0] == sql.replace("2005", "2004").replace("2008", "2007").replace("(2006)", "(2005)")
    assert others[1] == sql.replace("2008", "2009").replace("(2006)", "(2007)").replace("2005", "2006")
    assert sql.replace("8.0", "7.9") in others
    assert len(others) == len(set(others)) == 80
    # Years that are not those of movies, votes, and greatest or smallest values.
    assert list(job.others("SELECT 1 FROM t WHERE year > 2005 AND info > '1000' AND info = '8.0'")) == []
    assert list(job.others("SELECT 1 FROM t WHERE production_year > 2012")) == [
        f"SELECT 1 FROM t WHERE production_year > {year}" for year in (2011, 2010, 2009, 2008)
    ]
    assert [other[-5:] for other in job.others("SELECT 1 FROM t WHERE info < '9.8'")] == [
        f"'{rating}'" for rating in ("9.7", "9.9", "9.6", "9.5", "9.4")
    ]
    assert [other[-5:] for other in job.others("SELECT 1 FROM t WHERE t.info  <= '0.2'")] == [
        f"'{rating}'" for rating in ("0.1", "0.3", "0.4", "0.5", "0.6")
    ]


def test_values_of_the_same_column_stand_for_others() -> None:
    listed = "SELECT 1 FROM t WHERE k.Keyword IN ( 'no-word', 'murder') AND country_code = '[us]'"
    others = list(job.others(listed))
    assert others[0] == listed.replace("no-word", "sequel")
    assert listed.replace("no-word", "murder") not in others
    coded = "SELECT 1 FROM t WHERE cn.country_code='[sm]' AND cn.country_code <> '[de]' AND mi.info = 'Horror'"
    assert list(job.others(coded)) == [coded.replace("[sm]", f"[{code}]") for code in ("us", "jp", "ru", "pl")]
    assert list(job.others("SELECT 1 FROM t WHERE mi.info in ('Horror', 'War')")) == [
        "SELECT 1 FROM t WHERE mi.info in ('Drama', 'War')"
    ]
    assert next(job.others("SELECT 1 FROM t WHERE n.name LIKE '%Tim%'")).endswith("'%Ang%'")
    assert list(job.others("SELECT 1 FROM t WHERE keyword LIKE '%sequel%' AND country_code <> '[us]'")) == []


def test_all_texts_are_read_with_others() -> None:
    all_texts.texts()
    queries = suites.queries("job", 6000, None, 5)
    assert [query.name for query in queries] == list(job.NAMES)
    assert len({query.sql for query in queries}) == 113
    for query in queries:
        assert not re.search(r";|\s\s|\n", re.sub(r"'[^']*'", "text", query.sql)), query.name
        assert len({query.sql, *query.others}) == len(query.others) + 1, query.name
        assert all(joins(other) == joins(query.sql) for other in query.others), query.name
    assert len([query for query in queries if not query.others]) <= 5
