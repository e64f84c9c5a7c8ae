"""Types, casts, and what becomes of values between them."""

from __future__ import annotations

from dialect.case import Case

TITLE = "Types"

CASES = (
    Case("a cast that does not fit is an error", "SELECT CAST(300 AS TINYINT) AS x"),
    Case("a cast of a text that is no number is an error", "SELECT CAST('x' AS INTEGER) AS x"),
    Case("`TRY_CAST` gives NULL instead", "SELECT TRY_CAST('x' AS INTEGER) AS x"),
    Case("`DATE` literals and differences of days", "SELECT DATE '2024-03-01' - DATE '2024-02-28' AS days"),
)
