//! Context of a position: its partition, its group of peers, and frames, each computed on first use.

use warpmill_ir::{Frame, FrameBound, FrameUnits, Phys, Scalar, Unsupported};

use super::plan::distance;
use crate::compile::cpp::CType;
use crate::compile::generator::{Generator, Result};
use crate::compile::layout::{Accumulator, Way, Windowed};
use crate::compile::params::Binding;

/// Operands (`u64`) for the context of the thread's position; 0 without one.
pub(super) struct Places<'a> {
    window: &'a Windowed,
    /// Ordered row numbers, if rows are not stored in order.
    order: Option<String>,
    known: Vec<(Place, String)>,
    frames: Vec<(Frame, (String, String))>,
    /// Positions of the partition whose order key is not NULL.
    values: Option<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Partition,
    PartitionEnd,
    Group,
    FirstGroup,
    GroupsEnd,
}

/// Arrays with the numbers and starts of partitions or groups.
struct Numbers {
    of: String,
    starts: String,
}

impl<'a> Places<'a> {
    /// Without computed operands. `order`: ordered row numbers, if rows are not stored in order.
    pub fn new(window: &'a Windowed, order: Option<String>) -> Self {
        Self { window, order, known: vec![], frames: vec![], values: None }
    }

    /// A C++ expression for the row at a position.
    pub fn row(&self, position: &str) -> String {
        match &self.order {
            Some(order) => format!("{order}[{position}]"),
            None => format!("(u32)({position})"),
        }
    }

    fn numbers(&self, g: &mut Generator, what: &str) -> Numbers {
        Numbers { of: self.pointer(g, "u32", what), starts: self.pointer(g, "u32", &format!("{what}.starts")) }
    }

    /// The parameter for an array of the window, shared by all uses.
    fn pointer(&self, g: &mut Generator, element: &str, what: &str) -> String {
        let name = self.window.name(what);
        let is_it = |binding: &Binding| matches!(binding, Binding::Named(other) if *other == name);
        match g.params.members().iter().find(|member| is_it(&member.binding)) {
            Some(member) => format!("p.{}", member.name),
            None => g.params.pointer(element, "array", Binding::Named(name)),
        }
    }

    fn get(
        &mut self,
        g: &mut Generator,
        place: Place,
        text: impl FnOnce(&mut Self, &mut Generator) -> String,
    ) -> String {
        if let Some((_, known)) = self.known.iter().find(|(other, _)| *other == place) {
            return known.clone();
        }
        let text = text(self, g);
        let operand = g.code.define(CType::U64, "at", format!("present ? (u64)({text}) : 0ull"));
        self.known.push((place, operand.clone()));
        operand
    }

    /// First position of the partition.
    pub fn start(&mut self, g: &mut Generator) -> String {
        if !self.window.has_partitions {
            return "0ull".into();
        }
        self.get(g, Place::Partition, |places, g| {
            let Numbers { of, starts } = places.numbers(g, "partitions");
            format!("{starts}[{of}[row]]")
        })
    }

    /// End position of the partition (exclusive).
    pub fn end(&mut self, g: &mut Generator) -> String {
        if !self.window.has_partitions {
            return "rows".into();
        }
        self.get(g, Place::PartitionEnd, |places, g| {
            let Numbers { of, starts } = places.numbers(g, "partitions");
            format!("{starts}[{of}[row] + 1]")
        })
    }

    /// Number of the group of peers.
    pub fn group(&mut self, g: &mut Generator) -> String {
        self.get(g, Place::Group, |places, g| format!("{}[row]", places.numbers(g, "groups").of))
    }

    /// Number of the partition's first group.
    pub fn first_group(&mut self, g: &mut Generator) -> String {
        let start = self.start(g);
        self.get(g, Place::FirstGroup, |places, g| format!("{}[{start}]", places.numbers(g, "groups").of))
    }

    /// Number after the partition's last group.
    fn groups_end(&mut self, g: &mut Generator) -> String {
        let end = self.end(g);
        self.get(g, Place::GroupsEnd, |places, g| format!("{}[{end} - 1] + 1", places.numbers(g, "groups").of))
    }

    /// A C++ expression for the first position of a group.
    fn start_of(&mut self, g: &mut Generator, group: &str) -> String {
        let Numbers { starts, .. } = self.numbers(g, "groups");
        let text = format!("present ? (u64){starts}[{group}] : 0ull");
        g.code.define(CType::U64, "at", text)
    }

    /// First position of the group of peers.
    pub fn group_start(&mut self, g: &mut Generator) -> String {
        let group = self.group(g);
        self.start_of(g, &group)
    }

    /// End position of the group of peers (exclusive).
    pub fn group_end(&mut self, g: &mut Generator) -> String {
        let group = self.group(g);
        self.start_of(g, &format!("{group} + 1"))
    }

    /// Start and end (exclusive) positions of a frame; the end is not before the start.
    pub fn frame(&mut self, g: &mut Generator, frame: &Frame) -> Result<(String, String)> {
        if let Some((_, known)) = self.frames.iter().find(|(other, _)| other == frame) {
            return Ok(known.clone());
        }
        let start = self.bound(g, frame.units, &frame.start, false)?;
        let end = self.bound(g, frame.units, &frame.end, true)?;
        let start = g.code.define(CType::U64, "start", format!("present ? {start} : 0ull"));
        let end = g.code.define(CType::U64, "end", format!("present && ({end}) > {start} ? ({end}) : {start}"));
        self.frames.push((frame.clone(), (start.clone(), end.clone())));
        Ok((start, end))
    }

    /// A C++ expression for a bound of a frame; `after`: its exclusive end.
    fn bound(&mut self, g: &mut Generator, units: FrameUnits, bound: &FrameBound, after: bool) -> Result<String> {
        Ok(match (units, bound) {
            (_, FrameBound::UnboundedPreceding) => self.start(g),
            (_, FrameBound::UnboundedFollowing) => self.end(g),
            (FrameUnits::Rows, bound) => {
                let (first, end) = (self.start(g), self.end(g));
                counted(g, "row", (&first, &end), bound, after)
            }
            (_, FrameBound::CurrentRow) if after => self.group_end(g),
            (_, FrameBound::CurrentRow) => self.group_start(g),
            (FrameUnits::Range, FrameBound::Preceding(distance)) => self.value(g, distance, true, after)?,
            (FrameUnits::Range, FrameBound::Following(distance)) => self.value(g, distance, false, after)?,
            (FrameUnits::Groups, bound) => {
                let (group, first, end) = (self.group(g), self.first_group(g), self.groups_end(g));
                let text = counted(g, &group, (&first, &end), bound, after);
                self.start_of(g, &format!("present ? {text} : 0ull"))
            }
        })
    }

    /// A C++ expression for a bound at a distance from the key, `before` or after it: the first position whose key is not before the bound, or, if
    /// `after`, the position after the last key that is not after it.
    fn value(&mut self, g: &mut Generator, distance: &Scalar, before: bool, after: bool) -> Result<String> {
        let (operand, way) = self.window.search()?;
        let Way::Search { descending } = way else { return Err(Unsupported::new("window", "a frame of values")) };
        let number = self.window.series(operand, Accumulator::MaxWide, way)?;
        let codes = self.pointer(g, "u128", &format!("series{number}"));
        let (first, end) = self.values(g, operand)?;
        let ty = &self.window.operands[operand].expr.ty;
        // With a descending key, larger values come first.
        let less = before != descending;
        let own = g.code.fresh("own");
        g.code.line(format!("const u128 {own} = present ? {codes}[row] : (u128)0;"));
        let plain = if descending { format!("~{own}") } else { own };
        let target = match distance {
            Scalar::Int(distance) => {
                let distance = if less { distance.saturating_neg() } else { *distance };
                let distance = g.params.value(CType::I128, "distance", distance.to_le_bytes().to_vec());
                format!("order_bits_wide(saturated_sum(order_i128({plain}), {distance}))")
            }
            Scalar::Float(distance) => {
                let distance = if less { -distance } else { *distance };
                let key = format!("order_f64((u64){plain})");
                match ty.phys {
                    Phys::F32 => {
                        let distance = g.params.value(CType::F32, "distance", (distance as f32).to_le_bytes().to_vec());
                        format!("(u128)order_bits((float){key} + {distance})")
                    }
                    _ => {
                        let distance = g.params.value(CType::F64, "distance", distance.to_le_bytes().to_vec());
                        format!("(u128)order_bits({key} + {distance})")
                    }
                }
            }
            _ => return Err(Unsupported::new("window", "a frame at this distance")),
        };
        let target = if descending { format!("~({target})") } else { target };
        let found = format!("search_codes<{after}>({codes}, {first}, {end}, {target})");
        // A NULL is at no distance of other values, so its frame is its peers.
        let peers = if after { self.group_end(g) } else { self.group_start(g) };
        Ok(format!("(row >= {first} && row < {end} ? {found} : {peers})"))
    }

    /// The half-open range of the partition's positions with a non-NULL key; NULLs are all at one end.
    fn values(&mut self, g: &mut Generator, operand: usize) -> Result<(String, String)> {
        if let Some(known) = &self.values {
            return Ok(known.clone());
        }
        let (start, end) = (self.start(g), self.end(g));
        let values = if self.window.operands[operand].expr.ty.nullable {
            let number = self.window.series(operand, Accumulator::Count, Way::Differences)?;
            let counts = self.pointer(g, "u32", &format!("series{number}"));
            let totals = self.pointer(g, "u32", &format!("totals{number}"));
            let (first, behind) = (self.first_group(g), self.groups_end(g));
            let before = |at: String| format!("all_before<CountSum>({counts}, {totals}, {at})");
            let missing = |at: &str| format!("{} == {}", before(format!("{at} + 1")), before(at.to_string()));
            let second = self.start_of(g, &format!("{first} + 1"));
            let least = format!("present && {} ? {second} : {start}", missing(&start));
            let least = g.code.define(CType::U64, "first", least);
            let last = self.start_of(g, &format!("(present ? {behind} - 1 : 0)"));
            let most = format!("present && {least} < {end} && {} ? {last} : {end}", missing(&format!("({end} - 1)")));
            (least, g.code.define(CType::U64, "end", most))
        } else {
            (start, end)
        };
        self.values = Some(values.clone());
        Ok(values)
    }
}

/// A C++ expression for the position at a distance of `own`, clamped to `first` and `end`; `after`: the exclusive end.
fn counted(g: &mut Generator, own: &str, (first, end): (&str, &str), bound: &FrameBound, after: bool) -> String {
    let own_after = if after { format!("{own} + 1") } else { own.to_string() };
    let (rows, preceding) = match bound {
        FrameBound::Preceding(rows) => (distance(rows), true),
        FrameBound::Following(rows) => (distance(rows), false),
        _ => return own_after,
    };
    let n = g.params.value(CType::U64, "distance", rows.to_le_bytes().to_vec());
    match preceding {
        true => format!("({own_after} - {first} > {n} ? {own_after} - {n} : {first})"),
        false => format!("({end} - {own} > {n} ? {own_after} + {n} : {end})"),
    }
}
