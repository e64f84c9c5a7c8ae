//! Ingest of Parquet, CSV and Arrow streams into tables.
