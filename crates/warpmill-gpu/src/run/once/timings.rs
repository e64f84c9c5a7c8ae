//! Timings of launches.

use crate::device::{Device, Event, Stream};
use crate::memory::error::Result;

/// The timed launches of a run. Drop frees their events.
pub(super) struct Timings<'a> {
    device: &'a dyn Device,
    launches: Vec<Timed>,
}

/// A timed launch.
struct Timed {
    /// The index of its kernel in the profile.
    kernel: usize,
    start: Event,
    /// `None` if the launch failed.
    end: Option<Event>,
}

impl<'a> Timings<'a> {
    /// No timings yet, for launches on `device`.
    pub fn new(device: &'a dyn Device) -> Self {
        Self { device, launches: vec![] }
    }

    /// Times the work that `launch` queues on `stream`, for kernel `kernel` of the profile.
    ///
    /// # Errors
    /// The device's, and those of `launch`.
    pub fn time(&mut self, kernel: usize, stream: Stream, launch: impl FnOnce() -> Result<()>) -> Result<()> {
        self.launches.push(Timed { kernel, start: self.device.record(stream)?, end: None });
        launch()?;
        let end = self.device.record(stream)?;
        if let Some(last) = self.launches.last_mut() {
            last.end = Some(end);
        }
        Ok(())
    }

    /// Whether nothing was timed.
    pub fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }

    /// The kernel and the milliseconds of each launch. All launches are done.
    ///
    /// # Errors
    /// The device's.
    pub fn read(&self) -> Result<Vec<(usize, f32)>> {
        let ended = self.launches.iter().filter_map(|launch| Some((launch.kernel, launch.start, launch.end?)));
        ended.map(|(kernel, start, end)| Ok((kernel, self.device.elapsed_ms(start, end)?))).collect()
    }
}

impl Drop for Timings<'_> {
    fn drop(&mut self) {
        let events = self.launches.iter().flat_map(|launch| [Some(launch.start), launch.end]);
        events.flatten().for_each(|event| self.device.destroy_event(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::{SimDevice, SimOptions};
    use crate::memory::error::Failure;

    #[test]
    fn events_are_given_back_whatever_happens() {
        let device = SimDevice::new(SimOptions::default()).expect("a C++ compiler");
        let stream = device.stream().unwrap();
        let mut timings = Timings::new(&device);
        timings.time(3, stream, || Ok(())).unwrap();
        assert!(timings.time(4, stream, || Err(Failure::Unforeseen)).is_err());
        timings.time(3, stream, || Ok(())).unwrap();
        device.synchronize(stream).unwrap();
        let read = timings.read().unwrap();
        assert_eq!(read.iter().map(|(kernel, _)| *kernel).collect::<Vec<_>>(), [3, 3], "what failed took no time");
        let starts: Vec<Event> = timings.launches.iter().map(|launch| launch.start).collect();
        assert_eq!(starts.len(), 3);
        drop(timings);
        assert!(starts.iter().all(|&start| device.elapsed_ms(start, start).is_err()));
    }
}
