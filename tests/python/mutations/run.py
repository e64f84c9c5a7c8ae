"""Makes mutants, has them read in separate processes, and counts the outcomes."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mutations import ends
from mutations.files import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTCOMES = ("right", "error", "unnoticed", "wrong", "panic", "abort", "hang")
SECONDS = 120
"""Seconds after which the queries over a mutant hang; the first ones compile kernels."""
MEMORY = 16 << 30
"""Bytes of addresses that a reader may have: more is what a file claims."""


@dataclass
class Result:
    """The outcomes of the mutants of a kind, and the mutants whose outcomes are wrong."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    unnoticed: list[str] = field(default_factory=list)

    def table(self) -> str:
        """Lines for people."""
        lines = [f"{'mutants of':34}{'tried':>8}" + "".join(f"{outcome:>11}" for outcome in OUTCOMES)]
        total: Counter[str] = Counter()
        for kind, counts in [*sorted(self.counts.items()), ("all", total)]:
            total += counts if kind != "all" else Counter()
            numbers = "".join(f"{counts[outcome]:>11}" for outcome in OUTCOMES)
            lines.append(f"{kind:34}{sum(counts.values()):>8}{numbers}")
        return "\n".join(lines)


class Reader:
    """A process that reads mutants, started anew when one has ended it."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.process: subprocess.Popen[str] | None = None
        self.said: IO[str] | None = None
        self.faults: list[str] = []
        self.hangs = False
        """Whether the process that was asked last has not answered in time."""

    def ask(self, task: dict[str, Any]) -> list[list[str]] | str:
        """The results of the queries, or how the process ended, now or since it was asked last."""
        if self.process is None:
            self._start()
        assert self.process
        assert self.process.stdin
        assert self.process.stdout
        watch = threading.Timer(self.seconds, self._give_up, (self.process,))
        watch.start()
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if line:
            answer: list[list[str]] = json.loads(line)
            return answer
        self.process.wait()
        return self.close()

    def _give_up(self, process: subprocess.Popen[str]) -> None:
        """Ends a process that does not answer. At this signal the interpreter says what its threads are at."""
        self.hangs = True
        process.send_signal(signal.SIGABRT)

    def _start(self) -> None:
        """Starts a process."""
        self.said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed with the process
        self.faults = ends.faults()
        own = Path(__file__).parents[1]
        paths = [str(own), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", "mutations.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            text=True,
            cwd=ends.cores() or own,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            preexec_fn=_limit,
        )

    def close(self) -> str:
        """Ends the process; returns how it ended, if by itself."""
        process, said, self.process, self.said = self.process, self.said, None, None
        if process is None or said is None:
            return ""
        code = process.poll()
        process.kill()
        process.communicate()
        said.seek(0)
        with said:
            return "" if code is None else ends.told(code, said.read(), self.faults)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    ends.limit_cores()


def mutate(chance: random.Random, data: bytearray, region: tuple[int, int]) -> str:
    """Changes bytes of a region, and says which."""
    start, end = region
    at = chance.randrange(start, max(end, start + 1))
    kind = chance.choice(["bit", "bit", "bit", "byte", "run", "copy", "cut"])
    if kind == "bit":
        data[at] ^= 1 << chance.randrange(8)
    elif kind == "byte":
        data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    elif kind == "run":
        length = chance.randrange(1, 17)
        data[at : at + length] = chance.randbytes(len(data[at : at + length]))
    elif kind == "copy":
        source = chance.randrange(start, max(end, start + 1))
        length = chance.randrange(1, 9)
        piece = bytes(data[source : source + length])
        data[at : at + len(piece)] = piece
    elif chance.random() < 0.5:
        del data[at:]
    else:
        del data[at : at + chance.randrange(1, 5)]
    return f"{kind} at {at}"


def mutants(subjects: list[Subject], count: int, chance: random.Random) -> Iterator[tuple[Subject, str, bytes, str]]:
    """The mutations that claim too much, then `count` others of the subjects in turn, each with region and change."""
    for subject in subjects:
        original = subject.path.read_bytes()
        for at, piece in subject.claims:
            places = subject.regions.items()
            region = next(region for region, (start, end) in places if start <= at < end)
            yield subject, region, original[:at] + piece + original[at + len(piece) :], f"claim {piece.hex()} at {at}"
    for number in range(count):
        subject = subjects[number % len(subjects)]
        kinds = sorted({region.split(" ")[0] for region in subject.regions})
        kind = chance.choice([*kinds, *(kind for kind in kinds if kind in {"footer", "pages", "metadata"})])
        region = chance.choice([region for region in sorted(subject.regions) if region.split(" ")[0] == kind])
        data = bytearray(subject.path.read_bytes())
        what = mutate(chance, data, subject.regions[region])
        yield subject, region, bytes(data), what


def run(subjects: list[Subject], count: int, seed: int, settings: dict[str, Any], folder: Path) -> Result:
    """Tries the mutants that claim too much, and `count` others."""
    result, reader, chance = Result(), Reader(), random.Random(seed)
    expected: dict[str, list[list[str]]] = {}
    tasks = {}
    for subject in subjects:
        tasks[subject.name] = {"source": subject.source, "queries": list(subject.queries)}
        path = subject.path.parent.parent if subject.source == "t" else subject.path
        answers = reader.ask({"subject": tasks[subject.name], "path": str(path), "settings": settings})
        assert not isinstance(answers, str), answers
        assert all(kind == "rows" for kind, _ in answers), (subject.name, answers)
        expected[subject.name] = answers
    try:
        for number, (subject, region, data, what) in enumerate(mutants(subjects, count, chance)):
            own = subject.source == "t"
            original = subject.path.parent.parent if own else subject.path
            if own:
                mutant = folder / f"mutant-{number}"
                shutil.copytree(original, mutant)
                (mutant / "t" / subject.path.name).write_bytes(data)
            else:
                mutant = folder / f"mutant-{number}{subject.path.suffix}"
                mutant.write_bytes(data)
            answers = reader.ask({"subject": tasks[subject.name], "path": str(mutant), "settings": settings})
            outcome, detail = judge(answers, expected[subject.name])
            if reader.hangs:
                outcome, reader.hangs = "hang", False
            if outcome == "wrong" and region in subject.unnoticed:
                outcome = "unnoticed"
            kind = f"{subject.name}: {region.split(' ')[0]}"
            result.counts.setdefault(kind, Counter())[outcome] += 1
            if outcome not in {"right", "error"}:
                kept = result.unnoticed if outcome == "unnoticed" else result.failures
                kept.append(f"{outcome}: {kind}: {mutant.name}, seed {seed}, {what}: {detail}")
            if outcome in {"right", "error"}:
                shutil.rmtree(mutant) if own else mutant.unlink()
    finally:
        end = reader.close()
    if end:
        result.failures.append(f"abort: after all mutants, seed {seed}: {end}")
    return result


def judge(answers: list[list[str]] | str, expected: list[list[str]]) -> tuple[str, str]:
    """The worst that became of the queries."""
    if isinstance(answers, str):
        return "abort", answers
    worst, detail = "right", ""
    for number, (found, wanted) in enumerate(zip(answers, expected, strict=True)):
        kind = found[0] if found[0] != "rows" else ("right" if found == wanted else "wrong")
        if OUTCOMES.index(kind) > OUTCOMES.index(worst):
            said = difference(found[1], wanted[1]) if kind == "wrong" else found[1][:300]
            worst, detail = kind, f"query {number}: {said}"
    return worst, detail


def difference(found: str, wanted: str) -> str:
    """The position of the first difference of rows."""
    at = next((at for at, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other), 0)
    start = max(0, at - 20)
    return f"{found[start : at + 40]!r} instead of {wanted[start : at + 40]!r}"
