//! Collects rows in order.
