//! The decisions.

use std::sync::Arc;

use warpmill_ir::Program;

use crate::{Decision, Fragment, PlacedPlan, Reason, Site, Topology};

/// The sites that a program may run on, as the user has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A device where one can, otherwise the CPU.
    Any,
    /// The CPU.
    Cpu,
    /// A device; the CPU only where `else_cpu` lets it.
    Device {
        /// Whether the CPU runs what no device runs.
        else_cpu: bool,
    },
}

/// Facts on a run before it begins.
pub struct Facts<'a> {
    /// The user's word.
    pub request: Request,
    /// Whether the back end of a device runs the program at all, whatever its memory; or why not.
    pub supports: &'a dyn Fn(Site) -> Result<(), String>,
}

/// Findings of earlier attempts of a run. They only grow: an attempt is never made twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Feedback {
    /// In the order in which they came.
    pub misses: Vec<Miss>,
}

/// An attempt that did not end in a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miss {
    /// The site.
    pub site: Site,
    /// The reason.
    pub reason: String,
    /// Whether the CPU may answer although the user wants a device: a value needs what only the CPU has.
    pub for_cpu: bool,
}

/// No site that the user allows runs the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not run on the {device}: {reason} (SET warpmill.device_fallback = 'allow' lets the CPU run it)")]
pub struct Refusal {
    /// The device's name.
    pub device: &'static str,
    /// The reason.
    pub reason: String,
}

/// The plan of the next attempt.
///
/// # Errors
/// [`Refusal`] where a device is demanded and none runs the program.
pub fn place(
    program: &Arc<Program>,
    facts: &Facts<'_>,
    topology: &Topology,
    feedback: &Feedback,
) -> Result<PlacedPlan, Refusal> {
    let mut decisions = Vec::new();
    if facts.request != Request::Cpu {
        for spec in topology.devices() {
            let miss = feedback.misses.iter().find(|miss| miss.site == spec.site);
            let refused = spec.closed.clone().or_else(|| miss.map(|miss| miss.reason.clone()));
            let refused = refused.or_else(|| (facts.supports)(spec.site).err());
            let Some(reason) = refused else {
                let reason = if facts.request == Request::Any { Reason::First } else { Reason::Asked };
                decisions.push(Decision { site: spec.site, reason });
                return Ok(whole(program, spec.site, decisions));
            };
            if facts.request == (Request::Device { else_cpu: false }) && !miss.is_some_and(|miss| miss.for_cpu) {
                return Err(Refusal { device: spec.name, reason });
            }
            decisions.push(Decision { site: spec.site, reason: Reason::Refused(reason) });
        }
    }
    let reason = if facts.request == Request::Cpu { Reason::Asked } else { Reason::Left };
    decisions.push(Decision { site: Site::Cpu, reason });
    Ok(whole(program, Site::Cpu, decisions))
}

/// All of a program on one site.
fn whole(program: &Arc<Program>, site: Site, decisions: Vec<Decision>) -> PlacedPlan {
    let fragments = vec![Fragment { site, pipelines: (0..program.pipelines.len()).collect() }];
    PlacedPlan { program: Arc::clone(program), fragments, decisions }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Arc<Program> {
        let schema = Arc::new(arrow::datatypes::Schema::empty());
        Arc::new(Program { pipelines: vec![], sinks: vec![], schema })
    }

    fn runs_anything(_: Site) -> Result<(), String> {
        Ok(())
    }

    fn sites(request: Request, topology: &Topology, misses: Vec<Miss>) -> Result<PlacedPlan, Refusal> {
        place(&program(), &Facts { request, supports: &runs_anything }, topology, &Feedback { misses })
    }

    fn miss(for_cpu: bool) -> Miss {
        Miss { site: Site::Device(0), reason: "too large".into(), for_cpu }
    }

    #[test]
    fn a_device_that_is_there_comes_first() {
        let topology = Topology::new([("gpu", None)]);
        let plan = sites(Request::Any, &topology, vec![]).unwrap();
        assert_eq!((plan.site(), plan.not_on_device()), (Site::Device(0), None));
        let plan = sites(Request::Cpu, &topology, vec![]).unwrap();
        assert_eq!((plan.site(), plan.not_on_device()), (Site::Cpu, None));
        let plan = sites(Request::Any, &Topology::new([("gpu", Some("no driver".into()))]), vec![]).unwrap();
        assert_eq!((plan.site(), plan.not_on_device()), (Site::Cpu, Some("no driver")));
    }

    #[test]
    fn a_miss_is_not_repeated() {
        let topology = Topology::new([("gpu", None), ("gpu", None)]);
        let plan = sites(Request::Any, &topology, vec![miss(false)]).unwrap();
        assert_eq!(plan.site(), Site::Device(1));
        let topology = Topology::new([("gpu", None)]);
        for request in [Request::Any, Request::Device { else_cpu: true }] {
            let plan = sites(request, &topology, vec![miss(false)]).unwrap();
            assert_eq!((plan.site(), plan.not_on_device()), (Site::Cpu, Some("too large")));
        }
    }

    #[test]
    fn a_demanded_device_is_not_replaced() {
        let topology = Topology::new([("sim", None)]);
        let demanded = Request::Device { else_cpu: false };
        let refusal = sites(demanded, &topology, vec![miss(false)]).unwrap_err();
        assert_eq!((refusal.device, refusal.reason.as_str()), ("sim", "too large"));
        // A value that only the CPU has an answer for.
        assert_eq!(sites(demanded, &topology, vec![miss(true)]).unwrap().site(), Site::Cpu);
        let closed = Topology::new([("gpu", Some("no driver".into()))]);
        assert_eq!(sites(demanded, &closed, vec![]).unwrap_err().reason, "no driver");
    }

    #[test]
    fn what_a_back_end_has_not_is_no_attempt() {
        let topology = Topology::new([("sim", None)]);
        let supports = |_: Site| Err("Sort: of lists".to_string());
        let facts = Facts { request: Request::Any, supports: &supports };
        let plan = place(&program(), &facts, &topology, &Feedback::default()).unwrap();
        assert_eq!((plan.site(), plan.not_on_device()), (Site::Cpu, Some("Sort: of lists")));
    }

    #[test]
    fn equal_arguments_give_equal_plans() {
        let topology = Topology::new([("gpu", None)]);
        let plans = [0, 1].map(|_| sites(Request::Any, &topology, vec![miss(true)]).unwrap());
        assert_eq!(plans[0].fragments, plans[1].fragments);
        assert_eq!(plans[0].decisions, plans[1].decisions);
    }
}
