//! Cache-aware replication: which segments to copy to one device, and which to all of them (Yogatama, thesis section 5.2.2).
//!
//! Each segment has two weights, both in seconds: the time that a copy on one device saves queries, and the further time that copies on all devices
//! save, because nothing has to be sent between devices. Both compete for the same memory. Weights are compared per byte of the memory required; the
//! thesis assumes segments of one size.

/// The policy for assigning device memory to segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Replication {
    /// By both weights (Algorithm 4).
    #[default]
    CacheAware,
    /// Segments that all devices need are on all of them, or on none.
    Always,
    /// Every segment is on one device, or on none.
    Never,
}

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExchangeRates {
    /// From a device to another.
    pub link: f64,
    /// Bytes per second that a device reads and writes in its memory.
    pub memory: f64,
}

/// Seconds to send `bytes` bytes from a device to each of the others, among `devices` devices.
pub fn broadcast_seconds(bytes: u64, devices: usize, rates: &ExchangeRates) -> f64 {
    devices.saturating_sub(1) as f64 * bytes as f64 / rates.link
}

/// Seconds of a shuffle: `bytes[s][d]` are sent from device `s` to device `d`. All devices read and write each byte once for the partitioning, at the
/// same time; data that stay on a device are not sent.
pub fn shuffle_seconds(bytes: &[Vec<u64>], rates: &ExchangeRates) -> f64 {
    let most = bytes.iter().map(|row| row.iter().sum::<u64>()).max().unwrap_or(0);
    let sent = |(source, row): (usize, &Vec<u64>)| {
        row.iter().enumerate().filter(|(to, _)| *to != source).map(|(_, bytes)| bytes).sum::<u64>()
    };
    let sent: u64 = bytes.iter().enumerate().map(sent).sum();
    2.0 * most as f64 / rates.memory + sent as f64 / rates.link
}

/// Distributes the time of an exchange over the replication weights of its segments, given by number and bytes (Algorithm 3), in proportion to their
/// bytes.
pub fn add_exchange(weights: &mut [f64], exchanged: &[(usize, u64)], seconds: f64) {
    let all: u64 = exchanged.iter().map(|(_, bytes)| bytes).sum();
    for &(segment, bytes) in exchanged.iter().filter(|_| all > 0) {
        weights[segment] += seconds * bytes as f64 / all as f64;
    }
}

/// A segment that devices could have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Bytes of a copy.
    pub bytes: u64,
    /// Seconds that a copy on one device saves.
    pub caching: f64,
    /// Seconds that copies on all devices save in addition.
    pub replication: f64,
    /// The device that has a copy, if any.
    pub owner: usize,
    /// Whether all devices need it, not only its owner.
    pub shared: bool,
}

/// A use of room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// A copy on one device.
    Cache,
    /// Copies on all devices.
    Replicate,
}

/// The devices for each of `segments`, in ascending order; each device has `room` bytes (Algorithm 4, repeated until no room is left).
///
/// Segments are ordered by savings per byte; for equal ones, caching comes before replication, then the order of `segments`. A shared segment whose
/// owner is full is placed on the device with the most room.
pub fn place_segments(segments: &[Segment], room: &[u64], replication: Replication) -> Vec<Vec<usize>> {
    let mut offers = vec![];
    for (index, segment) in segments.iter().enumerate() {
        let per_byte = |seconds: f64, copies: usize| seconds / (segment.bytes.max(1) as f64 * copies.max(1) as f64);
        match (segment.shared, replication) {
            (true, Replication::Always) => {
                let all = per_byte(segment.caching + segment.replication, room.len());
                offers.push((all, index, Use::Replicate));
            }
            (true, Replication::CacheAware) if room.len() > 1 => {
                offers.push((per_byte(segment.caching, 1), index, Use::Cache));
                offers.push((per_byte(segment.replication, room.len() - 1), index, Use::Replicate));
            }
            _ => offers.push((per_byte(segment.caching, 1), index, Use::Cache)),
        }
    }
    // A copy that saves nothing takes no room.
    offers.retain(|(rank, ..)| *rank > 0.0);
    offers.sort_by(|(a, _, one), (b, _, other)| {
        b.total_cmp(a).then((*one == Use::Replicate).cmp(&(*other == Use::Replicate)))
    });
    let mut left = room.to_vec();
    let mut placed = vec![vec![]; segments.len()];
    for (_, index, wanted) in offers {
        let (segment, devices) = (&segments[index], &mut placed[index]);
        let new: Vec<usize> = match wanted {
            Use::Replicate => (0..room.len()).filter(|device| !devices.contains(device)).collect(),
            Use::Cache if !devices.is_empty() => vec![],
            Use::Cache => cached(segment, &left),
        };
        if new.iter().all(|&device| left[device] >= segment.bytes) {
            new.iter().for_each(|&device| left[device] -= segment.bytes);
            devices.extend(new);
            devices.sort_unstable();
        }
    }
    placed
}

/// The device for a copy of `segment`, with `left` bytes of room on each.
fn cached(segment: &Segment, left: &[u64]) -> Vec<usize> {
    let owner = segment.owner % left.len().max(1);
    let has_room = |device: usize| left.get(device).is_some_and(|&room| room >= segment.bytes);
    match segment.shared && !has_room(owner) {
        true => (0..left.len()).rev().max_by_key(|&device| left[device]).into_iter().collect(),
        false => left.get(owner).map(|_| owner).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Piece, distribute};

    const RATES: ExchangeRates = ExchangeRates { link: 100.0, memory: 1000.0 };

    fn segment(bytes: u64, caching: f64, replication: f64, owner: usize, shared: bool) -> Segment {
        Segment { bytes, caching, replication, owner, shared }
    }

    #[test]
    fn costs_are_bytes_by_bandwidths() {
        assert_eq!(broadcast_seconds(200, 4, &RATES), 6.0);
        assert_eq!((broadcast_seconds(200, 1, &RATES), broadcast_seconds(0, 4, &RATES)), (0.0, 0.0));
        // 500 and 100 bytes are partitioned; 300 and 0 are sent.
        assert_eq!(shuffle_seconds(&[vec![200, 300], vec![0, 100]], &RATES), 1.0 + 3.0);
        assert_eq!(shuffle_seconds(&[], &RATES), 0.0);
    }

    #[test]
    fn what_an_exchange_takes_is_divided_by_bytes() {
        let mut weights = [0.0, 1.0, 0.0];
        add_exchange(&mut weights, &[(0, 10), (1, 30)], 8.0);
        assert_eq!(weights, [2.0, 7.0, 0.0]);
        add_exchange(&mut weights, &[(2, 0)], 8.0);
        add_exchange(&mut weights, &[], 8.0);
        assert_eq!(weights, [2.0, 7.0, 0.0]);
    }

    /// Two devices with room for five segments each; R has columns X and Y, S has Z (thesis, figure 5.2).
    #[test]
    fn what_is_shuffled_takes_the_room_of_what_is_only_summed() {
        let column = |caching: f64, replication: f64, shared: bool| {
            (0..4).map(move |number| segment(1, caching, replication, number % 2, shared))
        };
        let (x, y, z) = (column(1.0, 0.0, false), column(5.0, 0.0, false), column(4.0, 2.0, true));
        let all: Vec<Segment> = x.chain(y).chain(z).collect();
        let count = |replication| {
            let placed = place_segments(&all, &[5, 5], replication);
            [0, 4, 8].map(|first| placed[first..first + 4].iter().map(Vec::len).collect::<Vec<_>>())
        };
        assert_eq!(count(Replication::CacheAware), [vec![0; 4], vec![1; 4], vec![2, 2, 1, 1]]);
        assert_eq!(count(Replication::Never), [vec![1, 1, 0, 0], vec![1; 4], vec![1; 4]]);
        assert_eq!(count(Replication::Always), [vec![0; 4], vec![1; 4], vec![2, 2, 2, 0]]);
        // Without exchange weights, X takes the room.
        let plain: Vec<Segment> = all.iter().map(|it| Segment { replication: 0.5, ..*it }).collect();
        let placed = place_segments(&plain, &[6, 6], Replication::CacheAware);
        assert!(placed.iter().all(|devices| devices.len() == 1), "{placed:?}");
        // Room for all.
        let placed = place_segments(&all, &[20, 20], Replication::CacheAware);
        assert!(placed.iter().zip(&all).all(|(devices, it)| devices.len() == if it.shared { 2 } else { 1 }));
    }

    fn any_segment() -> impl Strategy<Value = Segment> {
        (0u64..20, 0u32..6, 0u32..6, 0usize..6, any::<bool>()).prop_map(
            |(bytes, caching, replication, owner, shared)| {
                segment(bytes, caching.into(), replication.into(), owner, shared)
            },
        )
    }

    fn any_policy() -> impl Strategy<Value = Replication> {
        prop::sample::select(vec![Replication::CacheAware, Replication::Always, Replication::Never])
    }

    proptest! {
        #[test]
        fn no_device_has_more_than_its_room(
            segments in prop::collection::vec(any_segment(), 0..40),
            room in prop::collection::vec(0u64..150, 1..6),
            policy in any_policy(),
        ) {
            let placed = place_segments(&segments, &room, policy);
            prop_assert_eq!(placed.len(), segments.len());
            let mut used = vec![0; room.len()];
            for (segment, devices) in segments.iter().zip(&placed) {
                prop_assert!(devices.is_sorted_by(|a, b| a < b));
                devices.iter().for_each(|&device| used[device] += segment.bytes);
                match (segment.shared, policy) {
                    (false, _) => prop_assert!(devices.is_empty() || *devices == [segment.owner % room.len()]),
                    (true, Replication::Never) => prop_assert!(devices.len() <= 1),
                    (true, Replication::Always) => prop_assert!(devices.is_empty() || devices.len() == room.len()),
                    (true, Replication::CacheAware) => {
                        prop_assert!(devices.len() <= 1 || devices.len() == room.len());
                    }
                }
            }
            prop_assert!(used.iter().zip(&room).all(|(used, room)| used <= room));
            prop_assert_eq!(place_segments(&segments, &room, policy), placed);
        }

        #[test]
        fn with_room_for_all_nothing_travels_twice(
            segments in prop::collection::vec(any_segment(), 0..40),
            devices in 1usize..6,
        ) {
            let room = vec![u64::MAX; devices];
            let placed = place_segments(&segments, &room, Replication::CacheAware);
            for (segment, on) in segments.iter().zip(&placed) {
                let saves = segment.caching > 0.0 || (segment.shared && segment.replication > 0.0 && devices > 1);
                let all = segment.shared && segment.replication > 0.0;
                prop_assert_eq!(on.len(), if !saves { 0 } else if all { devices } else { 1 });
            }
        }

        /// The bytes that a query of all segments sends under each policy: nothing for segments on all devices; for a segment on one device, each
        /// byte once to each other device.
        #[test]
        fn traffic_follows_from_the_placement(
            segments in prop::collection::vec(any_segment(), 0..20),
            room in prop::collection::vec(0u64..150, 1..5),
            policy in any_policy(),
        ) {
            let devices = room.len();
            let placed = place_segments(&segments, &room, policy);
            let shared = segments.iter().zip(&placed).filter(|(segment, _)| segment.shared);
            let pieces: Vec<Piece> = shared.clone().map(|(segment, on)| {
                let lacking = (0..devices).filter(|device| !on.contains(device)).collect();
                Piece { bytes: segment.bytes, lacking, holders: on.clone() }
            }).collect();
            let made = distribute(&pieces, devices, &|_, _| true);
            let expected = shared.map(|(segment, on)| if on.len() == devices { 0 } else { (devices - 1) as u64 * segment.bytes });
            prop_assert_eq!(made.traffic.iter().flatten().sum::<u64>(), expected.sum::<u64>());
            if policy == Replication::Always {
                let whole: u64 = pieces.iter().filter(|piece| !piece.holders.is_empty()).map(|piece| piece.bytes * piece.lacking.len() as u64).sum();
                prop_assert_eq!(whole, 0);
            }
        }
    }
}
