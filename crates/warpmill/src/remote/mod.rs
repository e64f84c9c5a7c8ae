//! Files in object stores (`s3://bucket/path`) and on web servers (`https://host/path`).
//!
//! - [`settings`]: credentials, endpoints, limits; `location`: locations from URLs;
//! - `store`: the client, whose errors are [`RemoteError`]s; `fetch`: ranges of an object, joined and side by side;
//! - `tables`: tables of URLs, for SQL, `CREATE EXTERNAL TABLE` and functions of the session;
//! - `pinned`: scans that read one version of each file; `device`: the same files as devices read them.

mod device;
mod error;
mod fetch;
mod location;
mod pinned;
pub mod settings;
mod store;
mod tables;

pub(crate) use device::RemoteParquet;
pub use error::{RemoteError, RemoteReason};
pub(crate) use fetch::Bytes;
pub use location::is_remote;
pub(crate) use pinned::{Pinned, pin};
pub use settings::RemoteOptions;
pub(crate) use tables::{Reading, Remote, RemoteTableFactory};
