"""Everyday expressions of DuckDB's users, from its function reference, with the state of each natively."""
