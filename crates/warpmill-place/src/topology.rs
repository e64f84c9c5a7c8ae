//! The sites that programs can run on.

/// A place where fragments run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// The host's cores.
    Cpu,
    /// A device, by its number in the topology.
    Device(u16),
}

/// A site as placement sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteSpec {
    /// The site.
    pub site: Site,
    /// Its name in messages and profiles: `cpu`, `gpu`, `sim`.
    pub name: &'static str,
    /// The reason why nothing can run there now: no driver, no compiler, a device that cannot be opened.
    pub closed: Option<String>,
}

/// The sites of a process. The CPU is always one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The CPU first, then devices by number.
    pub sites: Vec<SiteSpec>,
}

impl Topology {
    /// The CPU, and `devices` in the order of their numbers.
    pub fn new(devices: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Self {
        let cpu = SiteSpec { site: Site::Cpu, name: "cpu", closed: None };
        let device = |(number, (name, closed))| SiteSpec { site: Site::Device(number), name, closed };
        Self { sites: std::iter::once(cpu).chain((0..).zip(devices).map(device)).collect() }
    }

    /// The devices.
    pub fn devices(&self) -> impl Iterator<Item = &SiteSpec> {
        self.sites.iter().filter(|spec| spec.site != Site::Cpu)
    }
}
