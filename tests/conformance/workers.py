"""Runs tasks in separate processes: a process that dies or hangs ends its task, but not the run."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from conformance.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    Results = Iterator["tuple[Task, Outcome | Stopped | None]"]
    #: Results, and in the end whether something holds.
    Told = Generator["tuple[Task, Outcome | Stopped | None]", None, bool]

#: Tasks after which a process is replaced, to limit the effect of leaks.
_TASKS_PER_PROCESS = 40
_SIDES = ("plain", "ours")
_LAST_WORDS = 1500


class Task(Protocol):
    """Something that a process runs; it is pickled."""

    @property
    def title(self) -> str:
        """A short name."""
        ...

    def run(self, folder: Path, progress: Callable[[int, str], None]) -> Iterator[Outcome | Stopped]:
        """Yields outcomes as they come; `progress(line, side)` says what runs, `folder` is for files."""
        ...

    def rest(self, line: int) -> Task | None:
        """The rest of the task after its process died at `line`."""
        ...


@dataclass(frozen=True)
class Stopped:
    """The rest of a file was not run, for a reason."""

    file: str
    reason: str


@dataclass
class _Worker:
    process: Any
    pipe: Connection
    #: Line, side and start time of the running statement.
    state: Any
    folder: Path
    task: Task | None = None
    done: int = 0


@dataclass
class Pool:
    """Processes that run tasks: iterate over `results(tasks)`."""

    jobs: int
    #: Seconds for one statement.
    limit: float
    _context: Any = field(default_factory=lambda: multiprocessing.get_context("spawn"))

    def results(self, tasks: list[Task]) -> Results:
        """Yields tasks with their outcomes as they arrive; None where a task ended."""
        waiting = deque(tasks)
        workers = [self._start() for _ in range(min(self.jobs, len(tasks)))]
        try:
            for worker in workers:
                _give(worker, waiting)
            while any(worker.task for worker in workers):
                wait([worker.pipe for worker in workers if worker.task], timeout=0.5)
                for at, worker in enumerate(workers):
                    if worker.task is None:
                        continue
                    alive = yield from self._collect(worker)
                    if alive and worker.task is None and worker.done >= _TASKS_PER_PROCESS:
                        self._end(worker)
                        alive = False
                    elif alive:
                        alive = not (yield from self._expired(worker, waiting))
                    else:
                        yield from self._dead(worker, waiting, "crash")
                    if not alive and waiting:
                        workers[at] = worker = self._start()
                    if alive or waiting:
                        _give(worker, waiting)
        finally:
            for worker in workers:
                self._end(worker)

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        state = self._context.Array("d", 3, lock=False)
        folder = Path(tempfile.mkdtemp(prefix="conformance-"))
        process = self._context.Process(target=_work, args=(theirs, state, folder), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours, state, folder)

    def _collect(self, worker: _Worker) -> Told:
        """Take the messages that the process has sent; return whether it lives."""
        task = worker.task
        assert task is not None
        try:
            while worker.pipe.poll():
                sent = worker.pipe.recv()
                yield task, sent
                if sent is None:
                    worker.task = None
                    worker.done += 1
                    return True
        except (EOFError, ConnectionError):
            return False
        return True

    def _expired(self, worker: _Worker, waiting: deque[Task]) -> Told:
        if worker.task is None or not worker.state[2] or time.monotonic() - worker.state[2] < self.limit:
            return False
        worker.process.kill()
        yield from self._dead(worker, waiting, "hang")
        return True

    def _dead(self, worker: _Worker, waiting: deque[Task], verdict: str) -> Results:
        task = worker.task
        assert task is not None
        worker.process.join(10)
        line, side = int(worker.state[0]), _SIDES[int(worker.state[1])]
        code = worker.process.exitcode
        name = signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"
        words = (worker.folder / "stderr").read_text(errors="replace")[-_LAST_WORDS:].strip()
        why = f"no end after {self.limit:.0f} s" if verdict == "hang" else f"{name}: {words}"
        # A statement that ends plain DuckDB says nothing about us.
        found = Outcome(task.title, line, "", verdict if side == "ours" else "accepted", f"in {side}", why)
        yield task, found
        rest = task.rest(line)
        if rest is not None:
            waiting.appendleft(rest)
        yield task, None
        worker.task = None
        self._end(worker)

    def _end(self, worker: _Worker) -> None:
        worker.pipe.close()
        worker.process.join(2)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        shutil.rmtree(worker.folder, ignore_errors=True)


def _give(worker: _Worker, waiting: deque[Task]) -> None:
    if worker.task is None and waiting:
        worker.task = waiting.popleft()
        worker.state[2] = 0
        worker.pipe.send(worker.task)


def _work(pipe: Connection, state: Any, folder: Path) -> None:
    """The loop of a process: receives tasks, sends outcomes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The parent reads the last words of engines; files that tests name without a folder stay here.
    with (folder / "stderr").open("wb") as file:
        os.dup2(file.fileno(), 2)
        os.dup2(file.fileno(), 1)
    os.chdir(folder)

    def progress(line: int, side: str) -> None:
        state[:] = [line, _SIDES.index(side), time.monotonic()]

    while True:
        try:
            task: Task = pipe.recv()
        except (EOFError, OSError):
            sys.exit()
        for outcome in task.run(folder / "files", progress):
            pipe.send(outcome)
        state[2] = 0
        pipe.send(None)
