"""Movies and the tables about single movies: titles, other titles, links, complete casts, keywords."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpmill_bench.suites.imdb import values
from warpmill_bench.suites.imdb.draws import Array, Draws, Lists, ids, joined, keys, lookup, pick, repeated, zipf
from warpmill_bench.suites.imdb.works import WORKS

#: The years in which eras end; the next table has the frequencies of `values.KINDS` in each era.
ERAS = (1950, 1980, 2000)
KIND_WEIGHTS = np.array(
    [(97, 0, 0, 0, 0, 0, 3), (62, 7, 7, 0, 1, 0, 23), (44, 9, 7, 9, 1, 2, 28), (40, 9, 5, 9, 1, 2, 34)], float
)
#: The number of rows of a movie by kind, relative to the mean.
KIND_ROWS = np.array([1.3, 1.5, 0.7, 0.6, 0.8, 0.6, 0.6])
#: The largest number of rows of a movie, relative to the mean.
MOST = 40.0
#: The last year, except for announced movies.
NEWEST = 2014

MOVIE, SERIES, EPISODE = (values.KINDS.index(name) for name in ("movie", "tv series", "episode"))
ONLINE, ANIMATION = (values.THEME_NAMES.index(name) for name in ("online", "animation"))
FOLLOWS = values.LINKS.index("follows")


@dataclass(frozen=True)
class Movies:
    """Properties of movies that several tables use; movie number n has the key n + 1."""

    #: Numbers of `values.THEMES`, `values.KINDS`, `values.COUNTRIES`.
    theme: Array
    kind: Array
    country: Array
    #: Years, also of movies for which `title` has none.
    year: Array
    #: The number of rows of a movie in each table, relative to the mean: few movies have most rows.
    popularity: Array
    #: The numbers of the movies that are `WORKS`, in their order.
    works: Array

    @property
    def count(self) -> int:
        """The number of movies."""
        return len(self.theme)

    def rows(self, draws: Draws, mean: float | Array) -> Array:
        """Draw the movies of a table's rows, in ascending order, with frequencies by popularity."""
        return repeated(draws.counts(mean * self.popularity))


def movies(count: int) -> Movies:
    """Draw a number of movies, at least the well-known ones."""
    draws, count = Draws("movies"), max(count, len(WORKS))
    theme = draws.weighted([one.share for one in values.THEMES], count)
    # Half of the movies are from the last 20 years; online movies are newer.
    age = np.where(theme == ONLINE, 17.0, 110.0) * draws.random.random(count) ** 2.6
    year = NEWEST - age.astype(np.int64)
    year += np.where(draws.chance(0.02, count) & (theme != ONLINE) & (year == NEWEST), 1 + draws.below(3, count), 0)
    kind = draws.by_class(KIND_WEIGHTS, np.searchsorted(ERAS, year, side="right"))
    country = draws.weighted(values.SHARES, count)
    country[(theme == ANIMATION) & draws.chance(0.3, count)] = values.country("Japan")
    country[(kind == SERIES) & draws.chance(0.3, count)] = values.country("USA")
    rank = draws.random.permutation(count)
    popularity = zipf(count, 0.7)[rank] * KIND_ROWS[kind]
    popularity = np.minimum(popularity / popularity.mean(), MOST)
    works = np.argsort(rank)[: len(WORKS)]
    theme[works] = [values.THEME_NAMES.index(work.theme) for work in WORKS]
    kind[works] = [values.KINDS.index(work.kind) for work in WORKS]
    country[works] = [values.country(work.country) for work in WORKS]
    year[works] = [work.year for work in WORKS]
    popularity[works] = MOST / 2
    return Movies(theme, kind, country, year, popularity / popularity.mean(), works)


def title(of: Movies) -> Any:
    """The table of movies; the year is NULL for some, and episodes belong to series."""
    draws, count = Draws("title"), of.count
    known = np.isin(np.arange(count), of.works)
    names = pa.array([WORKS[at].title for at in np.argsort(of.works)])
    episode = of.kind == EPISODE
    series = np.flatnonzero(of.kind == SERIES)
    parent = series[draws.skewed(len(series), count)] if len(series) else np.zeros(count, np.int64)
    unknown = draws.chance(0.03, count)
    unknown[known] = False
    return pa.table(
        {
            "id": ids(count),
            "title": pc.replace_with_mask(titles(draws, of.theme), known, names),
            "kind_id": keys(of.kind),
            "production_year": pa.array(of.year.astype(np.int32), mask=unknown),
            "episode_of_id": keys(parent, ~episode | (len(series) == 0)),
            "season_nr": keys(draws.skewed(20, count, 3.0), ~episode | draws.chance(0.1, count)),
            "episode_nr": keys(draws.skewed(250, count, 2.5), ~episode | draws.chance(0.1, count)),
        }
    )


_WORDS = Lists([(*theme.words, "The", *values.NOUNS[:6]) for theme in values.THEMES])


def titles(draws: Draws, theme: Array) -> Any:
    """Titles with a first word from the theme."""
    rows = len(theme)
    single = draws.chance(0.15, rows)
    return joined(
        pick(_WORDS.values, _WORDS.some(draws, theme, 1.3)),
        pick(
            (*values.BETWEEN, ""), np.where(single, len(values.BETWEEN), draws.skewed(len(values.BETWEEN), rows, 1.5))
        ),
        pick((*values.NOUNS, ""), np.where(single, len(values.NOUNS), draws.skewed(len(values.NOUNS), rows, 1.3))),
        pick(values.PARTS, draws.below(len(values.PARTS), rows)),
    )


def aka_title(of: Movies) -> Any:
    """Other titles, mostly of popular movies; each work has at least one."""
    draws = Draws("aka_title")
    movie = np.concatenate([of.rows(draws, 0.2), of.works])
    rows = len(movie)
    notes = ("(USA) (informal title)", "(International: English title)", "(UK)", "(alternative spelling)")
    return pa.table(
        {
            "id": ids(rows),
            "movie_id": keys(movie),
            "title": joined(
                pick(("Der ", "La ", "El ", "O ", ""), draws.below(5, rows)), titles(draws, of.theme[movie])
            ),
            "kind_id": keys(of.kind[movie]),
            "production_year": pa.array(of.year[movie].astype(np.int32), mask=draws.chance(0.1, rows)),
            "note": pick(notes, draws.below(len(notes), rows), draws.chance(0.4, rows)),
        }
    )


@dataclass(frozen=True)
class Links:
    """Pairs of movies, most of them in both directions; `kind` has indices of `values.LINKS`."""

    movie: Array
    other: Array
    kind: Array


def links(of: Movies) -> Links:
    """Links between movies of the same kind and theme, mostly of series; a sequel is the newer movie of the two."""
    draws = Draws("movie_link")
    movie = of.rows(draws, 0.1 * np.where(of.kind == SERIES, 10.0, 1.0))
    order = np.lexsort((of.year, of.theme, of.kind))
    place = np.empty_like(order)
    place[order] = np.arange(of.count)
    near = place[movie] + (1 + draws.skewed(12, len(movie))) * np.where(draws.chance(0.5, len(movie)), 1, -1)
    other = order[near % of.count]
    movie, other = movie[movie != other], other[movie != other]
    kind = draws.weighted(values.LINK_WEIGHTS, len(movie))
    swapped = (kind == FOLLOWS) & (of.year[movie] < of.year[other])
    first, second = np.where(swapped, other, movie), np.where(swapped, movie, other)
    # The names of links are in pairs of directions; the last names have no other direction.
    paired = kind < values.LINKS.index("version of")
    return Links(
        np.concatenate([first, second[paired]]),
        np.concatenate([second, first[paired]]),
        np.concatenate([kind, kind[paired] + 1]),
    )


def movie_link(of: Links) -> Any:
    """The table of links."""
    return pa.table(
        {
            "id": ids(len(of.movie)),
            "movie_id": keys(of.movie),
            "linked_movie_id": keys(of.other),
            "link_type_id": keys(of.kind),
        }
    )


def complete_cast(of: Movies) -> Any:
    """Movies with a completely known cast or crew; the works have both."""
    draws = Draws("complete_cast")
    movie = of.rows(draws, 0.2)
    subject = (~draws.chance(0.65, len(movie))).astype(np.int64)
    status = 2 + draws.chance(0.3, len(movie))
    cast, crew = (values.CAST_TYPES.index(name) for name in ("cast", "crew"))
    return pa.table(
        {
            "id": ids(len(movie) + 2 * len(of.works)),
            "movie_id": keys(np.concatenate([movie, of.works, of.works])),
            "subject_id": keys(np.concatenate([subject, np.repeat((cast, crew), len(of.works))])),
            "status_id": keys(np.concatenate([status, np.repeat(3, 2 * len(of.works))])),
        }
    )


_THEMED = Lists([theme.keywords for theme in values.THEMES])


def keyword(of: Movies) -> Any:
    """Keywords: those with a meaning, and meaningless ones, a tenth of the number of movies."""
    return lookup("keyword", (*values.KEYWORDS, *(f"keyword-{at}" for at in range(of.count // 10))))


def movie_keyword(of: Movies, among: Links) -> Any:
    """Keywords of movies: of the movie's theme, common ones, or any; sequels have theirs. Each pair occurs once."""
    draws = Draws("movie_keyword")
    movie = of.rows(draws, 3.0)
    rows = len(movie)
    number = {name: at for at, name in enumerate(values.KEYWORDS)}
    themed = np.array([number[name] for name in _THEMED.values])[_THEMED.some(draws, of.theme[movie])]
    common = draws.skewed(len(values.COMMON_KEYWORDS), rows, 2.2)
    tail = draws.skewed(len(values.KEYWORDS) + of.count // 10, rows, 1.5)
    source = draws.weighted((50, 17, 33), rows)
    followers = np.unique(among.movie[among.kind == FOLLOWS])
    sequels = followers[draws.chance(0.6, len(followers))]
    of_works = [(at, number[name]) for at, work in zip(of.works, WORKS, strict=True) for name in work.keywords]
    pairs = np.concatenate(
        [
            np.column_stack([movie, np.choose(source, (themed, common, tail))]),
            np.column_stack([sequels, np.full(len(sequels), number["sequel"])]),
            np.array(of_works),
        ]
    )
    pairs = np.unique(pairs, axis=0)
    return pa.table({"id": ids(len(pairs)), "movie_id": keys(pairs[:, 0]), "keyword_id": keys(pairs[:, 1])})
