"""People, their other names, facts about them, the characters that they play, and casts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from warpmill_bench.suites.imdb import values, works
from warpmill_bench.suites.imdb.draws import Array, Draws, ids, joined, keys, pick, repeated, zipf
from warpmill_bench.suites.imdb.works import WORKS

if TYPE_CHECKING:
    from warpmill_bench.suites.imdb.movies import Movies

GENDERS = ("m", "f", None)
#: The frequencies of roles by gender, in the order of `values.ROLES`.
ROLE_WEIGHTS = np.array(
    [
        (60, 0, 8, 9, 4, 4, 0, 7, 3, 3, 1, 1),
        (0, 62, 8, 9, 1, 1, 5, 4, 4, 4, 1, 1),
        (4, 4, 22, 18, 8, 8, 4, 10, 8, 12, 2, 0),
    ],
    float,
)
ACTOR, ACTRESS, PRODUCER, WRITER = (values.ROLES.index(name) for name in ("actor", "actress", "producer", "writer"))
JAPAN = values.country("Japan")
HERO = values.THEME_NAMES.index("hero")
_FIRST = (*values.MEN, *values.WOMEN)


@dataclass(frozen=True)
class People:
    """People by number; the key is the number plus one. The people of the works have the first numbers."""

    #: Indices of `GENDERS`, `values.ROLES`, `values.SURNAMES` and of all first names.
    gender: Array
    role: Array
    surname: Array
    first: Array
    #: The numbers of all people, the most frequent first.
    order: Array
    popularity: Array

    @property
    def count(self) -> int:
        """The number of people."""
        return len(self.gender)


def people(movies: int) -> People:
    """Draw the people for a number of movies."""
    draws, count = Draws("people"), len(works.PEOPLE) + movies * 8 // 5
    gender = draws.weighted((46, 29, 25), count)
    gender[: len(works.PEOPLE)] = [GENDERS.index(one.gender) for one in works.PEOPLE]
    women = np.where(gender == 2, draws.chance(0.4, count), gender == 1)
    first = np.where(women, len(values.MEN), 0) + draws.skewed(24, count, 1.5)
    order = draws.random.permutation(count)
    popularity = np.empty(count)
    popularity[order] = np.minimum(zipf(count, 0.6) / zipf(count, 0.6).mean(), 40)
    surname = draws.skewed(len(values.SURNAMES), count, 1.2)
    return People(gender, draws.by_class(ROLE_WEIGHTS, gender), surname, first, order, popularity)


def soundex(name: str, digits: int = 4) -> str:
    """The first letter, and digits for the consonants after it: neighbours with similar sounds have one digit."""
    groups = {
        letter: str(at) for at, group in enumerate(("BFPV", "CGJKQSXZ", "DT", "L", "MN", "R"), 1) for letter in group
    }
    letters = [letter for letter in name.upper() if "A" <= letter <= "Z"]
    codes = [groups.get(letter, "") for letter in letters]
    kept = [code for before, code in pairwise(codes) if code and code != before]
    return letters[0] + "".join(kept[:digits])


def name(of: People) -> Any:
    """Names as "surname, first name", with their phonetic codes."""
    draws, known = Draws("name"), len(works.PEOPLE)
    surname, first = of.surname[known:], of.first[known:]
    initials = ("", *(f" {letter}." for letter in "JAMBCDEFG"))
    names = joined(
        pick(values.SURNAMES, surname),
        pa.scalar(", "),
        pick(_FIRST, first),
        pick(initials, draws.skewed(len(initials), len(first), 2.5)),
    )
    codes = [soundex(one + two) for one in values.SURNAMES for two in _FIRST]
    sounds = pick(codes, surname * len(_FIRST) + first, draws.chance(0.01, len(first)))
    return pa.table(
        {
            "id": ids(of.count),
            "name": pa.concat_arrays([pa.array([one.person for one in works.PEOPLE]), names]),
            "gender": pick(GENDERS, of.gender),
            "name_pcode_cf": pa.concat_arrays([pa.array([soundex(one.person) for one in works.PEOPLE]), sounds]),
        }
    )


def aka_name(of: People) -> Any:
    """Other names, mostly of people with many roles; the people of the works have at least one each."""
    draws = Draws("aka_name")
    person = repeated(draws.counts(0.4 * of.popularity))
    person = np.concatenate([np.arange(len(works.PEOPLE)), person])
    rows = len(person)
    nicks = ("Big", "Lady", "Captain", "DJ", "Sir", "Little", "Old", "Mr.", "Miss", "Doc")
    before = np.where(draws.chance(0.5, rows), len(nicks), draws.below(len(nicks), rows))
    changed = np.where(draws.chance(0.5, rows), of.first[person], draws.skewed(len(_FIRST), rows))
    return pa.table(
        {
            "id": ids(rows),
            "person_id": keys(person),
            "name": joined(
                pick((*(f"{nick} " for nick in nicks), ""), before),
                pick(_FIRST, changed),
                pa.scalar(" "),
                pick(values.SURNAMES, of.surname[person]),
            ),
        }
    )


#: Facts about people: frequency, texts, and authors.
FACTS: dict[str, tuple[float, tuple[str, ...], tuple[str, ...]]] = {
    "birth date": (25, ("12 May 1950", "1 June 1964", "30 January 1971", "1922", "8 March 1985"), ()),
    "birth notes": (
        18,
        ("London, England, UK", "Berlin, Germany", "New York City, New York, USA", "Mumbai, India"),
        (),
    ),
    "mini biography": (20, ("Began on the stage of a small town.", "Born to a family of actors."), values.BIOGRAPHERS),
    "trivia": (20, ("Speaks four languages.", "Has a twin.", "Collects old cameras."), ()),
    "height": (10, ("5' 10\"", "6'", "170 cm", "5' 6\""), ()),
    "spouse": (6, ("'A. Smith' (1980 - 1991) (divorced)",), ()),
    "quotes": (4, ("Never work with children.", "I just stand where they tell me."), ()),
    "nick names": (3, ("Bobby", "Angie", "The Boss"), ()),
}
_TEXTS = [text for _, texts, _ in FACTS.values() for text in texts]


def person_info(of: People) -> Any:
    """Facts, mostly about people with many roles; the people of the works have one of each kind."""
    draws = Draws("person_info")
    person = repeated(draws.counts(0.8 * of.popularity))
    fact = draws.weighted([share for share, _, _ in FACTS.values()], len(person))
    known = len(works.PEOPLE)
    person = np.concatenate([np.repeat(np.arange(known), len(FACTS)), person])
    fact = np.concatenate([np.tile(np.arange(len(FACTS)), known), fact])
    sizes = np.array([len(texts) for _, texts, _ in FACTS.values()])
    begins = np.cumsum(sizes) - sizes
    signed = np.array([bool(authors) for _, _, authors in FACTS.values()])[fact]
    author = draws.skewed(len(values.BIOGRAPHERS), len(person))
    return pa.table(
        {
            "id": ids(len(person)),
            "person_id": keys(person),
            "info_type_id": keys(np.array([values.info(kind) for kind in FACTS])[fact]),
            "info": pick(_TEXTS, begins[fact] + draws.skewed(sizes[fact], len(person))),
            "note": pick(values.BIOGRAPHERS, author, ~signed | draws.chance(0.1, len(person))),
        }
    )


_CHARACTERS = tuple(dict.fromkeys((*values.CHARACTERS, *values.HEROES, *works.CHARACTERS)))


def characters(movies: int) -> int:
    """The number of characters for a number of movies."""
    return len(_CHARACTERS) + movies * 6 // 5


def char_name(movies: int) -> Any:
    """Characters; those of many movies have the first keys."""
    draws, rows = Draws("char_name"), characters(movies) - len(_CHARACTERS)
    before = ("", "", "", "Dr. ", "Mrs. ", "Officer ")
    names = joined(
        pick(before, draws.below(len(before), rows)),
        pick(_FIRST, draws.below(len(_FIRST), rows)),
        pa.scalar(" "),
        pick((*values.SURNAMES, "Newman", "Hoffmann"), draws.below(len(values.SURNAMES) + 2, rows)),
    )
    return pa.table({"id": ids(rows + len(_CHARACTERS)), "name": pa.concat_arrays([pa.array(_CHARACTERS), names])})


_NOTE_KINDS = (
    *(values.ACTING_NOTES, values.VOICE_NOTES, values.DUBBED_NOTES, values.PRODUCER_NOTES, values.WRITER_NOTES),
    values.CREW_NOTES,
)
_NOTES = tuple(dict.fromkeys(note for notes in _NOTE_KINDS for note in notes))
_NOTE_WEIGHTS = np.array([[notes.get(note, 0) for note in _NOTES] for notes in _NOTE_KINDS], float)


def cast_info(of: Movies, cast: People) -> Any:
    """The cast of each movie. Roles depend on the person's usual role and gender, notes on the role."""
    draws = Draws("cast_info")
    movie = of.rows(draws, 13.0)
    rows = len(movie)
    person = cast.order[draws.skewed(cast.count, rows)]
    role = np.where(draws.chance(0.75, rows), cast.role[person], draws.by_class(ROLE_WEIGHTS, cast.gender[person]))
    acting = (role == ACTOR) | (role == ACTRESS)
    heard = acting & draws.chance(np.array([theme.voices for theme in values.THEMES])[of.theme[movie]], rows)
    dubbed = heard & (of.country[movie] == JAPAN)
    kind = np.select([dubbed, heard, acting, role == PRODUCER, role == WRITER], [2, 1, 0, 3, 4], 5)
    heroic = (of.theme[movie] == HERO) & draws.chance(0.3, rows)
    character = np.where(
        heroic,
        len(values.CHARACTERS) + draws.skewed(len(values.HEROES), rows),
        draws.skewed(characters(of.count), rows, 2.2),
    )
    drawn = pa.table(
        {
            "person_id": keys(person),
            "movie_id": keys(movie),
            "person_role_id": keys(character, ~acting | draws.chance(0.25, rows)),
            "note": pick(_NOTES, draws.by_class(_NOTE_WEIGHTS, kind)),
            "nr_order": keys(draws.skewed(60, rows), ~acting | draws.chance(0.3, rows)),
            "role_id": keys(role),
        }
    )
    table = pa.concat_tables([drawn, _casts_of_works(of)])
    return table.add_column(0, "id", pa.array(ids(table.num_rows))).combine_chunks()


def _casts_of_works(of: Movies) -> Any:
    parts = [
        (movie, at, part) for movie, work in zip(of.works, WORKS, strict=True) for at, part in enumerate(work.cast)
    ]
    played = [None if part.character is None else _CHARACTERS.index(part.character) + 1 for _, _, part in parts]
    return pa.table(
        {
            "person_id": pa.array([works.person(part.person) + 1 for _, _, part in parts], pa.int32()),
            "movie_id": pa.array([int(movie) + 1 for movie, _, _ in parts], pa.int32()),
            "person_role_id": pa.array(played, pa.int32()),
            "note": pa.array([part.note for _, _, part in parts], pa.string()),
            "nr_order": pa.array([at + 1 for _, at, _ in parts], pa.int32()),
            "role_id": pa.array([values.ROLES.index(part.role) + 1 for _, _, part in parts], pa.int32()),
        }
    )
