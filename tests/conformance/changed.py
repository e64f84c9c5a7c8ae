"""Names that statements change, by their texts: answers may differ as a consequence of a refused statement."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

#: A name after the keywords of a statement that changes it.
_TARGETS = re.compile(
    r"\b(?:into|update|delete\s+from|truncate(?:\s+table)?|merge\s+into|(?:table|view|sequence|type|macro|function|schema)"
    r"(?:\s+if\s+(?:not\s+)?exists)?)\s+((?:\w+|\"[^\"]+\")(?:\.(?:\w+|\"[^\"]+\"))*)",
    re.IGNORECASE,
)
#: Statements that change the meaning of others, or how much of their effects stays.
_EVERYTHING = re.compile(
    r"\s*(?:begin|start|commit|end|rollback|abort|set|reset|pragma|attach|detach|use|load|install|prepare|import|call|copy)\b",
    re.IGNORECASE,
)


@dataclass
class Changed:
    """The names whose state differs between both sides."""

    #: Last parts of names, in lower case.
    names: set[str] = field(default_factory=set)
    everything: bool = False

    def note(self, sql: str) -> None:
        """Add the names that a statement changes, or would have changed."""
        self.everything = self.everything or _EVERYTHING.match(sql) is not None
        for found in _TARGETS.finditer(sql):
            self.names.add(found[1].split(".")[-1].strip('"').lower())

    def concerns(self, sql: str) -> bool:
        """Whether a statement is about something of it."""
        if self.everything:
            return True
        return bool(self.names) and not self.names.isdisjoint(re.findall(r"\w+", sql.lower()))
