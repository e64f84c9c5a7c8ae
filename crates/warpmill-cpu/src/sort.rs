//! Sort and top-k.
