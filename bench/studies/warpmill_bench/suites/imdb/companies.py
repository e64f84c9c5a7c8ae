"""Companies and their work for movies, mostly for movies of their own country."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warpmill_bench.suites.imdb import values
from warpmill_bench.suites.imdb.draws import Array, Draws, ids, joined, keys, pick, years
from warpmill_bench.suites.imdb.movies import EPISODE, ONLINE, Movies
from warpmill_bench.suites.imdb.works import WORKS

#: Companies that queries name, ordered by country, and their countries.
_NAMES = tuple(name for names in values.COMPANIES.values() for name in names)
_COUNTRIES = tuple(values.country(country) for country, names in values.COMPANIES.items() for _ in names)
DISTRIBUTORS, PRODUCTION = (values.COMPANY_TYPES.index(name) for name in ("distributors", "production companies"))
USA = values.country("USA")


@dataclass(frozen=True)
class Companies:
    """Companies by number, the well-known ones first; `country` is a number of `values.COUNTRIES`."""

    country: Array
    #: All companies by country, the largest of each first; the first position and the number of those of each country.
    order: Array
    begins: Array
    sizes: Array

    @property
    def count(self) -> int:
        """The number of companies."""
        return len(self.country)


def companies(movies: int) -> Companies:
    """Draw the companies for a number of movies."""
    draws = Draws("companies")
    country = np.concatenate([_COUNTRIES, draws.weighted(values.SHARES, movies // 12)])
    sizes = np.bincount(country, minlength=len(values.COUNTRIES))
    return Companies(country, np.argsort(country, kind="stable"), np.cumsum(sizes) - sizes, sizes)


def company_name(of: Companies) -> Any:
    """The table of companies: names and country codes; some of the small companies have no code."""
    draws, rows = Draws("company_name"), of.count - len(_NAMES)
    names = joined(
        pick(values.COMPANY_WORDS, draws.below(len(values.COMPANY_WORDS), rows)),
        pa.scalar(" "),
        pick(values.COMPANY_WORDS, draws.below(len(values.COMPANY_WORDS), rows)),
        pa.scalar(" "),
        pick(values.COMPANY_KINDS, draws.skewed(len(values.COMPANY_KINDS), rows, 1.5)),
    )
    unknown = draws.chance(0.15, of.count)
    unknown[: len(_NAMES)] = False
    return pa.table(
        {
            "id": ids(of.count),
            "name": pa.concat_arrays([pa.array(_NAMES), names]),
            "country_code": pick([one.code for one in values.COUNTRIES], of.country, unknown),
        }
    )


def movie_companies(of: Movies, among: Companies) -> Any:
    """The producers and distributors of movies, with notes, and those of the well-known works."""
    draws = Draws("movie_companies")
    movie = of.rows(draws, 2.2)
    rows = len(movie)
    company = _of_movies(of, among, draws, movie)
    kind = draws.weighted((52, 47, 0.5, 0.5), rows)
    made = kind == PRODUCTION
    shown = (kind == DISTRIBUTORS) & draws.chance(0.85, rows) | made & draws.chance(0.3, rows)
    distribution = _distribution(draws, of, movie, among.country[company])
    production = pick(
        values.PRODUCTION_NOTES, draws.skewed(len(values.PRODUCTION_NOTES), rows), ~made | draws.chance(0.86, rows)
    )
    # Three rows per work: its distributor, and the same company as a producer without a note, and with one.
    known = np.array([_NAMES.index(work.company) for work in WORKS])
    notes = [note for work in WORKS for note in (work.note, None, "(co-production)")]
    kinds = np.tile((DISTRIBUTORS, PRODUCTION, PRODUCTION), len(WORKS))
    return pa.table(
        {
            "id": ids(rows + len(notes)),
            "movie_id": keys(np.concatenate([movie, np.repeat(of.works, 3)])),
            "company_id": keys(np.concatenate([company, np.repeat(known, 3)])),
            "company_type_id": keys(np.concatenate([kind, kinds])),
            "note": pa.concat_arrays([_either(shown, distribution, production), pa.array(notes, pa.string())]),
        }
    )


def _of_movies(of: Movies, among: Companies, draws: Draws, movie: Array) -> Array:
    """The company of each row: mostly one of the movie's country; for movies from the USA often that of the theme."""
    rows, country = len(movie), of.country[movie]
    own = among.begins[country] + draws.skewed(among.sizes[country], rows, 2.5)
    foreign = draws.skewed(among.count, rows, 2.0)
    company = np.where((among.sizes[country] > 0) & draws.chance(0.7, rows), among.order[own % among.count], foreign)
    themed = np.array([_NAMES.index(theme.company) for theme in values.THEMES])[of.theme[movie]]
    return np.where((country == USA) & draws.chance(0.15, rows), themed, company)


def _distribution(draws: Draws, of: Movies, movie: Array, country: Array) -> Any:
    """Notes such as "(2006) (USA) (DVD)": media of their time, mostly in the company's country, online in the world."""
    rows = len(movie)
    # Rights of episodes are as old as those of their series.
    older = np.where(of.kind[movie] == EPISODE, draws.skewed(8, rows), 0)
    year = of.year[movie] - older + draws.skewed(6, rows, 3.0)
    place = np.where(draws.chance(0.5, rows), country, draws.weighted((*values.SHARES, 300), rows))
    place = np.where((of.theme[movie] == ONLINE) & draws.chance(0.5, rows), len(values.COUNTRIES), place)
    medium = draws.by_class(
        np.array(values.MEDIA_WEIGHTS, float), np.searchsorted(values.MEDIA_UNTIL, year, side="right")
    )
    dated = joined(
        pa.scalar("("),
        years(year),
        pa.scalar(") ("),
        pick((*values.COUNTRY_NAMES, "worldwide"), place),
        pa.scalar(") "),
    )
    undated = joined(pa.scalar("("), pick((*values.COUNTRY_NAMES, "worldwide"), place), pa.scalar(") "))
    return joined(_either(draws.chance(0.88, rows), dated, undated), pick(values.MEDIA, medium))


def _either(first: Array, one: Any, other: Any) -> Any:
    return pc.if_else(pa.array(first), one, other)
