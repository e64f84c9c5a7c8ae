"""A progress bar on stderr, fed by the engine's callbacks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Task

    Reporter = Callable[[str], Callable[[int, int], None]]


class _Rows(ProgressColumn):
    """Rows so far, and rows a second."""

    def render(self, task: Task) -> Text:
        speed = f", {task.speed:,.0f}/s" if task.speed else ""
        return Text(f"{int(task.completed):,} rows{speed}", style="dim")


@contextmanager
def bars(quiet: bool = False) -> Iterator[Reporter]:
    """Yield a function that adds a bar with a title and returns that bar's callback `(done, total)`."""
    console = Console(stderr=True, quiet=quiet)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), _Rows(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:

        def finish() -> None:
            """Fill the bars so far: the work of one ends where the next begins."""
            for task in progress.tasks:
                progress.update(task.id, total=task.completed or 1, completed=task.completed or 1)

        def add(title: str) -> Callable[[int, int], None]:
            finish()
            task = progress.add_task(title, total=None)

            def update(done: int, total: int) -> None:
                # Expected row counts may be short by a little: a bar never shows more than all.
                progress.update(task, completed=done, total=max(total, done) if total else None)

            return update

        yield add
        finish()
