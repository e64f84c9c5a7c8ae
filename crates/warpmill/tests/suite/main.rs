//! Tests of whole queries through the Rust API: sessions, SQL files, pruning, Parquet, top-k, both back ends. One test binary, because each links the
//! whole engine, which takes minutes.

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
