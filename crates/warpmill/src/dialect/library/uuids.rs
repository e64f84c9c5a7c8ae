//! Generation of UUIDs, and extraction of their version and time.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray, UInt32Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::functions::string::uuid;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::own::{Call, Own, Typed, text_like};
use crate::dialect::own_casts;
use crate::dialect::types::timestamptz;
use crate::dialect::uuids::{self, UUID};

/// The functions that read UUIDs.
pub(super) fn functions() -> Vec<Own> {
    vec![
        Own::new(
            "uuid_extract_version",
            |types| of_one(types, DataType::UInt32),
            |call| Ok(Arc::new(values(call)?.iter().map(|bytes| bytes.as_ref().map(version)).collect::<UInt32Array>())),
        ),
        Own::new(
            "uuid_extract_timestamp",
            |types| of_one(types, timestamptz()),
            |call| {
                let values = values(call)?;
                let moments = values.iter().map(|bytes| bytes.as_ref().map(moment).transpose());
                let moments = moments.collect::<Result<TimestampMicrosecondArray>>()?;
                Ok(Arc::new(moments.with_timezone("UTC")))
            },
        ),
    ]
}

/// The functions that make a UUID for every row.
pub(super) fn makers() -> impl Iterator<Item = Arc<ScalarUDF>> {
    let made = |name, has_time| Made { name, has_time, signature: Signature::nullary(Volatility::Volatile) };
    [made("uuid", false), made("uuidv7", true)].into_iter().map(|made| Arc::new(ScalarUDF::from(made)))
}

/// The types of a function of a UUID. A constant text may be passed, which is cast when types are bound.
fn of_one(types: &[DataType], to: DataType) -> Option<Typed> {
    let [ty] = types else { return None };
    (*ty == UUID || text_like(ty)).then(|| (types.to_vec(), to))
}

/// The UUIDs of the only argument, which may be an untyped NULL.
fn values(call: &Call) -> Result<Vec<Option<[u8; 16]>>> {
    let uuids = own_casts::cast(&call.args[0], &UUID, false)?;
    Ok(uuids.as_fixed_size_binary().iter().map(|bytes| bytes.and_then(|bytes| bytes.try_into().ok())).collect())
}

/// The version digit as DuckDB computes it: letters follow the ASCII characters after the digits.
fn version(bytes: &[u8; 16]) -> u32 {
    const LETTERS: u32 = 39;
    let digit = u32::from(bytes[6] >> 4);
    if digit < 10 { digit } else { digit + LETTERS }
}

/// The microseconds since 1970 of the moment in a UUID of version 7.
fn moment(bytes: &[u8; 16]) -> Result<i64> {
    match version(bytes) {
        7 => Ok(bytes[..6].iter().fold(0, |millis, &byte| millis << 8 | i64::from(byte)) * 1_000),
        other => exec_err!("Given UUID is with version {other}, not version 7."),
    }
}

/// `uuid()`, which is random, and `uuidv7()`, which begins with the time.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Made {
    name: &'static str,
    has_time: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Made {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(UUID)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let random = own_casts::cast(&uuid().invoke_with_args(args)?.to_array(rows)?, &UUID, false)?;
        Ok(ColumnarValue::Array(if self.has_time { with_time(&random)? } else { random }))
    }
}

/// Converts random UUIDs to version 7 with the current time.
fn with_time(random: &ArrayRef) -> Result<ArrayRef> {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    let random = random.as_fixed_size_binary();
    uuids::column((0..random.len()).map(|row| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(random.value(row));
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        bytes[6] = 7 << 4 | bytes[6] & 15;
        Ok(Some(bytes))
    }))
}
