//! Choice of the device that loads a piece of data from the host, and of the devices that copy it from there (Yogatama, thesis section 5.3.1.1: data
//! needed by all GPUs are sent to one, which broadcasts them).

/// Data that some devices of a group lack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Size in bytes.
    pub bytes: u64,
    /// The devices that lack it, in ascending order.
    pub lacking: Vec<usize>,
    /// The devices that have it.
    pub holders: Vec<usize>,
}

/// The source of a piece for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The host.
    Host,
    /// A device that has it, or has loaded it from the host.
    Peer(usize),
}

/// The origin of each piece, and the traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// Per piece: the origin for each device that lacks it, in the order of [`Piece::lacking`].
    pub origins: Vec<Vec<Origin>>,
    /// Bytes sent between devices, by source and destination.
    pub traffic: Vec<Vec<u64>>,
    /// Bytes that each device loads from the host.
    pub host: Vec<u64>,
}

/// Distributes `pieces` among `devices` devices over the links for which `is_direct` returns true (source, destination).
///
/// If only one device lacks a piece, or no device that has it is reachable, it comes from the host. If several lack it, the one with the least load
/// so far loads it and sends it to the others. If several devices have a piece, the one that sends least so far sends it.
pub fn distribute(pieces: &[Piece], devices: usize, is_direct: &dyn Fn(usize, usize) -> bool) -> Distribution {
    let mut made = Distribution {
        origins: pieces.iter().map(|piece| vec![Origin::Host; piece.lacking.len()]).collect(),
        traffic: vec![vec![0; devices]; devices],
        host: vec![0; devices],
    };
    // Shared pieces are loaded by devices that load little else.
    let mut shared = vec![];
    for (index, piece) in pieces.iter().enumerate() {
        let left = made.send_held((index, piece), is_direct);
        match left[..] {
            [] => {}
            [position] => made.load((index, piece), position),
            _ => shared.push((index, left)),
        }
    }
    for (index, mut left) in shared {
        // Repeats for devices that the first one does not reach.
        while !left.is_empty() {
            let piece = &pieces[index];
            let loaded = |position: &&usize| made.host[piece.lacking[**position]];
            let Some(&loader) = left.iter().min_by_key(loaded) else { break };
            made.load((index, piece), loader);
            let source = piece.lacking[loader];
            left.retain(|&position| {
                let gets = position != loader && is_direct(source, piece.lacking[position]);
                if gets {
                    made.send((index, piece), source, position);
                }
                !gets && position != loader
            });
        }
    }
    made
}

impl Distribution {
    /// Sends a piece from devices that have it. Returns the positions in [`Piece::lacking`] of the devices that remain.
    fn send_held(&mut self, (index, piece): (usize, &Piece), is_direct: &dyn Fn(usize, usize) -> bool) -> Vec<usize> {
        let mut left = vec![];
        for (position, &destination) in piece.lacking.iter().enumerate() {
            let sent = |source: &usize| self.traffic[*source].iter().sum::<u64>();
            let reached = piece.holders.iter().copied().filter(|&source| is_direct(source, destination));
            match reached.min_by_key(sent) {
                Some(source) => self.send((index, piece), source, position),
                None => left.push(position),
            }
        }
        left
    }

    fn load(&mut self, (index, piece): (usize, &Piece), position: usize) {
        self.origins[index][position] = Origin::Host;
        self.host[piece.lacking[position]] += piece.bytes;
    }

    fn send(&mut self, (index, piece): (usize, &Piece), source: usize, position: usize) {
        self.origins[index][position] = Origin::Peer(source);
        self.traffic[source][piece.lacking[position]] += piece.bytes;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(bytes: u64, lacking: &[usize], holders: &[usize]) -> Piece {
        Piece { bytes, lacking: lacking.to_vec(), holders: holders.to_vec() }
    }

    #[test]
    fn what_all_lack_is_loaded_once_and_broadcast() {
        let pieces = [piece(10, &[0, 1, 2], &[]), piece(30, &[0, 1, 2], &[]), piece(7, &[1], &[])];
        let made = distribute(&pieces, 3, &|_, _| true);
        // Device 1 has to load its own piece.
        assert_eq!(made.host, [10, 7, 30]);
        assert_eq!(made.origins[0], [Origin::Host, Origin::Peer(0), Origin::Peer(0)]);
        assert_eq!(made.origins[1], [Origin::Peer(2), Origin::Peer(2), Origin::Host]);
        assert_eq!(made.traffic, [vec![0, 10, 10], vec![0, 0, 0], vec![30, 30, 0]]);
    }

    #[test]
    fn what_is_there_is_not_read_again() {
        let made = distribute(&[piece(5, &[1, 2], &[0]), piece(6, &[2], &[0, 1])], 3, &|_, _| true);
        assert_eq!((made.host, made.traffic), (vec![0; 3], vec![vec![0, 5, 5], vec![0, 0, 6], vec![0; 3]]));
    }

    #[test]
    fn without_links_everybody_reads_the_host() {
        let pieces = [piece(5, &[0, 1, 2], &[]), piece(6, &[2], &[0, 1])];
        let made = distribute(&pieces, 3, &|_, _| false);
        assert_eq!((made.host, made.traffic), (vec![5, 5, 11], vec![vec![0; 3]; 3]));
        // Two pairs of neighbours.
        let pairs = |a: usize, b: usize| a / 2 == b / 2;
        let made = distribute(&[piece(8, &[0, 1, 2, 3], &[])], 4, &pairs);
        assert_eq!(made.origins[0], [Origin::Host, Origin::Peer(0), Origin::Host, Origin::Peer(2)]);
    }

    prop_compose! {
        fn any_piece(devices: usize)(bytes in 0u64..1000, has in prop::collection::vec(0u8..3, devices)) -> Piece {
            let those = |kind| (0..devices).filter(|&device| has[device] == kind).collect::<Vec<_>>();
            Piece { bytes, lacking: those(1), holders: those(2) }
        }
    }

    fn any_case() -> impl Strategy<Value = (usize, Vec<Piece>, Vec<bool>)> {
        (1usize..6).prop_flat_map(|devices| {
            let pieces = prop::collection::vec(any_piece(devices), 0..12);
            (Just(devices), pieces, prop::collection::vec(prop::bool::weighted(0.7), devices * devices))
        })
    }

    proptest! {
        #[test]
        fn everybody_gets_all_over_links_that_there_are((devices, pieces, links) in any_case()) {
            let is_direct = |source: usize, destination: usize| links[source * devices + destination];
            let made = distribute(&pieces, devices, &is_direct);
            let (mut traffic, mut host) = (vec![vec![0; devices]; devices], vec![0; devices]);
            for (piece, origins) in pieces.iter().zip(&made.origins) {
                prop_assert_eq!(origins.len(), piece.lacking.len());
                let loads = |device: usize| {
                    piece.lacking.iter().zip(origins).any(|(&it, &from)| it == device && from == Origin::Host)
                };
                for (&destination, &from) in piece.lacking.iter().zip(origins) {
                    match from {
                        Origin::Host => host[destination] += piece.bytes,
                        Origin::Peer(source) => {
                            prop_assert!(source != destination && is_direct(source, destination));
                            prop_assert!(piece.holders.contains(&source) || loads(source));
                            traffic[source][destination] += piece.bytes;
                        }
                    }
                }
            }
            prop_assert_eq!((traffic, host), (made.traffic.clone(), made.host.clone()));
            prop_assert_eq!(distribute(&pieces, devices, &is_direct), made);
        }

        #[test]
        fn over_direct_links_the_host_sends_each_byte_once((devices, pieces, _) in any_case()) {
            let made = distribute(&pieces, devices, &|_, _| true);
            let once = pieces.iter().filter(|piece| piece.holders.is_empty() && !piece.lacking.is_empty());
            prop_assert_eq!(made.host.iter().sum::<u64>(), once.map(|piece| piece.bytes).sum::<u64>());
            let all: u64 = pieces.iter().map(|piece| piece.bytes * piece.lacking.len() as u64).sum();
            let moved: u64 = made.host.iter().chain(made.traffic.iter().flatten()).sum();
            prop_assert_eq!(moved, all);
        }
    }
}
