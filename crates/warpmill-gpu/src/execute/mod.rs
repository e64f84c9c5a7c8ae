//! Runs programs on a device.
//!
//! - [`memory`]: the caching region (segments, dictionaries) and the processing region (a query's tables and rows);
//! - [`chunks`]: columns of row segments as they are stored; [`segments`]: as kernels see them; [`items`]: what of them, and of dictionaries, is copied to the device;
//! - [`buffers`]: what each sink needs in device memory; [`plan`]: in which order it is allocated, and what comes back;
//! - `shares`: how much of it each sink gets where they do not all fit, and which of them are made in parts; `joins`: or have their rows on the host instead ([`mapped`]);
//!   `split`: or leave the joins to the CPU back end, for which `coexecution` runs what is below them;
//! - [`strategy`]: how all of that is expected to turn out;
//! - [`prepared`]: a program lowered and compiled;
//! - [`defer`]: sorts below joins, moved to the end;
//! - [`executor`]: runs programs, again with more room where a size was guessed too small; [`admission`]: which at once;
//!   `load`: their data, [`stream`] where it passes through, from where [`source`] says (`disk`: table files, past the page cache), in the form that [`paths`] chooses, [`mod@parquet`]
//!   where pages of Parquet are decoded then, [`undone`] for what the device decompresses, `kept` for what of it stays; `run`: one run; `launch`: its launches;
//! - [`inputs`], [`rows`]: rows to and from device memory.

pub mod admission;
pub mod batch_spec;
pub mod buffers;
pub mod chunks;
mod coexecution;
pub(crate) mod copies;
pub mod decoding;
pub mod defer;
mod disk;
pub mod error;
pub mod executor;
pub mod form;
pub mod inputs;
pub mod items;
mod joins;
mod kept;
pub(crate) mod lane;
mod launch;
mod load;
pub mod mapped;
pub mod memory;
pub(crate) mod mirrors;
pub mod parquet;
pub mod paths;
pub mod plan;
pub mod prepared;
pub mod profile;
mod prune;
pub(crate) mod ranges;
pub(crate) mod replay;
pub(crate) mod row_segment;
pub mod rows;
mod run;
mod scan_profiles;
pub mod segments;
mod shares;
pub(crate) mod slot;
pub mod source;
pub mod spans;
mod split;
pub mod strategy;
pub mod stream;
pub mod transfer;
pub mod undone;
