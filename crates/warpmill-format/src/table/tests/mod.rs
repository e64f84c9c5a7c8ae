//! Tests of the table layer.
