"""The columns of ClickBench's table `hits` that its queries use, filled so that every query finds rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Rows of a batch, at most.
BATCH = 1_000_000

SITES = ("google.com", "www.google.ru", "yandex.ru", "example.org", "irr.ru", "auto.ru", "video.yandex.ru")
WORDS = ("car", "Google", "news", "weather", "map", "price", "моторы", "кино", "photo", "game")


def tables(rows: int = 100_000) -> dict[str, Any]:
    """Table `hits`: skewed users, mostly empty phrases, a counter that has a third of all rows."""
    return {"hits": pa.concat_tables(batches(rows))}


def batches(rows: int) -> Iterator[Any]:
    """The same as tables of at most a million rows, made one after the other."""
    values = _Values(np.random.default_rng(2013))
    for at, first in enumerate(range(0, rows, BATCH)):
        yield _batch(np.random.default_rng((2013, at)), min(BATCH, rows - first), values)


class _Values:
    """The values that all rows have, by number: users, pages, titles, phrases."""

    def __init__(self, random: np.random.Generator) -> None:
        self.users = random.integers(-(2**62), 2**62, 5000)
        self.users[0] = 435090932899640449
        self.url_hashes = random.integers(-(2**62), 2**62, 3000)
        self.url_hashes[0] = 2868770270353813622
        self.referer_hashes = random.integers(-(2**62), 2**62, 50)
        self.referer_hashes[0] = 3594120000172545465
        self.addresses = random.integers(-(2**30), 2**30, 2000)
        # The first page is none: the empty text.
        pages = [f"http://{SITES[at % 7]}/{WORDS[at % 10]}/page{at}?q={at * 7}" for at in range(3000)]
        self.pages = pa.array(["", *pages])
        self.titles = pa.array(["", *(f"{WORDS[at % 10]} {WORDS[at // 10 % 10]} - title {at}" for at in range(1500))])
        self.phrases = pa.array(["", *(f"{WORDS[at % 10]} {WORDS[at // 10 % 10]} {at}" for at in range(2000))])


def _batch(random: np.random.Generator, rows: int, values: _Values) -> Any:
    def some(count: int) -> Any:
        """Numbers below a count, small ones far more often."""
        return (count * random.random(rows) ** 4).astype(np.int64)

    def small(count: int, kind: Any = np.int16) -> Any:
        return some(count).astype(kind)

    def unless(part: float, numbers: Any) -> Any:
        """Numbers from 1 on, 0 for a part of all rows."""
        return np.where(random.random(rows) < part, 0, numbers + 1)

    page = some(3000)
    # All of July; from midnight of the 14th on there are enough minutes for an OFFSET of 1000.
    times = np.datetime64("2013-07-01", "us") + random.integers(0, 31 * 86_400, rows).astype("timedelta64[s]")
    columns: dict[str, Any] = {
        "WatchID": random.integers(0, 2**62, rows),
        "Title": values.titles.take(some(1501)),
        "EventTime": pa.array(times, pa.timestamp("us")),
        "EventDate": pa.array(times.astype("datetime64[D]"), pa.date32()),
        "CounterID": np.where(random.random(rows) < 0.33, 62, random.integers(0, 500, rows)).astype(np.int32),
        "ClientIP": random.choice(values.addresses, rows).astype(np.int32),
        "RegionID": small(300, np.int32),
        "UserID": values.users[some(5000)],
        "URL": values.pages.take(unless(0.02, page)),
        "Referer": values.pages.take(unless(0.3, some(3000))),
        "IsRefresh": (random.random(rows) < 0.1).astype(np.int16),
        "ResolutionWidth": random.choice(np.array([0, 1024, 1280, 1366, 1920], np.int16), rows),
        "MobilePhone": small(20),
        "MobilePhoneModel": pa.array(["", "iPhone 2", "iPad", "Nokia", "A500"]).take(some(5)),
        "TraficSourceID": random.integers(-1, 10, rows).astype(np.int16),
        "SearchEngineID": small(12),
        "SearchPhrase": values.phrases.take(unless(0.8, some(2000))),
        "AdvEngineID": np.where(random.random(rows) < 0.95, 0, small(30)).astype(np.int16),
        "WindowClientWidth": random.integers(0, 1000, rows).astype(np.int16),
        "WindowClientHeight": random.integers(0, 1000, rows).astype(np.int16),
        "IsLink": (random.random(rows) < 0.3).astype(np.int16),
        "IsDownload": (random.random(rows) < 0.05).astype(np.int16),
        "DontCountHits": (random.random(rows) < 0.1).astype(np.int16),
        "RefererHash": values.referer_hashes[some(50)],
        "URLHash": values.url_hashes[page],
    }
    return pa.table(columns)
