"""Further names of the ways to take rows: those that DuckDB's package has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas
    import pyarrow


class OtherNames:
    """A base class for results that convert to a DataFrame and to an Arrow table."""

    def df(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame."""
        raise NotImplementedError

    def arrow(self) -> pyarrow.Table:
        """All rows as a `pyarrow.Table`."""
        raise NotImplementedError

    def to_df(self) -> pandas.DataFrame:
        """The same as `df`."""
        return self.df()

    def fetchdf(self) -> pandas.DataFrame:
        """The same as `df`."""
        return self.df()

    def fetch_df(self) -> pandas.DataFrame:
        """The same as `df`."""
        return self.df()

    def to_arrow_table(self) -> pyarrow.Table:
        """The same as `arrow`."""
        return self.arrow()

    def fetch_arrow_table(self) -> pyarrow.Table:
        """The same as `arrow`."""
        return self.arrow()
