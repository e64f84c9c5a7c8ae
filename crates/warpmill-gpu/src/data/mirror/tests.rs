//! Mirrored segments that devices of a group read.

use arrow::array::{ArrayRef, Int64Array};

use super::*;
use crate::device::sim::{SimDevice, SimOptions};

#[test]
fn a_device_that_reads_alone_knows_of_no_group() {
    let mut mirror = Mirror::new(Arc::new(SimDevice::new(SimOptions::default()).unwrap()), 1 << 20);
    mirror.histories.push(History::default());
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let segment = warpmill_format::Segment::encode(&array, None, None).unwrap().to_direct().unwrap();
    let chunk = Arc::new(Chunk::of(Arc::new(segment)).unwrap());
    let mut seconds = |group: Option<GroupShare>| {
        mirror.note(&Read { chunk: &chunk, column: 0, segment: 0, here: false, weight: 1.0, group });
        mirror.known[&chunk.travels_as()].group.map(|group| group.seconds)
    };
    let group = Some(GroupShare { own: 1, devices: 2, seconds: 3.0 });
    assert_eq!([seconds(group), seconds(group)], [Some(3.0), Some(6.0)]);
    assert_eq!([seconds(None), seconds(group)], [None, Some(3.0)]);
}
