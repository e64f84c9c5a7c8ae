"""Names in the tables, the most frequent ones first."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("movie", "tv series", "tv movie", "video movie", "tv mini series", "video game", "episode")
COMPANY_TYPES = ("distributors", "production companies", "special effects companies", "miscellaneous companies")
CAST_TYPES = ("cast", "crew", "complete", "complete+verified")
ROLES = (
    *("actor", "actress", "producer", "writer", "cinematographer", "composer", "costume designer", "director"),
    *("editor", "miscellaneous crew", "production designer", "guest"),
)
LINKS = (
    *("follows", "followed by", "remake of", "remade as", "references", "referenced in", "spoofs", "spoofed in"),
    *("features", "featured in", "spin off from", "spin off", "version of", "similar to", "edited into"),
    *("edited from", "alternate language version of", "unknown link"),
)
#: The frequencies of kinds of links. The second kind of a pair has 0: its rows are those of the first kind, reversed.
LINK_WEIGHTS = (30, 0, 6, 0, 20, 0, 4, 0, 20, 0, 3, 0, 3, 2, 2, 0, 1, 1)

#: The kinds of facts by their keys in the real data; kinds that no query reads have numbered names.
INFOS = (
    *("runtimes", "color info", "genres", "languages", "certificates", "sound mix", "tech info", "countries"),
    *("taglines", "keywords", "alternate versions", "crazy credits", "goofs", "soundtrack", "quotes", "release dates"),
    *("trivia", "locations", "mini biography", "birth notes", "birth date", "height", "death date", "spouse"),
    *("other works", "birth name", "salary history", "nick names", "books", "agent address", "biographical movies"),
    *("portrayed in", "where now", "trade mark", "interviews", "article", "magazine cover photo", "pictorial"),
    *("death notes", *(f"LD info {at}" for at in range(40, 97)), "mpaa", "plot", "votes distribution", "votes"),
    *("rating", "production dates", "copyright holder", "filming dates", "budget", "weekend gross", "gross"),
    *("opening weekend", "rentals", "admissions", "studios", "top 250 rank", "bottom 10 rank"),
)


def info(name: str) -> int:
    """The number of a kind of facts, counted from 0."""
    return INFOS.index(name)


@dataclass(frozen=True)
class Country:
    """A country of movies and companies."""

    name: str
    code: str
    language: str
    #: The share of 1000 movies.
    share: float


COUNTRIES = (
    Country("USA", "[us]", "English", 380),
    Country("UK", "[gb]", "English", 85),
    Country("Germany", "[de]", "German", 75),
    Country("France", "[fr]", "French", 80),
    Country("Japan", "[jp]", "Japanese", 65),
    Country("Canada", "[ca]", "English", 45),
    Country("India", "[in]", "Hindi", 42),
    Country("Italy", "[it]", "Italian", 40),
    Country("Spain", "[es]", "Spanish", 32),
    Country("Sweden", "[se]", "Swedish", 24),
    Country("Netherlands", "[nl]", "Dutch", 20),
    Country("Denmark", "[dk]", "Danish", 16),
    Country("Russia", "[ru]", "Russian", 16),
    Country("Mexico", "[mx]", "Spanish", 14),
    Country("Australia", "[au]", "English", 14),
    Country("Norway", "[no]", "Norwegian", 12),
    Country("Poland", "[pl]", "Polish", 12),
    Country("Brazil", "[br]", "Portuguese", 12),
    Country("Hong Kong", "[hk]", "Cantonese", 8),
    Country("Finland", "[fi]", "Finnish", 7),
    Country("Bulgaria", "[bg]", "Bulgarian", 6),
    Country("Austria", "[at]", "German", 6),
    Country("Argentina", "[ar]", "Spanish", 5),
    Country("San Marino", "[sm]", "Italian", 1),
)
COUNTRY_NAMES = tuple(one.name for one in COUNTRIES)
SHARES = tuple(one.share for one in COUNTRIES)


def country(name: str) -> int:
    """The number of a country, counted from 0."""
    return COUNTRY_NAMES.index(name)


@dataclass(frozen=True)
class Theme:
    """A theme of movies, which correlates genres, keywords, titles, companies and casts."""

    name: str
    #: The share of 100 movies.
    share: float
    genres: tuple[str, ...]
    keywords: tuple[str, ...]
    #: The first words of titles.
    words: tuple[str, ...]
    #: A company with many of the theme's movies from the USA.
    company: str
    #: The part of the cast with voice roles only.
    voices: float = 0.04
    #: The difference of its ratings from the mean.
    rating: float = 0.0


THEMES = (
    Theme(
        "drama",
        26,
        ("Drama", "Romance", "Family", "War", "Western", "History"),
        ("love", "friendship", "based-on-novel", "marriage", "death", "hospital", "husband-wife-relationship"),
        ("Love", "Heart", "Summer", "Father", "Loser", "Letters"),
        "Universal Pictures",
        rating=0.5,
    ),
    Theme(
        "comedy",
        20,
        ("Comedy", "Romance", "Family", "Musical"),
        ("friendship", "party", "nerd", "loner", "wedding", "tv-special", "surrealism", "magnet"),
        ("Crazy", "Loser", "Champion", "Money", "Wedding", "Holiday"),
        "Columbia Pictures",
    ),
    Theme(
        "horror",
        11,
        ("Horror", "Thriller", "Mystery", "Sci-Fi"),
        ("murder", "blood", "gore", "violence", "death", "female-nudity", "vampire", "hospital", "murder-in-title"),
        ("Vampire", "Saw", "Night", "Freddy", "Jason", "Dead", "Murder"),
        "Lionsgate",
        rating=-0.9,
    ),
    Theme(
        "crime",
        12,
        ("Crime", "Thriller", "Action", "Drama", "Mystery"),
        ("murder", "violence", "blood", "revenge", "murder-in-title", "fight", "death", "police", "female-nudity"),
        ("Murder", "Mord", "Witness", "Money", "Police", "Crime", "Killer"),
        "Warner Bros. Pictures",
    ),
    Theme(
        "hero",
        7,
        ("Action", "Sci-Fi", "Adventure", "Fantasy", "War"),
        (
            *("superhero", "fight", "based-on-comic", "violence", "marvel-comics", "second-part", "hero", "laser"),
            *("martial-arts", "hand-to-hand-combat", "marvel-cinematic-universe", "tv-special", "claw", "web"),
        ),
        ("Iron", "Captain", "Champion", "Super", "Dragon", "War"),
        "Twentieth Century Fox Film Corporation",
        rating=0.2,
    ),
    Theme(
        "animation",
        8,
        ("Animation", "Family", "Comedy", "Adventure", "Short"),
        (
            *("computer-animation", "hero", "martial-arts", "computer-animated-movie", "hand-to-hand-combat", "fight"),
            *("anthropomorphism", "magnet", "superhero", "based-on-comic"),
        ),
        ("Dragon", "Panda", "Rabbit", "Little", "Magic", "Bugs"),
        "DreamWorks Animation",
        voices=0.7,
        rating=0.3,
    ),
    Theme(
        "online",
        7,
        ("Short", "Comedy", "Drama", "Sci-Fi", "Horror"),
        ("nerd", "loner", "alienation", "dignity", "internet", "web", "independent-film"),
        ("Web", "Loser", "Champion", "Room", "Video"),
        "YouTube",
        rating=0.1,
    ),
    Theme(
        "documentary",
        9,
        ("Documentary", "Biography", "History", "Music"),
        ("10,000-mile-club", "interview", "world-war-two", "alienation", "dignity", "f-rated"),
        ("Inside", "World", "Making of", "Story", "Champion"),
        "British Broadcasting Corporation (BBC)",
        rating=0.8,
    ),
)
THEME_NAMES = tuple(one.name for one in THEMES)

#: Keywords of movies with any theme.
COMMON_KEYWORDS = (
    *("character-name-in-title", "sequel", "independent-film", "based-on-novel", "number-in-title", "revenge"),
    *("second-sequel", "remake", "place-name-in-title", "sequel-to-cult-film", "based-on-play"),
)
_KEYWORDS = (*COMMON_KEYWORDS, *(word for theme in THEMES for word in theme.keywords))
#: All keywords with a meaning, each once; other keywords are numbered.
KEYWORDS = tuple(dict.fromkeys(_KEYWORDS))

#: Further words of titles.
NOUNS = (
    *("Man", "Life", "Day", "Story", "House", "Girl", "City", "World", "Boy", "Game", "Movie", "Money", "Woman"),
    *("Road", "War", "Dream", "Secret", "River", "King", "Queen", "Island", "Murder", "Show", "Train", "Garden"),
)
BETWEEN = (" ", " of the ", " and the ", ": The ", " in the ", "'s ", " from ")
PARTS = ("", "", "", "", "", "", " 2", " II", " 3", " Returns", " (Part 1)")

COMPANY_WORDS = (
    *("Star", "Blue", "Golden", "North", "New", "Red", "Atlantic", "Moon", "Royal", "United", "Silver", "Central"),
    *("Mercury", "Phoenix", "Globe", "Sun", "Arrow", "Lion", "Delta", "Crown", "Eagle", "Metro", "Ocean", "Alpha"),
)
COMPANY_KINDS = (
    *("Productions", "Films", "Pictures", "Film", "Entertainment", "Television", "Media", "Studios", "Filmproduktion"),
    *("Home Video", "Video", "Broadcasting"),
)
#: Companies by country, the largest first.
COMPANIES = {
    "USA": (
        *("Warner Bros. Pictures", "Twentieth Century Fox Film Corporation", "Universal Pictures"),
        *("20th Century Fox Home Entertainment", "Columbia Pictures", "Warner Home Video", "Paramount Pictures"),
        *("Lionsgate", "YouTube", "DreamWorks Animation", "Metro-Goldwyn-Mayer (MGM)", "Lionsgate Home Entertainment"),
        *("Twentieth Century Fox Television", "Walt Disney Pictures", "First National Pictures", "Film Roman"),
        "Severin Films",
    ),
    "UK": ("British Broadcasting Corporation (BBC)", "Warner Bros. UK", "Film4", "Hammer Film Productions"),
    "Germany": ("Bavaria Film", "Constantin Film", "Warner Home Video (Germany)", "Universum Film (UFA)"),
    "France": ("Gaumont", "Pathé Films", "Warner Bros. France", "Films du Losange"),
    "Japan": ("Toei Animation", "Toho Film", "Studio Ghibli", "Nippon Television Network"),
    "Sweden": ("Svensk Filmindustri (SF)", "Sandrew Metronome Film", "Sveriges Television (SVT)"),
    "Denmark": ("Nordisk Film", "Zentropa", "Danmarks Radio (DR)"),
    "Norway": ("Norsk Film", "Norsk Rikskringkasting (NRK)"),
    "Netherlands": ("Veronica", "VPRO", "First Floor Features Film"),
    "Russia": ("Mosfilm", "Central Partnership", "Lenfilm Film Studio"),
    "Poland": ("Telewizja Polska (TVP)", "Studio Filmowe Kadr"),
    "Bulgaria": ("Boyana Film", "Nu Image Bulgaria"),
    "San Marino": ("San Marino RTV",),
}

#: Notes about producers; most rows have none.
PRODUCTION_NOTES = (
    *("(presents)", "(co-production)", "(in association with)", "(as Metro-Goldwyn-Mayer Pictures) (presents)"),
    *("(in co-production with)", "(as Warner Bros.)", "(produced by)", "(co-production) (presents)", "(participation)"),
)
#: Notes about distributors: the years until which media were new, and the frequencies of media in these years.
MEDIA = ("(theatrical)", "(TV)", "(VHS)", "(DVD)", "(Blu-ray)", "(internet)", "(all media)")
MEDIA_UNTIL = (1978, 1997, 2007)
MEDIA_WEIGHTS = (
    (80, 20, 0, 0, 0, 0, 1),
    (45, 20, 34, 0, 0, 0, 1),
    (35, 20, 8, 34, 0, 2, 1),
    (35, 20, 0, 26, 15, 9, 2),
)

MEN = (
    *("John", "Robert", "Michael", "David", "Peter", "Tim", "Hans", "Bert", "Albert", "Jean", "Timothy", "Andrew"),
    *("Frank", "Ivan", "Kenji", "Lars", "Carlos", "Raj", "Antonio", "Herbert", "Yoshio", "Zoltan", "Erik", "Mike"),
)
WOMEN = (
    *("Anna", "Maria", "Angela", "Susan", "Angelina", "Yoko", "Julie", "Andrea", "Xenia", "Sophie", "Yoshiko", "Jane"),
    *("Linda", "Ingrid", "Claudia", "Zoe", "Anne", "Yuki", "Elena", "Priya", "Lucy", "Angie", "Carla", "Birgit"),
)
SURNAMES = (
    *("Smith", "Johnson", "Brown", "Williams", "Miller", "Davis", "Anderson", "Müller", "Yamamoto", "Burton", "Baker"),
    *("Young", "Garcia", "Bell", "Schmidt", "Ivanov", "Singh", "Downey", "Clark", "Evans", "Fischer", "Allen"),
    *("Zimmer", "Berg", "Yu", "Yoshida", "Carter", "Dubois", "Ferrari", "Andersen", "Black", "Zhang", "Xavier", "Diaz"),
    *("Abbott", "Cooper", "Bergman", "Dean", "Edwards", "Foster", "Lang", "Angelo", "Petersen", "Rossi", "Santos"),
    *("Tanaka", "Vogel", "Wagner", "Nielsen", "Bertrand", "Xu", "Zola", "O'Brien", "King", "Lee", "Hansen", "Moore"),
)

#: Characters of movies with any theme, the most frequent first.
CHARACTERS = (
    *("Himself", "Herself", "Narrator", "Himself - Host", "Policeman", "Doctor", "Woman", "Man", "Reporter", "Nurse"),
    *("Various", "The King", "Queen", "Mother", "Waitress", "Old Man", "Salesman", "Soldier", "Maria", "Anna"),
)
#: Characters of movies with heroes.
HEROES = (
    *("Spider-Man", "Batman", "Iron Man", "Tony Stark", "Superman", "Tony Stark / Iron Man", "Wolverine", "Catwoman"),
    *("Sherlock Holmes", "Hulk", "Aquaman", "Manhunter"),
)

#: Notes in casts about actors, with frequencies. None has a frequency, too.
ACTING_NOTES: dict[str | None, float] = {
    None: 76,
    "(uncredited)": 14,
    "(archive footage)": 4,
    "(as J. Smith)": 3,
    "(credit only)": 1.5,
    "(singing voice)": 0.5,
    "(also executive producer)": 0.5,
    "(producer)": 0.5,
}
VOICE_NOTES: dict[str | None, float] = {
    "(voice)": 66,
    "(voice: English version)": 14,
    "(voice) (uncredited)": 9,
    "(voice: Japanese version)": 6,
    "(voice) (archive footage)": 5,
}
#: Notes about voices in movies from Japan, most of which are dubbed.
DUBBED_NOTES: dict[str | None, float] = {
    "(voice: English version)": 60,
    "(voice)": 25,
    "(voice: Japanese version)": 10,
    "(voice) (uncredited)": 5,
}
PRODUCER_NOTES: dict[str | None, float] = {
    "(producer)": 38,
    "(executive producer)": 26,
    "(associate producer)": 12,
    "(co-producer)": 12,
    "(line producer)": 6,
    None: 6,
}
WRITER_NOTES: dict[str | None, float] = {
    "(written by)": 26,
    "(writer)": 24,
    "(screenplay)": 16,
    "(story)": 9,
    "(novel)": 6,
    "(head writer)": 4,
    "(story editor)": 3,
    "(characters)": 4,
    None: 8,
}
CREW_NOTES: dict[str | None, float] = {None: 80, "(uncredited)": 10, '(segment "One")': 4, "(second unit)": 6}

#: Authors of biographies.
BIOGRAPHERS = ("Volker Boehm", "Anonymous", "Jon C. Hopwood", "Bruce Cameron", "Steve Shelokhonov", "I.S.Mowis")
