//! Data exchange between devices of one process: broadcast, gather and all-to-all, each expressed as a list of moves.

use super::{DeviceError, DevicePtr, Result, Stream};

/// An address in the memory of a device of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The device's number in the group.
    pub device: usize,
    /// The address.
    pub at: DevicePtr,
}

/// A copy of bytes from one place to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The source.
    pub from: Place,
    /// The destination; it does not overlap the source.
    pub to: Place,
    /// Number of bytes.
    pub bytes: u64,
}

/// Bytes transferred, by source and destination.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
#[serde(transparent)]
pub struct Traffic(Vec<Vec<u64>>);

impl Traffic {
    /// No traffic, among `devices` devices.
    pub fn new(devices: usize) -> Self {
        Self(vec![vec![0; devices]; devices])
    }

    /// The traffic of `moves`, without those within a device.
    pub fn of(devices: usize, moves: &[Move]) -> Self {
        let mut traffic = Self::new(devices);
        for Move { from, to, bytes } in moves.iter().filter(|it| it.from.device != it.to.device) {
            traffic.add(from.device, to.device, *bytes);
        }
        traffic
    }

    /// Adds bytes from a source to a destination.
    pub fn add(&mut self, source: usize, destination: usize, bytes: u64) {
        self.0[source][destination] += bytes;
    }

    /// Adds other traffic.
    pub fn add_all(&mut self, other: &Self) {
        let devices = self.0.len().max(other.0.len());
        self.0.resize(devices, vec![]);
        self.0.iter_mut().for_each(|row| row.resize(devices, 0));
        for (source, row) in other.0.iter().enumerate() {
            row.iter().enumerate().for_each(|(destination, &bytes)| self.add(source, destination, bytes));
        }
    }

    /// The bytes by source, then destination.
    pub fn rows(&self) -> &[Vec<u64>] {
        &self.0
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        self.0.iter().flatten().sum()
    }
}

/// Exchange of data between devices of a group, numbered from 0, each with a stream in `streams`.
pub trait Exchange {
    /// The number of devices.
    fn devices(&self) -> usize;

    /// Queues `moves`, after earlier work on the sources' streams, and before later work on the streams of sources and destinations.
    ///
    /// # Errors
    /// A device outside the group; the devices' errors. The contents of destinations are then unspecified.
    ///
    /// # Safety
    /// All ranges are allocated on their devices until the destinations' streams are synchronized, and no destination overlaps another or a source:
    /// moves run concurrently, in any order.
    unsafe fn carry_out(&self, moves: &[Move], streams: &[Stream]) -> Result<()>;

    /// Copies `bytes` bytes at `from` to each of `to`.
    ///
    /// # Errors
    /// As [`Exchange::carry_out`].
    ///
    /// # Safety
    /// As [`Exchange::carry_out`].
    unsafe fn broadcast(&self, from: Place, bytes: u64, to: &[Place], streams: &[Stream]) -> Result<()> {
        // SAFETY: the caller's contract.
        unsafe { self.carry_out(&broadcast(from, bytes, to), streams) }
    }

    /// Concatenates pieces in order at `to`; returns the total number of bytes.
    ///
    /// # Errors
    /// As [`Exchange::carry_out`].
    ///
    /// # Safety
    /// As for [`Exchange::carry_out`], with room for all pieces at `to`.
    unsafe fn gather(&self, pieces: &[(Place, u64)], to: Place, streams: &[Stream]) -> Result<u64> {
        // SAFETY: the caller's contract.
        unsafe { self.carry_out(&gather(pieces, to), streams)? };
        Ok(pieces.iter().map(|(_, bytes)| bytes).sum())
    }

    /// Sends `bytes[s][d]` bytes from device `s` to device `d`. Device `s` has its parts at `send[s]`, concatenated by destination; device `d`
    /// receives at `receive[d]`, concatenated by source.
    ///
    /// # Errors
    /// Tables for another number of devices; as for [`Exchange::carry_out`].
    ///
    /// # Safety
    /// As for [`Exchange::carry_out`], for the sums of the rows and columns of `bytes`.
    unsafe fn all_to_all(
        &self,
        bytes: &[Vec<u64>],
        (send, receive): (&[DevicePtr], &[DevicePtr]),
        streams: &[Stream],
    ) -> Result<()> {
        let devices = self.devices();
        let is_square = bytes.len() == devices && bytes.iter().all(|row| row.len() == devices);
        if !is_square || send.len() != devices || receive.len() != devices {
            return Err(refused(format!("an exchange among {devices} devices has other tables")));
        }
        // SAFETY: the caller's contract.
        unsafe { self.carry_out(&all_to_all(bytes, send, receive), streams) }
    }
}

/// The error of an invalid exchange.
pub(super) fn refused(detail: String) -> DeviceError {
    DeviceError::Call { call: "exchange", detail }
}

/// The moves of [`Exchange::broadcast`].
pub fn broadcast(from: Place, bytes: u64, to: &[Place]) -> Vec<Move> {
    to.iter().filter(|to| **to != from).map(|&to| Move { from, to, bytes }).collect()
}

/// The moves of [`Exchange::gather`].
pub fn gather(pieces: &[(Place, u64)], to: Place) -> Vec<Move> {
    let mut at = to.at;
    let next = |&(from, bytes): &(Place, u64)| {
        let moved = Move { from, to: Place { at, ..to }, bytes };
        at += bytes;
        moved
    };
    pieces.iter().map(next).collect()
}

/// The moves of [`Exchange::all_to_all`].
pub fn all_to_all(bytes: &[Vec<u64>], send: &[DevicePtr], receive: &[DevicePtr]) -> Vec<Move> {
    let mut ends = receive.to_vec();
    let mut moves = vec![];
    for (source, row) in bytes.iter().enumerate() {
        let mut from = send[source];
        for (destination, &bytes) in row.iter().enumerate() {
            let to = Place { device: destination, at: ends[destination] };
            moves.push(Move { from: Place { device: source, at: from }, to, bytes });
            from += bytes;
            ends[destination] += bytes;
        }
    }
    moves
}
