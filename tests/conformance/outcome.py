"""The outcome of one record of a test file."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.doors import Fate

#: Verdicts, and whether a run with one of them fails.
VERDICTS = {
    "equal": False,
    "both fail": False,
    # Differs for a reason of the list of accepted differences.
    "accepted": False,
    # The reference answers, and we do in another way; or it refuses, and we answer.
    "wrong": True,
    # The reference answers, and we refuse with an error that says so.
    "refused": False,
    # Another answer about something that a refused statement would have changed.
    "follows": False,
    # The reference answers, and we raise an error.
    "failed": True,
    # The process died, or a statement did not end.
    "crash": True,
    "hang": True,
}


@dataclass(frozen=True)
class Outcome:
    """One record's outcome."""

    #: The file's path within its corpus.
    file: str
    line: int
    sql: str
    verdict: str
    #: The way it differs: a kind of `compare.Difference`, or the name of the accepted difference.
    kind: str = ""
    text: str = ""
    fate: Fate = field(default_factory=Fate)
    #: Both fail, and say so in other words.
    other_words: bool = False
    #: The reference does not do what the file expects.
    unlike_file: bool = False
    #: Something differed before in this file: what follows may follow from it.
    later: bool = False

    @property
    def bad(self) -> bool:
        """Whether a run with this outcome fails."""
        return VERDICTS[self.verdict]
