//! Plans with places.

use std::sync::Arc;

use warpmill_ir::Program;

use crate::Site;

/// A program with the sites that run it.
#[derive(Debug, Clone)]
pub struct PlacedPlan {
    /// The program that fragments are parts of.
    pub program: Arc<Program>,
    /// In an order in which they may run.
    pub fragments: Vec<Fragment>,
    /// The decisions, with their reasons.
    pub decisions: Vec<Decision>,
}

/// A part of a program that one site runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// The site.
    pub site: Site,
    /// Its pipelines, by their numbers in the program.
    pub pipelines: Vec<usize>,
}

/// A decision: a site that runs the program, or does not.
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
    /// The user asked for it.
    Asked,
    /// It comes before the others.
    First,
    /// Nothing else is left.
    Left,
    /// Not there: nothing can run on the site, or it does not run this program, or an attempt has failed.
    Refused(String),
}

impl PlacedPlan {
    /// The only site of a plan, the first one's of a plan with several.
    pub fn site(&self) -> Site {
        self.fragments.first().map_or(Site::Cpu, |fragment| fragment.site)
    }

    /// The reason why a device that was asked for, or that comes first, does not run the program.
    pub fn not_on_device(&self) -> Option<&str> {
        self.decisions.iter().rev().find_map(|decision| match &decision.reason {
            Reason::Refused(reason) if decision.site != Site::Cpu => Some(reason.as_str()),
            _ => None,
        })
    }
}
