//! Placement: the sites, form and number of a program's parts, with reasons.
//!
//! [`place`] is a pure function of its arguments: the program, [`Facts`] on this run, the [`Topology`], and [`Feedback`] of earlier attempts. An
//! attempt that does not fit or fails is a [`Miss`]; a retry is [`place`] again with that miss, and no other fallback exists. EXPLAIN prints the
//! [`PlacedPlan`] with which a run would begin.

mod exchange;
mod partition;
mod place;
mod plan;
mod replication;
mod share;
mod topology;

pub use exchange::{Distribution, Origin, Piece, distribute};
pub use partition::{Partition, PartitionCost, PartitionKey, PartitionRates, Shuffle};
pub use place::{Facts, Feedback, Granularity, Miss, Readiness, Refusal, Request, Sharing, Supports, place};
pub use plan::{Decision, Exchange, Fragment, PlacedPlan, Reason};
pub use replication::{
    ExchangeRates, Replication, Segment, add_exchange, broadcast_seconds, place_segments, shuffle_seconds,
};
pub use share::{Arrives, Share};
pub use topology::{Site, SiteSpec, Topology};
