//! The end of a program whose rows are sent to other devices.

use std::sync::Arc;

use warpmill_ir::{Route, Sink, Unsupported};

use super::results::HostPlaces;
use super::state::Run;
use crate::compile::plan::{ResultRows, Stage};
use crate::compile::replay::Places;
use crate::memory::error::Result;
use crate::run::options::{DeviceOutput, Outcome, ShuffleEnd};
use crate::run::scatter::{Rows, row_arrays, tables_bytes};
use crate::run::shuffle::{Lent, Sent, Texts};

impl Run<'_> {
    /// Divides the rows of the result, lets other devices copy theirs, and returns the output of the program that continues with the received rows.
    pub(super) fn shuffle(
        mut self,
        end: &ShuffleEnd,
        words: &[u64],
        (places, host): (&Places, &HostPlaces),
    ) -> Result<Outcome> {
        let mut sent = self.divide(end, words, places)?;
        if self.prepared.memory.results.iter().any(ResultRows::has_strings) {
            self.fetch_text(words, places, host)?;
            self.mirrors.sort();
            let (own, resident) = (std::mem::take(&mut self.mirrors), self.resident.clone());
            sent.texts = Some(Arc::new(Texts { own, resident }));
        }
        // From here on other devices copy from this run's memory.
        let lent = Lent(&end.part);
        end.part.send(sent);
        let output = end.part.receive(&self.options.cancel).and_then(|received| (end.go_on)(received));
        drop(lent);
        let output = output?;
        let own = self.started.elapsed().as_nanos() as u64;
        self.profile.device_nanos = own.saturating_sub(output.profile.device_nanos);
        self.profile.processing_bytes = self.lane.region.used() + output.profile.processing_bytes;
        self.profile.add(output.profile);
        Ok(Outcome::Done(Box::new(DeviceOutput { profile: self.profile, ..output })))
    }

    fn divide(&mut self, end: &ShuffleEnd, words: &[u64], places: &Places) -> Result<Sent> {
        let refusal = |reason| Unsupported::new("a shuffle of rows between devices", reason);
        let [result] = &self.prepared.memory.results[..] else { return Err(refusal("rows of several results").into()) };
        if result.has_strings() && !end.part.is_direct() {
            return Err(refusal("strings that others cannot read: links between devices are not direct").into());
        }
        if !self.flushed.is_empty() {
            return Err(refusal("more rows than the device holds").into());
        }
        let (count, input) = (self.state(words, result.sink, result.stage).count, self.input_rows(words));
        let mut arrays = row_arrays(result, &places.buffers, end.part.route());
        if *end.part.route() == Route::First {
            let starts = [0].into_iter().chain(std::iter::repeat_n(count, end.part.parts())).collect();
            let arrays = arrays.iter().map(|array| (array.from, array.width)).collect();
            return Ok(Sent { arrays, starts, input, texts: None });
        }
        for array in &mut arrays {
            array.to = self.lane.region.allocate(array.width * count)?;
        }
        let tables = self.lane.region.allocate(tables_bytes(arrays.len()))?;
        let scatter = self.shared.scatter()?;
        let rows = Rows { arrays: &arrays, count, parts: end.part.parts(), route: end.part.route() };
        // SAFETY: the buffers of the result have room for their capacity, of which `count` is at most; all else was just allocated.
        let starts = unsafe { scatter.divide(rows, tables, self.lane.stream)? };
        Ok(Sent { arrays: arrays.iter().map(|array| (array.to, array.width)).collect(), starts, input, texts: None })
    }

    /// Number of input rows of the last aggregation.
    fn input_rows(&self, words: &[u64]) -> u64 {
        let last = self.program.sinks.iter().rposition(|sink| matches!(sink, Sink::Aggregate { .. }));
        last.map_or(0, |id| self.state(words, id, Stage::Own).input)
    }
}
