//! Segments expanded on the device (`expand.cuh`), compared with the host's decoder.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array};
use proptest::prelude::*;
use warpmill_format::{Encoding, Segment};

use crate::data::chunks::Chunk;
use crate::data::segments::describe_expansion;
use crate::data::stream::open::Openers;
use crate::device::Device;
use crate::device::sim::{SimDevice, SimOptions};
use crate::memory::regions::{KeyMap, padded};

fn device() -> Arc<dyn Device> {
    let sanitize = std::env::var_os("WARPMILL_SIM_SANITIZE").is_some();
    Arc::new(SimDevice::new(SimOptions { sanitize, ..SimOptions::default() }).expect("a C++ compiler"))
}

/// Expands all of `segments` in one launch, and compares.
fn check(device: &Arc<dyn Device>, segments: &[Arc<Segment>]) {
    let stream = device.stream().unwrap();
    let (mut places, mut image, mut vectors) = (KeyMap::default(), vec![], 0);
    let chunks: Vec<Chunk> = segments.iter().map(|segment| Chunk::of(segment.clone()).unwrap()).collect();
    for (segment, chunk) in segments.iter().zip(&chunks) {
        let expanded = chunk.expanded.expect("an encoding that is expanded");
        let at = device.allocate(padded(segment.as_bytes().len() as u64)).unwrap();
        // SAFETY: just allocated with this size.
        unsafe { device.copy_to_device(at, segment.as_bytes(), stream).unwrap() };
        places.insert(chunk.key(), at);
        places.insert(chunk.expanded_key(), device.allocate(expanded.bytes).unwrap());
        vectors += describe_expansion(chunk, &places, vectors, &mut image).unwrap();
    }
    let at = device.allocate(image.len() as u64).unwrap();
    let openers = Openers::compile(device).unwrap();
    // SAFETY: the descriptors name the ranges that were allocated above, each with room for all rows.
    unsafe {
        device.copy_to_device(at, &image, stream).unwrap();
        openers.expand((at, segments.len() as u32, vectors), stream).unwrap();
    }
    for (segment, chunk) in segments.iter().zip(&chunks) {
        let expanded = chunk.expanded.unwrap();
        let mut bytes = vec![0u8; expanded.bytes as usize];
        // SAFETY: as many bytes were allocated.
        unsafe { device.copy_to_host(&mut bytes, places[&chunk.expanded_key()], stream).unwrap() };
        device.synchronize(stream).unwrap();
        let found: Vec<i64> = match expanded.width {
            4 => bytes.as_chunks::<4>().0.iter().map(|word| i32::from_le_bytes(*word).into()).collect(),
            _ => bytes.as_chunks::<8>().0.iter().map(|word| i64::from_le_bytes(*word)).collect(),
        };
        let mut expected = vec![0i64; segment.rows()];
        segment.decode_i64(0, &mut expected);
        assert_eq!(found, expected, "{segment:?}");
        for key in [chunk.key(), chunk.expanded_key()] {
            // SAFETY: allocated above; nothing is queued.
            unsafe { device.free(places[&key]) };
        }
    }
}

fn encoded(array: ArrayRef) -> Vec<Arc<Segment>> {
    let encode = |encoding| Segment::encode(&array, None, Some(encoding)).ok().map(Arc::new);
    [Encoding::LaneDelta, Encoding::LaneRle].into_iter().filter_map(encode).collect()
}

#[test]
fn segments_of_all_kinds_expand_together() {
    let device = device();
    let wide = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let nulls = Int32Array::from_iter((0..3000).map(|i| (i % 5 != 2).then_some(i / 7 - 100)));
    let arrays: Vec<ArrayRef> = vec![
        wide(vec![42]),
        wide((0..1024).collect()),
        wide((0..5001).map(|i| i * 3 - 7000).collect()),
        wide((0..4000).map(|i| i / 100 * 1_000_000_007).collect()),
        wide((0..2500).map(|i| i64::MIN / 2 + i * 4_000_000_000).collect()),
        wide((0..2048).map(|i| -(i % 1000)).collect()),
        wide(vec![7; 1500]),
        wide((0..1030).map(|i| if i == 1029 { i64::MAX } else { i }).collect()),
        Arc::new(nulls),
    ];
    let segments: Vec<Arc<Segment>> = arrays.into_iter().flat_map(encoded).collect();
    assert!(segments.len() >= 15, "{} segments", segments.len());
    check(&device, &segments);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_values_expand(
        start in any::<i32>(),
        steps in prop::collection::vec((-5000i64..5000, 1usize..40), 1..120),
    ) {
        let device = device();
        let mut value = i64::from(start);
        let values = steps.into_iter().flat_map(|(step, times)| {
            value += step;
            std::iter::repeat_n(value, times)
        });
        check(&device, &encoded(Arc::new(Int64Array::from_iter_values(values))));
    }
}
