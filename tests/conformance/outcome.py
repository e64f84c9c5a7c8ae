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
    # A different answer about a name that a refused statement would have changed.
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
    #: The kind of difference: a kind of `compare.Difference`, or the name of the accepted difference.
    kind: str = ""
    text: str = ""
    fate: Fate = field(default_factory=Fate)
    #: Both fail, with different messages.
    other_words: bool = False
    #: The reference deviates from the file's expectation.
    unlike_file: bool = False
    #: An earlier record of this file differed, so that this difference may be a consequence.
    later: bool = False

    @property
    def bad(self) -> bool:
        """Whether a run with this outcome fails."""
        return VERDICTS[self.verdict]
