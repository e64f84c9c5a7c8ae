"""The 21 tables of the Join Order Benchmark, generated: the schema of the Internet Movie Database, its skew, its gaps.

Columns are all keys and those that queries read, under their real names; left out are codes and check sums of names
that no query reads. Few movies and people have most rows (their number falls with a power of the rank), and columns go
together as they do there: kinds and media with years, companies, languages and release dates with countries, ratings
with votes, keywords, genres, titles and voices with each other by a theme, what people do with gender, sequels with
links. A few well-known works are there once, whatever the size. Compared with the real data, links between
movies, complete casts and ratings are more frequent, so that most queries find rows in small tables.
"""

from __future__ import annotations

from typing import Any

from warpmill_bench.suites.imdb import values
from warpmill_bench.suites.imdb.companies import companies, company_name, movie_companies
from warpmill_bench.suites.imdb.draws import lookup
from warpmill_bench.suites.imdb.facts import movie_info, movie_info_idx
from warpmill_bench.suites.imdb.movies import aka_title, complete_cast, keyword, links, movie_keyword, movie_link, title
from warpmill_bench.suites.imdb.movies import movies as drawn
from warpmill_bench.suites.imdb.people import aka_name, cast_info, char_name, name, people, person_info


def tables(movies: int = 6000) -> dict[str, Any]:
    """All tables for a number of movies, at least five; the largest table has about 13 rows per movie."""
    of = drawn(movies)
    cast, made, linked = people(of.count), companies(of.count), links(of)
    return {
        "aka_name": aka_name(cast),
        "aka_title": aka_title(of),
        "cast_info": cast_info(of, cast),
        "char_name": char_name(of.count),
        "comp_cast_type": lookup("kind", values.CAST_TYPES),
        "company_name": company_name(made),
        "company_type": lookup("kind", values.COMPANY_TYPES),
        "complete_cast": complete_cast(of),
        "info_type": lookup("info", values.INFOS),
        "keyword": keyword(of),
        "kind_type": lookup("kind", values.KINDS),
        "link_type": lookup("link", values.LINKS),
        "movie_companies": movie_companies(of, made),
        "movie_info": movie_info(of),
        "movie_info_idx": movie_info_idx(of, linked),
        "movie_keyword": movie_keyword(of, linked),
        "movie_link": movie_link(linked),
        "name": name(cast),
        "person_info": person_info(cast),
        "role_type": lookup("role", values.ROLES),
        "title": title(of),
    }
