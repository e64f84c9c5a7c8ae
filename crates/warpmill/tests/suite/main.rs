//! Tests of whole queries, as Rust users run them: sessions, SQL files, pruning, Parquet, top-k, both back ends. One program: each of
//! its own links the whole engine, which takes minutes.

mod accelerate;
mod device;
mod machine_code;
mod parquet;
mod pruning;
mod quick;
mod session;
mod slt;
mod spilled;
mod support;
mod topk;
