"""The generated tables of the Join Order Benchmark: queries find rows in them, and they resemble the real tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from warpmill_bench import suites
from warpmill_bench.suites import imdb

if TYPE_CHECKING:
    from collections.abc import Iterator

MOVIES = 6000


@pytest.fixture(scope="module")
def tables() -> dict[str, Any]:
    return imdb.tables(MOVIES)


@pytest.fixture(scope="module")
def con(tables: dict[str, Any]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        for name, rows in tables.items():
            made.register("incoming", rows)
            made.execute(f"CREATE TABLE {name} AS FROM incoming")
        yield made


def value(con: duckdb.DuckDBPyConnection, sql: str) -> Any:
    (row,) = con.execute(sql).fetchall()
    return row[0] if len(row) == 1 else row


def test_all_queries_of_this_repository_find_rows(con: duckdb.DuckDBPyConnection) -> None:
    queries = suites.queries("job26", MOVIES)
    assert len(queries) == 26
    rows = {query.name: con.execute(query.sql).fetchall() for query in queries}
    assert {name for name, ((first, *_),) in rows.items() if first is None} == set()


def test_tables_are_the_same_in_every_run(tables: dict[str, Any]) -> None:
    again = imdb.tables(MOVIES)
    assert list(again) == list(tables) == list(suites.suite("job26").tables)
    assert all(rows.equals(tables[name]) for name, rows in again.items())


@pytest.mark.parametrize("movies", [1, 50])
def test_tiny_tables_have_the_works(movies: int, tables: dict[str, Any]) -> None:
    tiny = imdb.tables(movies)
    assert {name: rows.schema for name, rows in tiny.items()} == {name: rows.schema for name, rows in tables.items()}
    assert "Iron Man" in tiny["title"]["title"].to_pylist()
    assert tiny["title"].num_rows >= movies


def test_tables_grow_with_the_size(tables: dict[str, Any]) -> None:
    larger = imdb.tables(4 * MOVIES)
    fixed = {"comp_cast_type", "company_type", "info_type", "kind_type", "link_type", "role_type"}
    for name, rows in tables.items():
        if name in fixed:
            assert larger[name].equals(rows)
        else:
            assert 2.5 < larger[name].num_rows / rows.num_rows < 5, name


def test_keys_are_dense_and_lead_to_rows(con: duckdb.DuckDBPyConnection, tables: dict[str, Any]) -> None:
    to = {
        **dict.fromkeys(("movie_id", "linked_movie_id", "episode_of_id"), "title"),
        **dict.fromkeys(("subject_id", "status_id"), "comp_cast_type"),
        "person_id": "name",
        "person_role_id": "char_name",
        **{f"{name}_id": name for name in ("keyword", "info_type", "company_type", "link_type")},
        "kind_id": "kind_type",
        "role_id": "role_type",
        "company_id": "company_name",
    }
    for name, rows in tables.items():
        assert value(con, f"SELECT min(id) = 1 AND max(id) = count(*) AND count(DISTINCT id) = count(*) FROM {name}")
        for column in rows.column_names:
            if column.endswith("_id"):
                missing = f"r.{column} IS NOT NULL AND r.{column} NOT IN (SELECT id FROM {to[column]})"
                assert value(con, f"SELECT count(*) FROM {name} r WHERE {missing}") == 0, (name, column)
            assert pa.types.is_int32(rows[column].type) or pa.types.is_string(rows[column].type)
    assert value(con, "SELECT count(*) - count(DISTINCT (movie_id, keyword_id)) FROM movie_keyword") == 0


@pytest.mark.parametrize(
    ("table", "key", "least"),
    [
        ("cast_info", "person_id", 0.08),
        ("cast_info", "movie_id", 0.1),
        ("movie_keyword", "keyword_id", 0.1),
        ("movie_keyword", "movie_id", 0.06),
        ("movie_companies", "company_id", 0.1),
        ("movie_info", "info_type_id", 0.15),
    ],
)
def test_few_have_many_rows(con: duckdb.DuckDBPyConnection, table: str, key: str, least: float) -> None:
    """Assert that the top hundredth of the keys, at least one key, has more than a given part of all rows."""
    counts = f"(SELECT count(*) AS rows FROM {table} GROUP BY {key} ORDER BY rows DESC)"
    keys, rows = value(con, f"SELECT count(*), sum(rows) FROM {counts}")
    top = value(con, f"SELECT sum(rows) FROM (FROM {counts} ORDER BY rows DESC LIMIT {max(keys // 100, 1)})")
    assert top / rows > least


def test_columns_go_together(con: duckdb.DuckDBPyConnection) -> None:
    def part(condition: str, rows: str) -> float:
        return float(value(con, f"SELECT count(*) FILTER (WHERE {condition}) / count(*) FROM {rows}"))

    titles = "title t JOIN kind_type kt ON kt.id = t.kind_id"
    assert part("kind = 'movie'", f"{titles} WHERE production_year < 1950") > 0.9
    assert part("kind = 'movie'", f"{titles} WHERE production_year > 2000") < 0.5
    assert part("episode_nr IS NULL", f"{titles} WHERE kind <> 'episode'") == 1

    # Companies and languages belong to the country.
    def facts(kind: str) -> str:
        typed = "movie_info mi JOIN info_type it ON it.id = info_type_id"
        return f"(SELECT movie_id, mi.info AS {kind} FROM {typed} WHERE it.info = '{kind}')"

    made = f"{facts('countries')} JOIN movie_companies USING (movie_id) JOIN company_name cn ON cn.id = company_id"
    assert part("country_code = '[de]'", f"{made} WHERE countries = 'Germany'") > 0.5
    assert part("country_code = '[de]'", f"{made} WHERE countries = 'Japan'") < 0.1
    spoken = f"{facts('countries')} JOIN {facts('languages')} USING (movie_id)"
    assert part("languages = 'Swedish'", f"{spoken} WHERE countries = 'Sweden'") > 0.7
    # Each medium has its time.
    shown = "movie_companies mc JOIN title t ON t.id = mc.movie_id"
    assert part("note LIKE '%(DVD)%'", f"{shown} WHERE production_year < 1980") == 0
    assert part("note LIKE '%(DVD)%'", f"{shown} WHERE production_year > 2000") > 0.1
    # Movies with many votes have better ratings.
    rated = f"{facts('rating')} JOIN {facts('votes')} USING (movie_id)".replace("movie_info ", "movie_info_idx ")
    assert value(con, f"SELECT corr(rating::DOUBLE, ln(votes::BIGINT)) FROM {rated}") > 0.15
    # Online movies have worldwide rights; voices of movies from Japan are dubbed.
    online = "(SELECT movie_id FROM movie_info WHERE note = '(internet)')"
    assert part("note LIKE '%(worldwide)%'", f"{shown} WHERE mc.note LIKE '(%) (%'") < 0.5 * part(
        "note LIKE '%(worldwide)%'", f"{shown} WHERE mc.note LIKE '(%) (%' AND movie_id IN {online}"
    )
    heard = f"{facts('countries')} JOIN cast_info ci USING (movie_id) WHERE starts_with(ci.note, '(voice')"
    dubbed = "ci.note LIKE '%English version%'"
    assert part(dubbed, f"{heard} AND countries = 'Japan'") > 2 * part(dubbed, f"{heard} AND countries = 'France'")
    # Actresses are women; movies that follow another one have the keyword of sequels.
    acting = "cast_info ci JOIN role_type rt ON rt.id = ci.role_id JOIN name n ON n.id = ci.person_id"
    assert part("gender = 'f'", f"{acting} WHERE role = 'actress'") > 0.9
    assert part("gender = 'f'", f"{acting} WHERE role = 'actor'") < 0.1
    sequels = "(SELECT movie_id FROM movie_keyword mk JOIN keyword k ON k.id = mk.keyword_id WHERE keyword = 'sequel')"
    follows = "(SELECT movie_id FROM movie_link ml JOIN link_type lt ON lt.id = ml.link_type_id WHERE link = 'follows')"
    rest = part(f"id IN {sequels}", f"title WHERE id NOT IN {follows}")
    assert part(f"id IN {sequels}", f"title WHERE id IN {follows}") > 3 * rest


def test_nulls_are_where_the_real_ones_are(tables: dict[str, Any]) -> None:
    nullable = {
        "title": {"production_year", "episode_of_id", "season_nr", "episode_nr"},
        "aka_title": {"production_year", "note"},
        "cast_info": {"person_role_id", "note", "nr_order"},
        "company_name": {"country_code"},
        "movie_companies": {"note"},
        "movie_info": {"note"},
        "movie_info_idx": {"note"},
        "name": {"gender", "name_pcode_cf"},
        "person_info": {"note"},
    }
    found = {name: {column for column in rows.column_names if rows[column].null_count} for name, rows in tables.items()}
    assert {name: columns for name, columns in found.items() if columns} == nullable
