//! Placement: where the parts of a program run, in what form, in how many pieces, and why.
//!
//! [`place`] is a pure function: equal arguments give equal plans. What it may know is in its arguments: the program, [`Facts`] on this
//! run, the [`Topology`], and [`Feedback`] of earlier attempts. What does not fit or fails is a [`Miss`]; a retry is [`place`] again with
//! that miss, and there is no other ladder. EXPLAIN prints the [`PlacedPlan`] that a run would begin with.

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
