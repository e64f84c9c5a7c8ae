//! The text of `/metrics`, in the format of Prometheus.

use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::memory::resident_bytes;

type Labels = Vec<(&'static str, String)>;

/// The server's counters.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<Labels, Counter>,
    statements: Family<Labels, Counter>,
    seconds: Histogram,
    waited: Histogram,
    /// Rows sent to clients.
    pub rows: Counter,
    /// Bytes of rows sent to clients.
    pub bytes: Counter,
    /// Log-ins refused.
    pub refused: Counter,
    /// Connections, including refused ones.
    pub connections: Family<Labels, Counter>,
    /// Open connections.
    pub open: Gauge,
    running: Gauge,
    waiting: Gauge,
    sessions: Gauge,
    memory: Gauge<f64, AtomicU64>,
}

/// Values that are read at the time of a request.
pub(crate) struct Now {
    pub running: usize,
    pub waiting: usize,
    pub sessions: usize,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let times = || Histogram::new(exponential_buckets(0.001, 4.0, 10));
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("warpmill")),
            requests: Family::default(),
            statements: Family::default(),
            seconds: times(),
            waited: times(),
            rows: Counter::default(),
            bytes: Counter::default(),
            refused: Counter::default(),
            connections: Family::default(),
            open: Gauge::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            sessions: Gauge::default(),
            memory: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let mut registry = self.registry.lock();
        let counts = "Requests, by method of the Flight service and status at the head of the answer";
        registry.register("requests", counts, self.requests.clone());
        registry.register("statements", "Statements that have ended, by kind and status", self.statements.clone());
        let seconds = "Time from room for a statement to its last row";
        registry.register_with_unit("statement", seconds, Unit::Seconds, self.seconds.clone());
        registry.register_with_unit("statement_wait", "Time until there was room", Unit::Seconds, self.waited.clone());
        registry.register("rows_sent", "Rows sent to clients", self.rows.clone());
        registry.register_with_unit("result", "Rows sent to clients", Unit::Bytes, self.bytes.clone());
        registry.register("logins_refused", "Log-ins and tokens refused", self.refused.clone());
        registry.register("connections", "Connections, by whether they were accepted", self.connections.clone());
        registry.register("connections_open", "Open connections", self.open.clone());
        registry.register("statements_running", "Statements that run or wait", self.running.clone());
        registry.register("statements_waiting", "Statements that wait for room", self.waiting.clone());
        registry.register("sessions_open", "Sessions", self.sessions.clone());
        let memory = "Memory of the process that is resident";
        registry.register_with_unit("process_resident_memory", memory, Unit::Bytes, self.memory.clone());
    }

    pub(crate) fn request(&self, method: &str, code: tonic::Code) {
        let labels = vec![("method", method.to_string()), ("code", format!("{code:?}"))];
        self.requests.get_or_create(&labels).inc();
        if code == tonic::Code::Unauthenticated {
            self.refused.inc();
        }
    }

    pub(crate) fn statement(&self, kind: &str, code: tonic::Code, waited: f64, seconds: f64) {
        let labels = vec![("kind", kind.to_string()), ("code", format!("{code:?}"))];
        self.statements.get_or_create(&labels).inc();
        self.waited.observe(waited);
        self.seconds.observe(seconds);
    }

    pub(crate) fn connection(&self, accepted: bool) {
        self.connections.get_or_create(&vec![("accepted", accepted.to_string())]).inc();
    }

    /// The text that is served.
    pub(crate) fn text(&self, now: &Now) -> String {
        self.running.set(now.running as i64);
        self.waiting.set(now.waiting as i64);
        self.sessions.set(now.sessions as i64);
        self.memory.set(resident_bytes().unwrap_or(0) as f64);
        let mut text = String::new();
        match encode(&mut text, &self.registry.lock()) {
            Ok(()) => text,
            Err(error) => format!("# {error}\n"),
        }
    }
}
