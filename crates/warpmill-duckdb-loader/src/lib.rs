//! The first stage of the DuckDB extension: loads in every DuckDB version through the stable C interface and brings in the rest.
