"""The columns of ClickBench's table `hits` that its queries use, filled so that every query finds rows."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa

SITES = ("google.com", "www.google.ru", "yandex.ru", "example.org", "irr.ru", "auto.ru", "video.yandex.ru")
WORDS = ("car", "Google", "news", "weather", "map", "price", "моторы", "кино", "photo", "game")


def tables(rows: int = 100_000) -> dict[str, Any]:
    """Table `hits`: skewed users, mostly empty phrases, a counter that has a third of all rows."""
    random = np.random.default_rng(2013)

    def some(count: int) -> Any:
        """Numbers below a count, small ones far more often."""
        return (count * random.random(rows) ** 4).astype(np.int64)

    def small(count: int, kind: Any = np.int16) -> Any:
        return some(count).astype(kind)

    users = random.integers(-(2**62), 2**62, 5000)
    users[0] = 435090932899640449
    url_hashes = random.integers(-(2**62), 2**62, 3000)
    url_hashes[0] = 2868770270353813622
    referer_hashes = random.integers(-(2**62), 2**62, 50)
    referer_hashes[0] = 3594120000172545465
    pages = np.array([f"http://{SITES[at % 7]}/{WORDS[at % 10]}/page{at}?q={at * 7}" for at in range(3000)])
    titles = np.array(["", *(f"{WORDS[at % 10]} {WORDS[at // 10 % 10]} - title {at}" for at in range(1500))])
    phrases = np.array([f"{WORDS[at % 10]} {WORDS[at // 10 % 10]} {at}" for at in range(2000)])
    empty = random.random(rows) < 0.8
    page = some(3000)
    start = dt.datetime(2013, 7, 1)
    seconds = random.integers(0, 31 * 86_400, rows)
    # Midnight of the 14th on: enough minutes for an OFFSET of 1000.
    times = [start + dt.timedelta(seconds=int(second)) for second in seconds]
    columns: dict[str, Any] = {
        "WatchID": random.integers(0, 2**62, rows),
        "Title": titles[some(1501)],
        "EventTime": pa.array(times, pa.timestamp("us")),
        "EventDate": pa.array([time.date() for time in times], pa.date32()),
        "CounterID": np.where(random.random(rows) < 0.33, 62, random.integers(0, 500, rows)).astype(np.int32),
        "ClientIP": random.choice(random.integers(-(2**30), 2**30, 2000), rows).astype(np.int32),
        "RegionID": small(300, np.int32),
        "UserID": users[some(5000)],
        "URL": np.where(random.random(rows) < 0.02, "", pages[page]),
        "Referer": np.where(random.random(rows) < 0.3, "", pages[some(3000)]),
        "IsRefresh": (random.random(rows) < 0.1).astype(np.int16),
        "ResolutionWidth": random.choice(np.array([0, 1024, 1280, 1366, 1920], np.int16), rows),
        "MobilePhone": small(20),
        "MobilePhoneModel": np.array(["", "iPhone 2", "iPad", "Nokia", "A500"])[some(5)],
        "TraficSourceID": random.integers(-1, 10, rows).astype(np.int16),
        "SearchEngineID": small(12),
        "SearchPhrase": np.where(empty, "", phrases[some(2000)]),
        "AdvEngineID": np.where(random.random(rows) < 0.95, 0, small(30)).astype(np.int16),
        "WindowClientWidth": random.integers(0, 1000, rows).astype(np.int16),
        "WindowClientHeight": random.integers(0, 1000, rows).astype(np.int16),
        "IsLink": (random.random(rows) < 0.3).astype(np.int16),
        "IsDownload": (random.random(rows) < 0.05).astype(np.int16),
        "DontCountHits": (random.random(rows) < 0.1).astype(np.int16),
        "RefererHash": referer_hashes[some(50)],
        "URLHash": url_hashes[page],
    }
    return {"hits": pa.table(columns)}
