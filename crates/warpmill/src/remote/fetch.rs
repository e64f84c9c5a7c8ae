//! Ranges of an object: neighbouring ranges share a request, long ones are split, and many requests are in flight at once.

use std::ops::Range;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore, PutPayload, Result};
use tokio::sync::Semaphore;

/// Reference-counted bytes, as stores give them.
pub(crate) type Bytes = <PutPayload as IntoIterator>::Item;

/// Ranges at most this many bytes apart share a request: reading the gap takes about as long as another request.
const GAP: u64 = 128 << 10;

/// Bytes of a request, at most: one connection is slower than several.
const PART: u64 = 8 << 20;

/// Concurrent requests of one call.
const IN_FLIGHT: usize = 16;

/// Limits the concurrent range requests of the process.
static REQUESTS: Semaphore = Semaphore::const_new(64);

/// The bytes of `ranges` of the object at `location`.
///
/// # Errors
/// The store's.
pub(crate) async fn ranges(store: &dyn ObjectStore, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let runs = merged(ranges);
    let requests: Vec<Range<u64>> = runs.iter().cloned().flat_map(parts).collect();
    let asked: Vec<_> = requests.iter().map(|range| part(store, location, range.clone())).collect();
    let answers: Vec<Bytes> = futures::stream::iter(asked).buffered(IN_FLIGHT).try_collect().await?;
    let mut answers = requests.into_iter().zip(answers).peekable();
    let mut whole: Vec<(u64, Bytes)> = Vec::with_capacity(runs.len());
    for run in runs {
        let mut of_run = vec![];
        while let Some((_, bytes)) = answers.next_if(|(range, _)| range.end <= run.end) {
            of_run.push(bytes);
        }
        whole.push((run.start, if of_run.len() == 1 { of_run.remove(0) } else { of_run.concat().into() }));
    }
    let cut = |range: &Range<u64>| {
        let (start, bytes) = &whole[whole.partition_point(|(start, _)| *start <= range.start) - 1];
        bytes.slice((range.start - start) as usize..(range.end - start) as usize)
    };
    Ok(ranges.iter().map(cut).collect())
}

/// The bytes of one request.
async fn part(store: &dyn ObjectStore, location: &Path, range: Range<u64>) -> Result<Bytes> {
    if range.is_empty() {
        return Ok(Bytes::new());
    }
    let _room = REQUESTS.acquire().await.expect("it is never closed");
    let options = GetOptions { range: Some(range.into()), ..GetOptions::default() };
    store.get_opts(location, options).await?.bytes().await
}

/// Merges `ranges` that are near each other, in order.
fn merged(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = vec![];
    for range in sorted {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(GAP) => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// `range` in pieces of nearly equal size, each at most `PART` bytes.
fn parts(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let bytes = range.end - range.start;
    let count = bytes.div_ceil(PART).max(1);
    let size = bytes.div_ceil(count);
    (0..count).map(move |part| {
        let start = range.start + part * size;
        start..(start + size).min(range.end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;
    use proptest::prelude::*;

    #[test]
    fn neighbours_are_one_request_and_long_ranges_several() {
        assert_eq!(merged(&[900..1000, 0..100, 50..60]), vec![Range { start: 0, end: 1000 }]);
        assert_eq!(merged(&[0..100, 100 + GAP + 1..100 + GAP + 2]).len(), 2);
        let long: Vec<_> = parts(5..5 + 2 * PART + 1).collect();
        assert_eq!((long.len(), long[0].start, long[2].end), (3, 5, 5 + 2 * PART + 1));
        assert!(long.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(parts(7..7).eq(std::iter::once(7..7)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_ranges_give_their_bytes(starts in prop::collection::vec((0u64..1_000_000, 0u64..300_000), 0..12)) {
            let content: Vec<u8> = (0..1_000_000u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            let wanted: Vec<Range<u64>> =
                starts.into_iter().map(|(start, bytes)| start..(start + bytes).min(1_000_000)).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let found = runtime.block_on(async {
                let store = InMemory::new();
                store.put(&Path::from("x"), content.clone().into()).await.unwrap();
                ranges(&store, &Path::from("x"), &wanted).await.unwrap()
            });
            for (range, bytes) in wanted.iter().zip(found) {
                prop_assert_eq!(&bytes[..], &content[range.start as usize..range.end as usize]);
            }
        }
    }
}
