//! Plans with places.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use warpmill_ir::{Program, SinkId};

use crate::{Partition, Share, Site};

/// A program with the sites that run it.
#[derive(Debug, Clone)]
pub struct PlacedPlan {
    /// The whole program.
    pub program: Arc<Program>,
    /// The fragments. The CPU's is last if there are others.
    pub fragments: Vec<Fragment>,
    /// The states and rows that fragments hand to each other.
    pub exchanges: Vec<Exchange>,
    /// The pipeline whose row segments the fragments claim from a queue; `None`: a fragment runs all of them.
    pub share: Option<Arc<Share>>,
    /// The devices' parts; `None`: the program is not partitioned.
    pub partition: Option<Arc<Partition>>,
    /// A device that is prepared for the program while another site runs it.
    pub warms: Option<Site>,
    /// The decisions, with reasons.
    pub decisions: Vec<Decision>,
}

/// A part of a program that one site runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// The site.
    pub site: Site,
    /// Indices of its pipelines in the program.
    pub pipelines: Vec<usize>,
}

/// Rows or states that one fragment hands to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// Rows of a site are added to a sink of the CPU's.
    Gather {
        /// The sink.
        sink: SinkId,
        /// The site.
        from: Site,
    },
    /// States of a site's aggregation are merged into a sink of the CPU's.
    MergeState {
        /// The sink.
        sink: SinkId,
        /// The site.
        from: Site,
    },
}

/// A decision whether a site runs the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The site.
    pub site: Site,
    /// The reason.
    pub reason: Reason,
}

/// The reason of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The user requested it.
    Asked,
    /// It is first in the order of preference.
    First,
    /// No other site is left.
    Left,
    /// It is available at once, unlike the device, whose kernels are not compiled.
    Sooner,
    /// It runs a share of the row segments.
    Shares,
    /// It runs the program on its range of the data.
    HasPart,
    /// One site runs the whole program although parts were requested, for this reason.
    NotShared(String),
    /// The site cannot run the program, does not support it, or an attempt has failed.
    Refused(String),
}

impl PlacedPlan {
    /// The only site of a plan; the first site of several.
    pub fn site(&self) -> Site {
        self.fragments.first().map_or(Site::Cpu, |fragment| fragment.site)
    }

    /// The devices that have fragments.
    pub fn devices(&self) -> impl Iterator<Item = Site> {
        self.fragments.iter().map(|fragment| fragment.site).filter(|site| *site != Site::Cpu)
    }

    /// The reason why a device that was requested, or is preferred, does not run the program.
    pub fn not_on_device(&self) -> Option<&str> {
        self.decisions.iter().rev().find_map(|decision| match &decision.reason {
            Reason::Refused(reason) if decision.site != Site::Cpu => Some(reason.as_str()),
            Reason::Sooner => Some(SOONER),
            _ => None,
        })
    }

    /// The reason why one site runs the program although parts were requested.
    pub fn not_shared(&self) -> Option<&str> {
        self.decisions.iter().find_map(|decision| match &decision.reason {
            Reason::NotShared(reason) => Some(reason.as_str()),
            _ => None,
        })
    }
}

impl Reason {
    /// Whether the site runs the program or a part of it.
    pub fn is_chosen(&self) -> bool {
        !matches!(self, Self::NotShared(_) | Self::Refused(_))
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("the setting asks for it"),
            Self::First => f.write_str("it comes before the others"),
            Self::Left => f.write_str("no other site is left"),
            Self::Sooner => write!(f, "of the device, {SOONER}"),
            Self::Shares => f.write_str("it claims row segments of a shared scan"),
            Self::HasPart => f.write_str("it has a range of the data"),
            Self::NotShared(reason) => write!(f, "not shared: {reason}"),
            Self::Refused(reason) => f.write_str(reason),
        }
    }
}

/// The reason for people of [`Reason::Sooner`].
const SOONER: &str = "its kernels are not compiled yet";
