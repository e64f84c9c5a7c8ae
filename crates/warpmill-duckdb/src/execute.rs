//! Runs a plan to its end.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::collect;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use serde::Serialize;
use warpmill::WarpmillOptions;
use warpmill::offload::{QueryHandle, context_of_program, has_device, is_one_program};
use warpmill_format::Table;

use crate::Refused;
use crate::input::Reading;
use crate::plan::{Plan, runtime, session};

/// The interval at which the host is asked whether the query should stop.
pub const POLL: Duration = Duration::from_millis(20);

/// The outcome of an execution.
pub enum Ended {
    /// The execution has finished, with these rows.
    Done(Vec<RecordBatch>, Profile),
    /// The host has stopped the execution.
    Interrupted,
}

/// The measurements of an execution.
#[derive(Debug, Default, Serialize)]
pub struct Profile {
    /// Time to make the physical plan, or to find it.
    pub planning_ms: f64,
    /// Time to run the physical plan.
    pub execution_ms: f64,
    /// The number of encoded bytes that scans read.
    pub bytes_read: u64,
    /// The number of rows of each input.
    pub input_rows: Vec<u64>,
    /// The measurements of reading the inputs.
    #[serde(flatten)]
    pub reading: Reading,
    /// The devices on which the programs ran.
    pub devices: Vec<&'static str>,
    /// The reason why a program did not run on the GPU.
    pub not_on_device: Option<String>,
    /// The measurements of devices, by program: `warpmill_gpu::DeviceProfile`.
    pub on_device: Vec<serde_json::Value>,
}

/// Opens the device on a separate thread before the first rows arrive: opening takes long, and the host reads tables meanwhile.
pub fn open_device() {
    static OPENED: Once = Once::new();
    OPENED.call_once(|| {
        let open = || {
            let Ok(session) = session(0) else { return };
            let options = WarpmillOptions::of(session.context().copied_config().options());
            // Running the plan reports the reason if there is no device.
            has_device(&options);
        };
        // If no thread can be started, the device is opened when it is needed.
        let _ = std::thread::Builder::new().name("warpmill-open".into()).spawn(open);
    });
}

/// Runs `plan` over the rows of its inputs.
pub fn execute(
    plan: &Arc<Plan>,
    tables: &[Arc<Table>],
    (threads, reading): (usize, Reading),
    interrupted: impl Fn() -> bool,
) -> Result<Ended, Refused> {
    let start = Instant::now();
    let Some(physical) = plan.physical(tables, threads, &interrupted)? else { return Ok(Ended::Interrupted) };
    let planned = start.elapsed();
    let handle = Arc::new(QueryHandle::default());
    let session = session(threads)?;
    let (physical, context) = match is_one_program(&*physical) {
        true => {
            handle.polled_alone.store(true, Ordering::Relaxed);
            (physical, context_of_program(&session.context().state_ref().read(), &handle))
        }
        false => {
            let context = TaskContext::from(&*session.context().state_ref().read());
            let config = context.session_config().clone().with_extension(Arc::clone(&handle));
            (reset_plan_states(physical)?, Arc::new(context.with_session_config(config)))
        }
    };
    // The query runs on a separate thread, and this one asks the host whether to go on.
    let running = handle.start(move || runtime().block_on(collect(physical, context)))?;
    let rows = runtime().block_on(async {
        let mut running = std::pin::pin!(running);
        loop {
            match tokio::time::timeout(POLL, &mut running).await {
                Ok(joined) => return Some(joined),
                Err(_) if interrupted() => {
                    handle.cancel.cancel();
                    // The outcome does not matter: the query was told to stop.
                    drop(running.await);
                    return None;
                }
                Err(_) => {}
            }
        }
    });
    let Some(joined) = rows else { return Ok(Ended::Interrupted) };
    let batches = joined??;
    let programs = std::mem::take(&mut *handle.profiles.lock());
    let on_device = programs.iter().filter_map(|program| serde_json::to_value(program.on_device.as_ref()?).ok());
    let profile = Profile {
        planning_ms: planned.as_secs_f64() * 1e3,
        execution_ms: (start.elapsed() - planned).as_secs_f64() * 1e3,
        bytes_read: programs.iter().map(|program| program.bytes_read).sum(),
        input_rows: tables.iter().map(|table| table.snapshot().map_or(0, |s| s.num_rows())).collect(),
        reading,
        devices: programs.iter().map(|program| program.device).collect(),
        not_on_device: programs.iter().find_map(|program| program.not_on_device.clone()),
        on_device: on_device.collect(),
    };
    Ok(Ended::Done(batches.into_iter().filter(|batch| batch.num_rows() > 0).collect(), profile))
}
