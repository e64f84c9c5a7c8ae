//! The decisions.

use std::sync::Arc;

use warpmill_ir::Program;

use crate::{Arrives, Decision, Exchange, Fragment, Partition, PlacedPlan, Reason, Share, Site, Topology};

/// The sites that the user permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A device where one can, otherwise the CPU.
    Any,
    /// The CPU.
    Cpu,
    /// A device; the CPU only if `else_cpu`.
    Device {
        /// Whether the CPU runs programs that no device runs.
        else_cpu: bool,
    },
}

/// The unit of work for sites.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// Whole programs; row segments if data have to be transferred for every run, and ranges for several devices, if that has been faster.
    #[default]
    Auto,
    /// Whole programs, each on one site.
    Program,
    /// Row segments of the pipeline that reads most, if possible.
    Segment,
    /// Ranges of the scan that reads most, one per device, if possible.
    Range,
}

/// Whether a device's back end runs a program; otherwise the reason.
pub type Supports<'a> = dyn Fn(Site, &Arc<Program>) -> Result<(), String> + 'a;

/// Facts on a run before it begins.
pub struct Facts<'a> {
    /// The user's word.
    pub request: Request,
    /// The user's word on the unit.
    pub granularity: Granularity,
    /// Whether a device's back end supports a program, regardless of its memory; otherwise the reason.
    pub supports: &'a Supports<'a>,
    /// The shareable pipeline, or the reason why there is none.
    pub share: &'a dyn Fn() -> Result<Arc<Share>, String>,
    /// The verdict of earlier runs on sharing it.
    pub sharing: &'a dyn Fn() -> Sharing,
    /// The partitioning for a number of devices, or the reason why there is none.
    pub partition: &'a dyn Fn(usize) -> Result<Arc<Partition>, String>,
    /// The verdict of earlier runs on parts.
    pub parting: &'a dyn Fn() -> Sharing,
    /// Whether the CPU may run programs for which a device would have to compile kernels first.
    pub first_on_cpu: bool,
    /// The state of a device's preparation of the program.
    pub readiness: &'a dyn Fn(Site) -> Readiness,
}

/// Whether sites share a shareable pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// No: one site runs all of it.
    No,
    /// Yes.
    Yes,
    /// Until a single device, which has been faster alone or is to be tried, is ready for the whole program.
    UntilReady,
}

/// The state of a device's preparation of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Unknown: its kernels would have to be compiled first.
    Unknown,
    /// In preparation.
    Warming,
    /// Ready, or tried before.
    Ready,
}

/// Results of earlier attempts of a run. They only grow: no attempt is repeated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Failed attempts, in order.
    pub misses: Vec<Miss>,
}

/// An attempt that did not end in a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miss {
    /// The site.
    pub site: Site,
    /// The reason.
    pub reason: String,
    /// Whether the CPU may answer although the user wants a device: a value needs a CPU-only feature.
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
        match parted(program, facts, topology, feedback) {
            Ok(Some(plan)) => return Ok(plan),
            Ok(None) => {}
            Err(reason) if facts.granularity == Granularity::Range => {
                decisions.push(Decision { site: Site::Cpu, reason: Reason::NotShared(reason) });
            }
            Err(_) => {}
        }
        match shared(program, facts, topology, feedback) {
            Ok(Some(plan)) => return Ok(plan),
            Ok(None) => {}
            Err(reason) if facts.granularity == Granularity::Segment => {
                decisions.push(Decision { site: Site::Cpu, reason: Reason::NotShared(reason) });
            }
            Err(_) => {}
        }
        for spec in topology.devices() {
            let miss = feedback.misses.iter().find(|miss| miss.site == spec.site);
            let refused = spec.closed.clone().or_else(|| miss.map(|miss| miss.reason.clone()));
            let refused = refused.or_else(|| (facts.supports)(spec.site, program).err());
            let Some(reason) = refused else {
                let cpu_may = facts.request != Request::Device { else_cpu: false };
                if facts.first_on_cpu && cpu_may && (facts.readiness)(spec.site) != Readiness::Ready {
                    decisions.push(Decision { site: Site::Cpu, reason: Reason::Sooner });
                    return Ok(PlacedPlan { warms: Some(spec.site), ..whole(program, Site::Cpu, decisions) });
                }
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

/// Places a whole program on one site.
fn whole(program: &Arc<Program>, site: Site, decisions: Vec<Decision>) -> PlacedPlan {
    let fragments = vec![Fragment { site, pipelines: (0..program.pipelines.len()).collect() }];
    let (exchanges, share, partition, warms) = (vec![], None, None, None);
    PlacedPlan { program: Arc::clone(program), fragments, exchanges, share, partition, warms, decisions }
}

/// Places a partitioned program on several devices; `None` if that is not wanted.
///
/// # Errors
/// The reason why it cannot be partitioned.
fn parted(
    program: &Arc<Program>,
    facts: &Facts<'_>,
    topology: &Topology,
    feedback: &Feedback,
) -> Result<Option<PlacedPlan>, String> {
    let wanted = matches!(facts.granularity, Granularity::Auto | Granularity::Range);
    let open = topology.devices().filter(|spec| spec.closed.is_none());
    let sites: Vec<Site> = open.map(|spec| spec.site).collect();
    // A program with a failed attempt is placed as a whole.
    if !wanted || sites.len() < 2 || !feedback.misses.is_empty() {
        return Ok(None);
    }
    if facts.request == (Request::Device { else_cpu: false }) {
        return Err("the cpu, where parts are brought together, must not take part".into());
    }
    let warms = match (facts.parting)() {
        Sharing::No => return Ok(None),
        Sharing::UntilReady if (facts.readiness)(sites[0]) == Readiness::Ready => {
            return Err("a device alone has been faster, or is tried".into());
        }
        Sharing::UntilReady => Some(sites[0]),
        Sharing::Yes => None,
    };
    let partition = (facts.partition)(sites.len())?;
    let firsts = partition.shuffle.iter().flat_map(|shuffle| sites.iter().zip(&shuffle.firsts));
    let mut programs = sites.iter().zip(&partition.programs).chain(firsts);
    programs.try_for_each(|(&site, part)| (facts.supports)(site, part))?;
    let all: Vec<usize> = (0..program.pipelines.len()).collect();
    let own = all.iter().copied().filter(|index| !partition.elsewhere.contains(index)).collect();
    let (sink, pipelines) = (program.pipelines[partition.pipeline].sink, &partition.elsewhere);
    let of_device = pipelines.iter().copied().chain([partition.pipeline]);
    let of_device: Vec<usize> = of_device.collect();
    let mut fragments: Vec<Fragment> =
        sites.iter().map(|&site| Fragment { site, pipelines: of_device.clone() }).collect();
    fragments.push(Fragment { site: Site::Cpu, pipelines: own });
    let exchanges = sites.iter().map(|&from| exchange(partition.arrives, sink, from)).collect();
    let decisions = sites.iter().map(|&site| Decision { site, reason: Reason::HasPart }).collect();
    let (program, share, partition) = (Arc::clone(program), None, Some(partition));
    Ok(Some(PlacedPlan { program, fragments, exchanges, share, partition, warms, decisions }))
}

/// The exchange of rows or states from a site to a sink of the CPU's.
fn exchange(arrives: Arrives, sink: usize, from: Site) -> Exchange {
    match arrives {
        Arrives::Rows => Exchange::Gather { sink, from },
        Arrives::States => Exchange::MergeState { sink, from },
    }
}

/// Places a shared program on all devices and the CPU; `None` if that is not wanted.
///
/// # Errors
/// The reason why it cannot be shared.
fn shared(
    program: &Arc<Program>,
    facts: &Facts<'_>,
    topology: &Topology,
    feedback: &Feedback,
) -> Result<Option<PlacedPlan>, String> {
    let with_cpu = facts.request != (Request::Device { else_cpu: false });
    // A program with a failed attempt is placed as a whole.
    if matches!(facts.granularity, Granularity::Program | Granularity::Range)
        || !with_cpu
        || !feedback.misses.is_empty()
    {
        return Ok(None);
    }
    let sharing = (facts.sharing)();
    if sharing == Sharing::No {
        return Ok(None);
    }
    let open = topology.devices().filter(|spec| spec.closed.is_none());
    let sites: Vec<Site> = open.map(|spec| spec.site).collect();
    let mut warms = None;
    if let (Sharing::UntilReady, [site]) = (sharing, &sites[..])
        && (facts.supports)(*site, program).is_ok()
    {
        match (facts.readiness)(*site) {
            Readiness::Ready => return Err("a device alone has been faster, or is tried".into()),
            Readiness::Unknown | Readiness::Warming => warms = Some(*site),
        }
    }
    let share = (facts.share)()?;
    sites.iter().try_for_each(|&site| (facts.supports)(site, &share.program))?;
    if sites.is_empty() {
        return Ok(None);
    }
    let sink = program.pipelines[share.pipeline].sink;
    let pipelines: Vec<usize> = share.below.iter().copied().chain([share.pipeline]).collect();
    let mut fragments: Vec<Fragment> =
        sites.iter().map(|&site| Fragment { site, pipelines: pipelines.clone() }).collect();
    fragments.push(Fragment { site: Site::Cpu, pipelines: (0..program.pipelines.len()).collect() });
    let exchanges = sites.iter().map(|&from| exchange(share.arrives, sink, from)).collect();
    let decisions = sites.iter().chain([&Site::Cpu]).map(|&site| Decision { site, reason: Reason::Shares }).collect();
    let (program, share, partition) = (Arc::clone(program), Some(share), None);
    Ok(Some(PlacedPlan { program, fragments, exchanges, share, partition, warms, decisions }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Arc<Program> {
        let schema = Arc::new(arrow::datatypes::Schema::empty());
        Arc::new(Program::new(vec![], vec![], schema))
    }

    fn runs_anything(_: Site, _: &Arc<Program>) -> Result<(), String> {
        Ok(())
    }

    fn facts(request: Request, granularity: Granularity, readiness: Readiness) -> Facts<'static> {
        let readiness: &'static dyn Fn(Site) -> Readiness = match readiness {
            Readiness::Unknown => &|_| Readiness::Unknown,
            Readiness::Warming => &|_| Readiness::Warming,
            Readiness::Ready => &|_| Readiness::Ready,
        };
        let share = &|| Err("it scans no tables".into());
        let sharing = &|| Sharing::Yes;
        let (partition, parting) = (&|_| Err("it scans no tables".into()), &|| Sharing::Yes);
        let supports = &runs_anything;
        Facts { request, granularity, supports, share, sharing, partition, parting, first_on_cpu: true, readiness }
    }

    fn sites(request: Request, topology: &Topology, misses: Vec<Miss>) -> Result<PlacedPlan, Refusal> {
        place(&program(), &facts(request, Granularity::Auto, Readiness::Ready), topology, &Feedback { misses })
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
        let supports = |_: Site, _: &Arc<Program>| Err("Sort: of lists".to_string());
        let facts = Facts { supports: &supports, ..facts(Request::Any, Granularity::Auto, Readiness::Ready) };
        let plan = place(&program(), &facts, &topology, &Feedback::default()).unwrap();
        assert_eq!((plan.site(), plan.not_on_device()), (Site::Cpu, Some("Sort: of lists")));
    }

    #[test]
    fn nobody_waits_for_a_compiler_who_did_not_ask_for_the_device() {
        let topology = Topology::new([("gpu", None)]);
        for readiness in [Readiness::Unknown, Readiness::Warming] {
            let facts = facts(Request::Any, Granularity::Auto, readiness);
            let plan = place(&program(), &facts, &topology, &Feedback::default()).unwrap();
            assert_eq!((plan.site(), plan.warms), (Site::Cpu, Some(Site::Device(0))));
        }
        let asked = facts(Request::Device { else_cpu: false }, Granularity::Auto, Readiness::Unknown);
        let plan = place(&program(), &asked, &topology, &Feedback::default()).unwrap();
        assert_eq!((plan.site(), plan.warms), (Site::Device(0), None));
    }

    #[test]
    fn why_nothing_is_shared_is_told() {
        let topology = Topology::new([("sim", None)]);
        let facts = facts(Request::Device { else_cpu: true }, Granularity::Segment, Readiness::Ready);
        let plan = place(&program(), &facts, &topology, &Feedback::default()).unwrap();
        assert_eq!((plan.site(), plan.not_shared()), (Site::Device(0), Some("it scans no tables")));
    }

    #[test]
    fn a_device_that_has_been_faster_alone_is_made_ready_first() {
        let topology = Topology::new([("sim", None)]);
        for (readiness, reason) in [
            (Readiness::Ready, "a device alone has been faster, or is tried"),
            (Readiness::Unknown, "it scans no tables"),
        ] {
            let sharing = &|| Sharing::UntilReady;
            let facts = facts(Request::Device { else_cpu: true }, Granularity::Segment, readiness);
            let facts = Facts { sharing, first_on_cpu: false, ..facts };
            let plan = place(&program(), &facts, &topology, &Feedback::default()).unwrap();
            assert_eq!((plan.site(), plan.not_shared()), (Site::Device(0), Some(reason)));
        }
        let facts = facts(Request::Any, Granularity::Auto, Readiness::Ready);
        let facts = Facts { sharing: &|| Sharing::No, ..facts };
        let plan = place(&program(), &facts, &topology, &Feedback::default()).unwrap();
        assert_eq!((plan.site(), plan.not_shared()), (Site::Device(0), None));
    }

    #[test]
    fn equal_arguments_give_equal_plans() {
        let topology = Topology::new([("gpu", None)]);
        let plans = [0, 1].map(|_| sites(Request::Any, &topology, vec![miss(true)]).unwrap());
        assert_eq!(plans[0].fragments, plans[1].fragments);
        assert_eq!(plans[0].decisions, plans[1].decisions);
    }
}
