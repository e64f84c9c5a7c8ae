"""The queries of H2O.ai's group-by benchmark in pandas, as its own program for pandas has them.

Groups have NULL among their keys, as in SQL, and a sum of no values is NULL. Each query reads the columns that it
needs. Correlations are made of sums over all groups at once: a Python function called for each group takes minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    #: Reads some columns of a table.
    Read = Callable[[str, list[str]], pd.DataFrame]

#: The columns of texts, which the frame in memory has as categories.
TEXTS = ("id1", "id2", "id3")


def kept(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame of `x` that stays in memory."""
    return frame.astype(dict.fromkeys(TEXTS, "category"))


def _groups(frame: pd.DataFrame, keys: list[str]) -> Any:
    """The groups of a frame in any order, those of NULL among them, as columns of the result."""
    return frame.groupby(keys, as_index=False, sort=False, observed=True, dropna=False)


def _sums(read: Read, keys: list[str], values: list[str]) -> pd.DataFrame:
    found: pd.DataFrame = _groups(read("x", [*keys, *values]), keys)[values].sum(min_count=1)
    return found


def q1(read: Read) -> pd.DataFrame:
    """Sums over few groups."""
    return _sums(read, ["id1"], ["v1"])


def q2(read: Read) -> pd.DataFrame:
    """Sums over the pairs of two keys."""
    return _sums(read, ["id1", "id2"], ["v1"])


def q3(read: Read) -> pd.DataFrame:
    """A sum and an average over many groups."""
    groups = _groups(read("x", ["id3", "v1", "v3"]), ["id3"])
    found: pd.DataFrame = groups["v1"].sum(min_count=1)
    return found.assign(v3=groups["v3"].mean()["v3"])


def q4(read: Read) -> pd.DataFrame:
    """Three averages over few groups."""
    found: pd.DataFrame = _groups(read("x", ["id4", "v1", "v2", "v3"]), ["id4"])[["v1", "v2", "v3"]].mean()
    return found


def q5(read: Read) -> pd.DataFrame:
    """Three sums over many groups."""
    return _sums(read, ["id6"], ["v1", "v2", "v3"])


def q6(read: Read) -> pd.DataFrame:
    """Medians and standard deviations."""
    groups = _groups(read("x", ["id4", "id5", "v3"]), ["id4", "id5"])
    found: pd.DataFrame = groups.agg(median_v3=("v3", "median"), sd_v3=("v3", "std"))
    return found


def q7(read: Read) -> pd.DataFrame:
    """The range of two columns."""
    found = _groups(read("x", ["id3", "v1", "v2"]), ["id3"]).agg(v1=("v1", "max"), v2=("v2", "min"))
    made: pd.DataFrame = found.assign(range_v1_v2=found["v1"] - found["v2"])[["id3", "range_v1_v2"]]
    return made


def q8(read: Read) -> pd.DataFrame:
    """The two largest values of each group."""
    frame = read("x", ["id6", "v3"])
    largest = frame[frame["v3"].notna()].sort_values("v3", ascending=False)
    found: pd.DataFrame = _groups(largest, ["id6"]).head(2)
    return found.rename(columns={"v3": "largest2_v3"})


def q9(read: Read) -> pd.DataFrame:
    """Squared correlations, of the rows that have both values."""
    frame = read("x", ["id2", "id4", "v1", "v2"])
    both = (frame["v1"].notna() & frame["v2"].notna()).astype("int64")
    x = frame["v1"].fillna(0).astype("int64") * both
    y = frame["v2"].fillna(0).astype("int64") * both
    moments = frame[["id2", "id4"]].assign(n=both, x=x, y=y, xx=x * x, yy=y * y, xy=x * y)
    sums = _groups(moments, ["id2", "id4"]).sum()
    n = sums["n"]
    covariance = (n * sums["xy"] - sums["x"] * sums["y"]).astype("float64")
    variances = (n * sums["xx"] - sums["x"] ** 2).astype("float64") * (n * sums["yy"] - sums["y"] ** 2)
    made: pd.DataFrame = sums[["id2", "id4"]].assign(r2=covariance**2 / variances)
    return made


def q10(read: Read) -> pd.DataFrame:
    """A sum and a count over six keys, almost every row a group."""
    keys = ["id1", "id2", "id3", "id4", "id5", "id6"]
    groups = _groups(read("x", [*keys, "v3"]), keys)
    found: pd.DataFrame = groups["v3"].sum(min_count=1)
    return found.assign(count=groups.size()["size"])


#: The queries by name.
QUERIES: dict[str, Callable[[Read], pd.DataFrame]] = {
    str(number): query for number, query in enumerate((q1, q2, q3, q4, q5, q6, q7, q8, q9, q10), 1)
}
