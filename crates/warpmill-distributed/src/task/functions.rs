//! Scalar functions as bytes: those that sessions do not find by their names.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::SessionStateDefaults;
use datafusion::logical_expr::ScalarUDF;
use datafusion_proto::protobuf::ArrowType;
use prost::Message;
use warpmill::distribution::MadeFunction;

use crate::cluster::FUNCTIONS;

/// DataFusion's functions, of which sessions have others by the same names.
static DATAFUSIONS: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(SessionStateDefaults::default_scalar_functions);

/// The byte of one of these.
const OF_DATAFUSION: u8 = b'D';
/// The first byte of a function that is made for a call.
const MADE: u8 = b'M';

/// Whether other processes can make `function`, or have it.
pub(crate) fn is_known(function: &ScalarUDF) -> bool {
    is_common(function) || MadeFunction::of(function).is_some() || is_datafusions(function)
}

fn is_common(function: &ScalarUDF) -> bool {
    FUNCTIONS.scalar_functions().get(function.name()).is_some_and(|known| **known == *function)
}

fn is_datafusions(function: &ScalarUDF) -> bool {
    DATAFUSIONS.iter().any(|known| **known == *function)
}

/// Appends what other processes need to find `function`; nothing for a function that they have by its name.
pub(super) fn encode(function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
    if let Some(MadeFunction { to, detail }) = MadeFunction::of(function) {
        bytes.push(MADE);
        bytes.extend_from_slice(&detail.to_le_bytes());
        bytes.extend(ArrowType::try_from(&to)?.encode_to_vec());
    } else if !is_common(function) && is_datafusions(function) {
        bytes.push(OF_DATAFUSION);
    }
    Ok(())
}

/// The function of that name that [`encode`] has written.
pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
    let unknown = || exec_datafusion_err!("there is no function {name:?} of this kind");
    match bytes.split_first() {
        None => FUNCTIONS.scalar_functions().get(name).cloned().ok_or_else(unknown),
        Some((&OF_DATAFUSION, _)) => DATAFUSIONS.iter().find(|known| known.name() == name).cloned().ok_or_else(unknown),
        Some((&MADE, parts)) => {
            let (detail, to) = parts.split_first_chunk().ok_or_else(unknown)?;
            let to = ArrowType::decode(to).map_err(|_| unknown())?;
            let made = MadeFunction { to: DataType::try_from(&to)?, detail: i32::from_le_bytes(*detail) };
            made.named(name).map(Arc::new).ok_or_else(unknown)
        }
        Some(_) => Err(unknown()),
    }
}
