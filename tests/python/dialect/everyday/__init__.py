"""What DuckDB's users write every day, from its function reference: how much of it has DuckDB's answers natively."""
