"""The two calls that reach an engine, in frames without names that a query could take for tables."""

from __future__ import annotations

from typing import Any


def ask(conformance_connection: Any, conformance_text: str) -> Any:
    """The result of `execute` for the text."""
    return conformance_connection.execute(conformance_text)
