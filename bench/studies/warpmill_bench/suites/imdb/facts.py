"""Facts about movies: countries, languages, genres, dates, money; ratings with votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from warpmill_bench.suites.imdb import values
from warpmill_bench.suites.imdb.draws import Array, Draws, Lists, ids, joined, keys, pick, repeated, years
from warpmill_bench.suites.imdb.movies import FOLLOWS, MOVIE, ONLINE, SERIES, Links, Movies
from warpmill_bench.suites.imdb.works import WORKS

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
RELEASE_NOTES = ("(premiere)", "(limited)", "(DVD premiere)", "(re-release)", "(Berlin International Film Festival)")
#: Texts of other facts, with the mean number of rows per movie.
TEXTS: dict[str, tuple[float, tuple[str, ...]]] = {
    "certificates": (0.5, ("USA:PG-13", "USA:R", "Germany:16", "UK:15", "Sweden:15", "USA:Approved", "Finland:K-16")),
    "sound mix": (0.3, ("Mono", "Stereo", "Dolby Digital", "Silent")),
    "locations": (0.4, ("Los Angeles, California, USA", "Berlin, Germany", "Paris, France", "London, England, UK")),
    "trivia": (0.4, ("The budget was spent twice.", "Shot in 23 days.", "The last film of its studio.")),
    "plot": (0.25, ("A stranger comes to town.", "Two families fight.", "Somebody leaves and comes back.")),
    "taglines": (0.2, ("Nobody is safe.", "This summer everything changes.", "Love never waits.")),
    "tech info": (0.4, ("PFM:35 mm", "OFM:35 mm", "RAT:1.85 : 1", "PCS:Spherical", "CAM:Arriflex")),
    "mpaa": (0.01, ("Rated R for violence", "Rated PG-13 for language")),
}


@dataclass(frozen=True)
class Fact:
    """Rows of one kind of facts: movies, texts, and notes if there are any."""

    kind: str
    movie: Array
    text: Any
    note: Any = None


def movie_info(of: Movies) -> Any:
    """All facts but ratings, kind by kind, as in the real data."""
    draws = Draws("movie_info")
    return _table(
        [
            _runtimes(of, draws),
            _colors(of, draws),
            _genres(of, draws),
            *_origins(of, draws),
            _releases(of, draws),
            _budgets(of, draws),
            *(_any_text(of, draws, kind) for kind in TEXTS),
        ]
    )


def _table(facts: list[Fact]) -> Any:
    rows = [len(fact.movie) for fact in facts]
    kinds = np.repeat([values.info(fact.kind) for fact in facts], rows)
    notes = [pa.nulls(len(fact.movie), pa.string()) if fact.note is None else fact.note for fact in facts]
    return pa.table(
        {
            "id": ids(sum(rows)),
            "movie_id": keys(np.concatenate([fact.movie for fact in facts])),
            "info_type_id": keys(kinds),
            "info": _column([fact.text for fact in facts]),
            "note": _column(notes),
        }
    )


def _column(parts: list[Any]) -> Any:
    return pa.chunked_array(parts, pa.string()).combine_chunks()


def _some(of: Movies, draws: Draws, part: float) -> Array:
    """Draw about a part of all movies, each at most once."""
    return np.flatnonzero(draws.chance(part, of.count))


def _runtimes(of: Movies, draws: Draws) -> Fact:
    movie = _some(of, draws, 0.5)
    minutes = np.where(of.kind[movie] == MOVIE, 75 + draws.below(60, len(movie)), 20 + draws.below(40, len(movie)))
    country = pick(("USA:", "Germany:", ""), draws.weighted((10, 5, 85), len(movie)))
    return Fact("runtimes", movie, joined(country, pick([str(at) for at in range(200)], minutes)))


def _colors(of: Movies, draws: Draws) -> Fact:
    movie = _some(of, draws, 0.55)
    gray = draws.random.random(len(movie)) < np.where(of.year[movie] < 1960, 0.9, 0.06)
    return Fact("color info", movie, pick(("Color", "Black and White"), gray.astype(np.int64)))


_GENRES = Lists([theme.genres for theme in values.THEMES])


def _genres(of: Movies, draws: Draws) -> Fact:
    """One or more genres of the movie's theme, each once."""
    movie = repeated(1 + draws.counts(np.full(of.count, 0.8)))
    pairs = np.unique(np.column_stack([movie, _GENRES.some(draws, of.theme[movie])]), axis=0)
    return Fact("genres", pairs[:, 0], pick(_GENRES.values, pairs[:, 1]))


def _origins(of: Movies, draws: Draws) -> tuple[Fact, Fact]:
    """The country of each movie and its language; further ones for co-productions."""
    more = np.flatnonzero(draws.chance(np.minimum(0.08 * of.popularity + 0.06, 0.6), of.count))
    movie = np.concatenate([np.arange(of.count), more])
    country = np.concatenate([of.country, draws.weighted(values.SHARES, len(more))])
    spoken = np.where(draws.chance(0.06, len(movie)), draws.weighted(values.SHARES, len(movie)), country)
    known = draws.chance(0.85, len(movie))
    return (
        Fact("countries", movie, pick(values.COUNTRY_NAMES, country)),
        Fact("languages", movie[known], pick([one.language for one in values.COUNTRIES], spoken[known])),
    )


def _releases(of: Movies, draws: Draws) -> Fact:
    """Release dates by country, from the year of the movie on; notes tell the kind of release."""
    movie = repeated(draws.chance(0.75, of.count) + draws.counts(np.minimum(0.35 * of.popularity, 25)))
    rows = len(movie)
    country = np.where(draws.chance(0.55, rows), of.country[movie], draws.weighted(values.SHARES, rows))
    year = of.year[movie] + draws.skewed(3, rows, 4.0)
    exact = draws.weighted((72, 18, 10), rows)
    days = (*(f"{day} " for day in range(1, 29)), "")
    text = joined(
        pick(values.COUNTRY_NAMES, country),
        pa.scalar(":"),
        pick(days, np.where(exact == 0, draws.below(28, rows), 28)),
        pick((*(f"{month} " for month in MONTHS), ""), np.where(exact <= 1, draws.below(12, rows), 12)),
        years(year),
    )
    online = draws.random.random(rows) < np.where(of.theme[movie] == ONLINE, 0.6, np.where(year > 1998, 0.012, 0.0))
    number = np.where(online, len(RELEASE_NOTES), draws.skewed(len(RELEASE_NOTES), rows))
    note = pick((*RELEASE_NOTES, "(internet)"), number, ~online & draws.chance(0.75, rows))
    known = [f"{country}:12 May {work.year}" for work in WORKS for country in ("USA", "Japan")]
    return Fact(
        "release dates",
        np.concatenate([movie, np.repeat(of.works, 2)]),
        pa.concat_arrays([text, pa.array(known, pa.string())]),
        pa.concat_arrays([note, pa.nulls(len(known), pa.string())]),
    )


def _budgets(of: Movies, draws: Draws) -> Fact:
    """Budgets, more often of popular movies; all works have one."""
    known = draws.chance(np.minimum(0.1 * of.popularity, 0.7), of.count) & (of.kind == MOVIE)
    known[of.works] = True
    movie = np.flatnonzero(known)
    amount = np.minimum(draws.skewed(40, len(movie)) + (2 * of.popularity[movie]).astype(np.int64), 99)
    currency = np.where(of.country[movie] == values.country("USA"), 0, draws.below(3, len(movie)))
    return Fact(
        "budget",
        movie,
        joined(
            pick(("$", "€", "£"), currency),
            pick([f"{(at + 1) * 25 // 10},{at % 4 * 250:03},000" for at in range(100)], amount),
        ),
        pick(("(estimated)",), np.zeros(len(movie), np.int64), draws.chance(0.6, len(movie))),
    )


def _any_text(of: Movies, draws: Draws, kind: str) -> Fact:
    mean, texts = TEXTS[kind]
    movie = of.rows(draws, mean)
    return Fact(kind, movie, pick(texts, draws.skewed(len(texts), len(movie))))


def movie_info_idx(of: Movies, among: Links) -> Any:
    """Ratings and votes of popular movies; the best 250 and the worst 10 of the movies with many votes."""
    draws = Draws("movie_info_idx")
    rated = draws.chance(np.minimum(0.2 + 0.35 * of.popularity, 0.97), of.count)
    rated[of.works] = True
    movie = np.flatnonzero(rated)
    rows = len(movie)
    votes = (5 + 40 * of.popularity[movie] ** 1.6 * draws.random.lognormal(0, 1, rows)).astype(np.int64)
    # Movies with many votes have better ratings, with less variation.
    rating = 5.4 + np.array([theme.rating for theme in values.THEMES])[of.theme[movie]] + 0.55 * np.log10(votes)
    rating += draws.random.normal(0, 1, rows) * np.where(votes > 1000, 0.8, 1.3)
    # Some movies with few votes have bad ratings, and more of the series that follow another one.
    follows = np.isin(movie, among.movie[among.kind == FOLLOWS]) & (of.kind[movie] == SERIES)
    bad = draws.chance(np.where(follows, 0.35, 0.1), rows) & (follows | (votes < 2000))
    rating = np.where(bad, 1.5 + 2.2 * draws.random.random(rows), rating)
    place = np.searchsorted(movie, of.works)
    rating[place] = [work.rating for work in WORKS]
    votes[place] = 100_000
    rating = np.clip(np.round(rating, 1), 1.0, 9.8)
    known = np.flatnonzero((of.kind[movie] == MOVIE) & (votes >= np.quantile(votes, 0.85)))
    order = known[np.argsort(rating[known], kind="stable")]
    worst, best = order[:10], order[::-1][: max(10, min(250, of.count // 20))]
    ranks = [str(at) for at in range(1, 251)]
    digits = [f"{at:010}" for at in draws.random.integers(0, 10**10, 300)]
    return _table(
        [
            Fact("votes distribution", movie, pick(digits, draws.below(300, rows))),
            Fact("votes", movie, pa.array(votes).cast(pa.string())),
            Fact(
                "rating", movie, pick([f"{at / 10:.1f}" for at in range(100)], np.round(rating * 10).astype(np.int64))
            ),
            Fact("top 250 rank", movie[best], pick(ranks, np.arange(len(best)))),
            Fact("bottom 10 rank", movie[worst], pick(ranks, np.arange(len(worst)))),
        ]
    )
