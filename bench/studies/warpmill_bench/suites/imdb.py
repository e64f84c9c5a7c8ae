"""The tables of the Join Order Benchmark, with the values that its queries look for, skewed and correlated a little."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

KINDS = ("movie", "tv series", "tv movie", "video movie", "tv mini series", "video game", "episode")
INFOS = (
    *("rating", "votes", "top 250 rank", "bottom 10 rank", "genres", "countries", "release dates", "budget"),
    *("mini biography", "languages", "runtimes", "trivia"),
)
COUNTRIES = ("Sweden", "Norway", "Germany", "Denmark", "Swedish", "German", "USA", "American", "Bulgaria")
RELEASES = ("USA:12 May 2005", "USA:1 June 1999", "Japan:3 July 2007", "Japan:2 May 2003", "USA:2008")
KEYWORDS = (
    *("character-name-in-title", "sequel", "superhero", "marvel-cinematic-universe", "murder", "murder-in-title"),
    *("blood", "violence", "based-on-comic", "fight", "gore", "death", "female-nudity", "second-sequel", "love"),
)
CODES = ("[us]", "[us]", "[us]", "[de]", "[jp]", "[ru]", "[pl]", "[gb]", None)
COMPANY_NOTES = (
    *(None, None, "(2006) (USA) (theatrical)", "(2005) (worldwide) (TV)", "(co-production)", "(presents)"),
    *("(2008) (France) (theatrical)", "(Japan) (2003) (DVD)", "(as Metro-Goldwyn-Mayer Pictures) (presents)"),
)
ROLE_NOTES = (
    *("(voice)", "(voice: English version)", "(voice: Japanese version)", "(voice) (uncredited)", "(producer)"),
    *("(executive producer)", "(writer)", "(head writer)", "(written by)", "(story)", None, None),
)
FIRST = ("Robert", "Tim", "Angela", "Yoko", "Bert", "Anna", "Bob", "Timothy", "Angelina", "Xena")
LAST = ("Downey", "Burton", "Ang", "Yoshida", "Bale", "Smith", "Carrey", "Yu", "Berry", "Dean")
CHARACTERS = ("Tony Stark", "Iron Man", "Sherlock Holmes", "Queen", "King", "Doctor")
LINKS = ("follows", "followed by", "sequel", "features", "remake of", "references")
ROLES = ("actor", "actress", "producer", "writer", "director")


def tables(movies: int = 6000) -> dict[str, Any]:
    """All 21 tables that the queries use; the largest has 20 rows per movie."""
    random = np.random.default_rng(1989)
    people, companies, keywords = movies // 2, movies // 8, 300

    def some(count: int, rows: int) -> Any:
        """Keys from 1 to a count, small ones more often."""
        return 1 + (count * random.random(rows) ** 2).astype(np.int32)

    def pick(values: tuple[str | None, ...], rows: int) -> Any:
        return pa.array(values, pa.string()).take(random.integers(0, len(values), rows))

    def lookup(name: str, values: tuple[str, ...]) -> Any:
        return pa.table({"id": np.arange(1, len(values) + 1, dtype=np.int32), name: list(values)})

    def ids(rows: int) -> Any:
        return np.arange(1, rows + 1, dtype=np.int32)

    names = [f"{LAST[a]}, {FIRST[b]}" for a, b in random.integers(0, 10, (people, 2))]
    infos, votes, cast = movies * 6, movies * 4, movies * 20
    info_kind = random.integers(1, len(INFOS) + 1, infos).astype(np.int32)
    info_text = [
        {4: ("Drama", "Horror", "Comedy"), 5: COUNTRIES, 6: RELEASES}.get(kind - 1, ("$1,000,000", *COUNTRIES))
        for kind in info_kind
    ]
    return {
        "kind_type": lookup("kind", KINDS),
        "info_type": lookup("info", INFOS),
        "company_type": lookup("kind", ("production companies", "distributors", "special effects companies")),
        "link_type": lookup("link", LINKS),
        "role_type": lookup("role", ROLES),
        "comp_cast_type": lookup("kind", ("cast", "crew", "complete", "complete+verified")),
        "keyword": lookup("keyword", (*KEYWORDS, *(f"keyword-{at}" for at in range(keywords - len(KEYWORDS))))),
        "title": pa.table(
            {
                "id": ids(movies),
                "title": [f"{FIRST[at % 10]} and the {KEYWORDS[at % 15]} {at}" for at in range(movies)],
                "kind_id": random.integers(1, len(KINDS) + 1, movies).astype(np.int32),
                "production_year": pa.array(
                    random.integers(1940, 2016, movies).astype(np.int32), mask=random.random(movies) < 0.05
                ),
                "episode_nr": pa.array(
                    random.integers(1, 150, movies).astype(np.int32), mask=random.random(movies) < 0.4
                ),
            }
        ),
        "company_name": pa.table(
            {
                "id": ids(companies),
                "name": [f"{('Warner', 'Film Works', 'Toei', 'Gaumont')[at % 4]} {at}" for at in range(companies)],
                "country_code": pick(CODES, companies),
            }
        ),
        "name": pa.table(
            {
                "id": ids(people),
                "name": names,
                "gender": pick(("m", "f", "m", None), people),
                "name_pcode_cf": pick(("A1", "B52", "C3", "E9", "G2", "Z1", None), people),
            }
        ),
        "char_name": pa.table({"id": ids(people), "name": pick(CHARACTERS, people)}),
        "aka_name": pa.table({"person_id": some(people, people), "name": pick((*FIRST, *LAST), people)}),
        "aka_title": pa.table({"movie_id": some(movies, movies), "title": pick(KEYWORDS, movies)}),
        "person_info": pa.table(
            {
                "person_id": some(people, people * 3),
                "info_type_id": random.integers(1, len(INFOS) + 1, people * 3).astype(np.int32),
                "note": pick(("Volker Boehm", "Anonymous", None), people * 3),
            }
        ),
        "movie_info": pa.table(
            {
                "movie_id": some(movies, infos),
                "info_type_id": info_kind,
                "info": [
                    texts[at % len(texts)] for at, texts in zip(random.integers(0, 100, infos), info_text, strict=True)
                ],
                "note": pick((None, "internet release", "(premiere)"), infos),
            }
        ),
        "movie_info_idx": pa.table(
            {
                "movie_id": some(movies, votes),
                "info_type_id": random.integers(1, 5, votes).astype(np.int32),
                "info": [f"{value / 10:.1f}" for value in random.integers(10, 100, votes)],
            }
        ),
        "movie_companies": pa.table(
            {
                "movie_id": some(movies, movies * 4),
                "company_id": some(companies, movies * 4),
                "company_type_id": random.integers(1, 4, movies * 4).astype(np.int32),
                "note": pick(COMPANY_NOTES, movies * 4),
            }
        ),
        "movie_keyword": pa.table({"movie_id": some(movies, movies * 6), "keyword_id": some(keywords, movies * 6)}),
        "cast_info": pa.table(
            {
                "movie_id": some(movies, cast),
                "person_id": some(people, cast),
                "person_role_id": pa.array(some(people, cast), mask=random.random(cast) < 0.3),
                "role_id": random.integers(1, len(ROLES) + 1, cast).astype(np.int32),
                "note": pick(ROLE_NOTES, cast),
            }
        ),
        "movie_link": pa.table(
            {
                "movie_id": some(movies, movies),
                "linked_movie_id": some(movies, movies),
                "link_type_id": random.integers(1, len(LINKS) + 1, movies).astype(np.int32),
            }
        ),
        "complete_cast": pa.table(
            {
                "movie_id": some(movies, movies),
                "subject_id": random.integers(1, 3, movies).astype(np.int32),
                "status_id": random.integers(3, 5, movies).astype(np.int32),
            }
        ),
    }
