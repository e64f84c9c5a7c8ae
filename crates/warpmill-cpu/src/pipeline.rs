//! Runs pipelines.
