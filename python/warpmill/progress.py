"""The progress of queries, on a terminal or in a notebook."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress

#: Seconds before anything is shown.
_DELAY = 0.5

#: Whether a CLI command runs interactively.
attended = False

#: Held by the query whose progress is shown: one at a time.
_SHOWN = threading.Lock()


class View(Protocol):
    """A place where progress is shown."""

    def show(self, done: int, total: int, seconds: float) -> None:
        """Show the rows scanned so far, of all; 0: unknown."""

    def close(self) -> None:
        """Leave nothing behind."""


@contextmanager
def shown(mode: Callable[[], str]) -> Iterator[Callable[[int, int], None] | None]:
    """Yield what is told of a query's progress: `f(rows, total)`; None where nobody looks.

    `mode` gives the setting `warpmill.progress`, which is asked only for queries that take long.
    """
    make = _view()
    if make is None:
        yield None
        return
    query = _Query(mode, make)
    try:
        yield query.tell
    finally:
        query.close()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    return type(found).__name__ == "ZMQInteractiveShell"


def _is_attended() -> bool:
    return attended or hasattr(sys, "ps1") or bool(sys.flags.interactive) or _in_notebook()


def _view() -> Callable[[], View] | None:
    """The kind of view that there is a place for."""
    if "IPython" in sys.modules and _in_notebook():
        return _Notebook
    # A closed or replaced stderr is no terminal.
    is_terminal = getattr(sys.stderr, "isatty", None)
    try:
        return _Terminal if is_terminal is not None and is_terminal() else None
    except ValueError:
        return None


class _Query:
    """The progress of one query."""

    def __init__(self, mode: Callable[[], str], make: Callable[[], View]) -> None:
        self._mode = mode
        self._make = make
        self._begin = time.monotonic()
        self._view: View | None = None
        self._hidden = False

    def tell(self, done: int, total: int) -> None:
        """Show the progress of a query that takes long."""
        seconds = time.monotonic() - self._begin
        if self._hidden or seconds < _DELAY:
            return
        if self._view is None:
            mode = self._mode()
            wanted = mode == "on" or (mode == "auto" and _is_attended())
            self._hidden = not (wanted and _SHOWN.acquire(blocking=False))
            if self._hidden:
                return
            try:
                self._view = self._make()
            except BaseException:
                _SHOWN.release()
                raise
        self._view.show(done, total, seconds)

    def close(self) -> None:
        view, self._view = self._view, None
        if view is not None:
            _SHOWN.release()
            view.close()


class _Terminal:
    """A bar on stderr."""

    def __init__(self) -> None:
        # Here, because it takes longer to import than most queries run.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.fields[rows]}", style="dim"), TimeElapsedColumn())
        # Refreshed manually: a refresh thread would draw while results are printed.
        self._bars: Progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        self._task = self._bars.add_task("", total=None, rows="")
        self._bars.start()

    def show(self, done: int, total: int, seconds: float) -> None:
        del seconds
        self._bars.update(self._task, completed=done, total=total or None, rows=_rows(done, total))
        self._bars.refresh()

    def close(self) -> None:
        self._bars.stop()


class _Notebook:
    """A line of HTML below the cell."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._place = display(HTML(""), display_id=True)

    def show(self, done: int, total: int, seconds: float) -> None:
        bar = f'<progress max="{total}" value="{done}"></progress>' if total else "<progress></progress>"
        self._place.update(self._html(f"{bar} {_rows(done, total)} {seconds:.1f} s"))

    def close(self) -> None:
        self._place.update(self._html(""))


def _rows(done: int, total: int) -> str:
    if not total:
        return f"{done:,} rows" if done else "running"
    return f"{done:,} of {total:,} rows"
