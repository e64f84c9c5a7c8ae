//! The choice of an encoding for one column segment.

use super::lane_for::LaneFor;
use super::plain::PlainIntegers;
use super::word::Value;
use crate::segment::Encoding;
use crate::segment::bytes::SectionWriter;

/// Encodes `values` into `out` and says how. `plain` is the width in bytes and the signedness of the column's type.
/// Errors say why a forced encoding cannot hold the values.
pub(crate) fn encode<V: Value>(
    values: &[V],
    plain: (usize, bool),
    forced: Option<Encoding>,
    out: &mut SectionWriter,
) -> Result<Encoding, String> {
    let constant = values.first().copied().unwrap_or_default();
    let encoding = match forced {
        Some(encoding) => encoding,
        None if values.iter().all(|&x| x == constant) => Encoding::Constant,
        None => Encoding::LaneFor,
    };
    match encoding {
        Encoding::Constant if values.iter().any(|&x| x != constant) => return Err("the values are not constant".into()),
        Encoding::Constant => out.push(&[constant.to_i128()]),
        Encoding::Plain => PlainIntegers::encode(values.iter().map(|x| x.to_i128()), plain.0, plain.1, out),
        Encoding::LaneFor => LaneFor::encode(values, out),
        other => return Err(format!("cannot force {other:?}")),
    }
    Ok(encoding)
}
