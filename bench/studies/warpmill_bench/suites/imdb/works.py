"""A few well-known works, which are in tables of every size, once, with casts and companies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """The role of a person in a work."""

    person: str
    gender: str
    role: str
    note: str | None = None
    character: str | None = None


@dataclass(frozen=True)
class Work:
    """A well-known work; `note` belongs to its distributor, which is a company of its own country or the first one."""

    title: str
    kind: str
    year: int
    country: str
    theme: str
    company: str
    note: str
    keywords: tuple[str, ...]
    cast: tuple[Part, ...]
    rating: float


_STARK = Part("Downey Jr., Robert", "m", "actor", None, "Tony Stark / Iron Man")
_MARVEL = ("superhero", "marvel-comics", "based-on-comic", "marvel-cinematic-universe", "fight")

WORKS = (
    Work(
        *("Iron Man", "movie", 2008, "USA", "hero", "Paramount Pictures", "(2008) (USA) (theatrical)"),
        keywords=_MARVEL,
        cast=(_STARK,),
        rating=7.9,
    ),
    Work(
        *("The Avengers", "movie", 2012, "USA", "hero", "Walt Disney Pictures", "(2012) (worldwide) (DVD)"),
        keywords=_MARVEL,
        cast=(_STARK,),
        rating=8.1,
    ),
    Work(
        *("Avengers: Age of Ultron", "movie", 2015, "USA", "hero", "Walt Disney Pictures", "(2015) (USA) (theatrical)"),
        keywords=(*_MARVEL, "sequel"),
        cast=(_STARK, Part("Johansson, Scarlett", "f", "actress", None, "Black Widow")),
        rating=7.3,
    ),
    Work(
        *("Sherlock Holmes", "movie", 2009, "UK", "crime", "Warner Bros. UK", "(2009) (UK) (theatrical)"),
        keywords=("murder", "violence", "based-on-novel", "character-name-in-title"),
        cast=(Part("Downey Jr., Robert", "m", "actor", None, "Sherlock Holmes"),),
        rating=7.6,
    ),
    Work(
        *("Pandorum", "movie", 2009, "Germany", "horror", "Constantin Film", "(2009) (Germany) (theatrical)"),
        keywords=("murder", "blood", "violence"),
        cast=(Part("Quaid, Dennis", "m", "actor", None, "Payton"),),
        rating=6.7,
    ),
)

#: The people in the works, each once.
PEOPLE = tuple({part.person: part for work in WORKS for part in work.cast}.values())
#: The characters of the works, each once.
CHARACTERS = tuple(dict.fromkeys(part.character for work in WORKS for part in work.cast if part.character))


def person(name: str) -> int:
    """The number of a person, counted from 0."""
    return [one.person for one in PEOPLE].index(name)
