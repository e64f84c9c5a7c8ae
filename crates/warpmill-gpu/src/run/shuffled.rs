//! Two-step programs, between which devices send rows to each other.

use std::sync::Arc;

use warpmill_ir::Program;

use super::executor::Executor;
use super::options::{DeviceOutput, Options, ShuffleEnd};
use super::shuffle::ShufflePart;
use crate::memory::error::Result;

/// A guard that leaves the shuffle on drop.
struct Leaving<'a>(&'a ShufflePart);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Executor {
    /// Runs the first of two programs, sends its rows to the devices of their parts, and runs the second one with the received rows as input 0. If
    /// all rows go to one device, the others return no rows of the second program.
    ///
    /// # Errors
    /// As for [`Executor::execute`]; strings over links that are not direct; the failure of another device in the shuffle.
    pub fn execute_shuffled(
        self: &Arc<Self>,
        (first, second): (&Arc<Program>, &Arc<Program>),
        part: &ShufflePart,
        options: &Options,
    ) -> Result<DeviceOutput> {
        let _leaving = Leaving(part);
        let own = Options { peers: None, reads: None, nested: true, ..options.clone() };
        let goes_on = part.goes_on();
        if goes_on {
            self.compile_ahead(second, &own);
        }
        let (executor, second) = (self.clone(), second.clone());
        let go_on = Arc::new(move |received| match goes_on {
            true => executor.execute_received(&second, &received, &own),
            false => Ok(DeviceOutput::without_rows(&second)),
        });
        let shuffle = Some(ShuffleEnd { part: part.clone(), go_on });
        self.execute(first, &[], &Options { shuffle, ..options.clone() })
    }
}
