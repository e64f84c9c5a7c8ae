"""Figures of a run: per corpus, in lines for people and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.outcome import VERDICTS

if TYPE_CHECKING:
    from conformance.outcome import Outcome
    from conformance.workers import Stopped

_REASONS_SHOWN = 12
_BAD = tuple(name for name, bad in VERDICTS.items() if bad)


@dataclass
class Tally:
    """The outcomes of the records of one corpus."""

    corpus: str
    files: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    accelerated: int = 0
    #: The reason why queries over data were not accelerated.
    reasons: Counter[str] = field(default_factory=Counter)
    #: The devices that ran programs, and the reasons for not running on the requested device.
    devices: Counter[str] = field(default_factory=Counter)
    not_on_device: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    #: The reason why files were not run, or not to their ends.
    stopped: Counter[str] = field(default_factory=Counter)
    other_words: int = 0
    unlike_file: int = 0
    bad: list[Outcome] = field(default_factory=list)
    refused: list[Outcome] = field(default_factory=list)
    #: Verdicts by the first part of the files' paths.
    folders: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        """Counts an outcome."""
        self.verdicts[outcome.verdict] += 1
        self.folders.setdefault(outcome.file.split("/")[0], Counter())[outcome.verdict] += 1
        self.other_words += outcome.other_words
        self.unlike_file += outcome.unlike_file
        if outcome.fate.not_accelerated == "":
            self.accelerated += 1
        elif outcome.fate.not_accelerated is not None:
            self.reasons[_short(outcome.fate.not_accelerated)] += 1
        if outcome.fate.devices:
            self.devices[outcome.fate.devices] += 1
        if outcome.fate.not_on_device:
            self.not_on_device[_short(outcome.fate.not_on_device)] += 1
        if outcome.verdict == "accepted":
            self.accepted[outcome.kind] += 1
        if outcome.bad:
            self.bad.append(outcome)
        if outcome.verdict == "refused":
            self.refused.append(outcome)

    def stop(self, stopped: Stopped) -> None:
        """Counts a file that was not run to its end."""
        self.stopped[stopped.reason] += 1

    @property
    def records(self) -> int:
        """All records that were run."""
        return self.verdicts.total()

    def line(self) -> str:
        """The figures in one line."""
        shown = ["equal", "wrong", "failed", *(name for name in VERDICTS if name not in ("equal", "wrong", "failed"))]
        always = ("equal", "wrong", "failed")
        counts = [f"{self.verdicts[name]:,} {name}" for name in shown if name in always or self.verdicts[name]]
        counts.append(f"{self.accelerated:,} accelerated")
        return f"conformance {self.corpus}: {self.records:,} records, {', '.join(counts)}"

    def details(self) -> list[str]:
        """Further lines: differences, accepted ones, reasons against acceleration, and skipped records."""
        lines = [_described(outcome) for outcome in sorted(self.bad, key=lambda outcome: (outcome.file, outcome.line))]
        parts = (
            ("accepted", self.accepted),
            ("not run", self.stopped),
            ("not accelerated", self.reasons),
            ("programs ran on", self.devices),
            ("not on the device", self.not_on_device),
        )
        for title, counter in parts:
            lines += [f"  {title}: {count:,} {name}" for name, count in counter.most_common(_REASONS_SHOWN)]
        if self.refused:
            lines += [_of_folder(name, verdicts) for name, verdicts in sorted(self.folders.items())]
            kinds = Counter(outcome.text.split(":")[0] for outcome in self.refused)
            lines += [f"  refused: {count:,} {kind}" for kind, count in kinds.most_common(_REASONS_SHOWN)]
        if self.unlike_file:
            lines.append(f"  {self.unlike_file:,} records where plain DuckDB does not do what the file says")
        if self.other_words:
            lines.append(f"  {self.other_words:,} errors in other words")
        return lines

    def json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return {
            "corpus": self.corpus,
            "files": self.files,
            "records": self.records,
            "verdicts": dict(self.verdicts),
            "folders": {name: dict(verdicts) for name, verdicts in sorted(self.folders.items())},
            "accelerated": self.accelerated,
            "not_accelerated": dict(self.reasons.most_common()),
            "devices": dict(self.devices),
            "not_on_device": dict(self.not_on_device.most_common()),
            "accepted": dict(self.accepted),
            "not_run": dict(self.stopped),
            "errors_in_other_words": self.other_words,
            "reference_unlike_file": self.unlike_file,
            "differences": [asdict(outcome) for outcome in self.bad],
            "refused": [asdict(outcome) for outcome in self.refused],
        }


def _described(outcome: Outcome) -> str:
    what = outcome.verdict + (" (later)" if outcome.later else "")
    return f"  {what} {outcome.file}:{outcome.line} {outcome.kind}: {_flat(outcome.text)} | {_flat(outcome.sql)}"


def _of_folder(name: str, verdicts: Counter[str]) -> str:
    """The fraction of a folder's records with the reference's outcome, and the numbers of the others."""
    same = verdicts["equal"] + verdicts["both fail"] + verdicts["accepted"]
    others = ", ".join(
        f"{count:,} {verdict}" for verdict, count in verdicts.items() if verdict in ("refused", "follows", *_BAD)
    )
    return f"  {name}: {same / verdicts.total():.1%} of {verdicts.total():,}{others and ': '}{others}"


def _short(reason: str) -> str:
    return _flat(reason)[:140]


def _flat(text: str) -> str:
    return " ".join(text.split())[:300]
