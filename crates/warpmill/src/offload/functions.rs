//! Programs with functions of groups in the host's language: a device runs them, or the host calls them in DataFusion's operators.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_plan::ExecutionPlan;
use warpmill_engine::{CancelToken, DeviceChoice};
use warpmill_ir::{GroupFunction, Unsupported};
use warpmill_translate::{Options, Translated, translate};

use super::input;
use crate::settings::WarpmillOptions;
use crate::udf;

/// The executor of functions of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    /// A device, if one can.
    Device,
    /// The host.
    Host,
}

/// The plan as a program; functions of groups are included if `runner` is the device and one runs them, otherwise the reason is returned, too.
pub(super) fn program(
    plan: &Arc<dyn ExecutionPlan>,
    options: &WarpmillOptions,
    (translation, runner): (Options<'_>, Runner),
) -> (Result<Translated, Unsupported>, Option<String>) {
    let on_host = Options { group_functions: &|_, _| None, ..translation };
    if runner == Runner::Host || options.device == DeviceChoice::Cpu {
        return (translate(plan, &on_host), None);
    }
    let functions = |function: &AggregateUDF, types: &[DataType]| -> Option<Result<Arc<GroupFunction>, String>> {
        udf::translated(function, types)
    };
    match translate(plan, &Options { group_functions: &functions, ..on_host }) {
        Ok(translated) if translated.program.calls_functions() => match on_device(translated, options) {
            Ok(translated) => (Ok(translated), None),
            Err(reason) => (translate(plan, &on_host), Some(reason)),
        },
        Err(reason) => (Err(reason), None),
        translated => (translated, None),
    }
}

/// `translated`, if a device can run its program as far as known now; otherwise the reason.
fn on_device(translated: Translated, options: &WarpmillOptions) -> Result<Translated, String> {
    let inputs: Vec<u64> = translated.inputs.iter().map(|plan| input::expected_rows(plan).unwrap_or(1 << 20)).collect();
    let Translated { program, inputs: plans, fallbacks } = translated;
    let program = Arc::new(program);
    warpmill_engine::on_device(&program, &inputs, &options.execution(CancelToken::default()))?;
    let program = Arc::into_inner(program).ok_or("its program is kept elsewhere")?;
    Ok(Translated { program, inputs: plans, fallbacks })
}
