//! Every kind of join against a nested loop.
