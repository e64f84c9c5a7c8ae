//! The parameter of a kernel: a struct of literals, addresses and tables, filled before each launch.

use std::collections::BTreeSet;
use std::sync::Arc;

use warpmill_format::Dictionary;

use super::cpp::CType;
use crate::kernels::library::Library;

/// The source of a parameter's value at launch.
#[derive(Debug, Clone)]
pub enum Binding {
    /// These bytes (a literal, a bound): little-endian, of the C++ type.
    Bytes(Vec<u8>),
    /// The address of these bytes in device memory, 16-byte aligned, uploaded once per query (a lookup table, an IN list).
    Data(Arc<[u8]>),
    /// The address of an array of `Str`, uploaded once per query with the strings' bytes.
    Strings(Arc<Vec<String>>),
    /// The address of an array of `Str` with the strings of a dictionary, by code.
    Dictionary(Arc<Dictionary>),
    /// A `Str` by value, whose text is in device memory.
    Text(Arc<str>),
    /// The address of the query's `QueryState` (errors, string arena; kernels/value.cuh).
    State,
    /// A named value of the executor: segments, sinks, tables.
    Named(String),
    /// A constant of a test of packed values: statements that differ in it share kernels.
    Test {
        /// The pipeline of the scan.
        pipeline: usize,
        /// The position of the test among those of the scan.
        number: usize,
        /// The constant.
        part: TestPart,
    },
}

/// A constant of a test of packed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestPart {
    /// The least value of a range.
    Least,
    /// The greatest value of a range.
    Greatest,
    /// The address of a code set: words of 32 bits.
    Set,
    /// Number of codes that the set has bits for.
    Codes,
}

/// A member of the parameter struct.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its C++ type.
    pub ty: String,
    /// Bytes.
    pub size: usize,
    /// Its alignment.
    pub align: usize,
    /// Source of its value.
    pub binding: Binding,
}

/// The members of a kernel's parameter struct, in order, and the libraries that the kernel needs.
#[derive(Debug, Default)]
pub struct Params {
    members: Vec<Member>,
    libraries: BTreeSet<Library>,
}

impl Params {
    /// Adds a member of a plain type; returns the operand that reads it (`p.name`).
    pub fn value(&mut self, ty: CType, prefix: &str, bytes: Vec<u8>) -> String {
        debug_assert_eq!(bytes.len(), ty.size());
        self.add(ty.name().to_string(), ty.size(), prefix, Binding::Bytes(bytes))
    }

    /// Adds a `Str` literal.
    pub fn text(&mut self, prefix: &str, text: Arc<str>) -> String {
        self.add("Str".into(), 16, prefix, Binding::Text(text))
    }

    /// Adds a pointer to `const element`; returns the operand.
    pub fn pointer(&mut self, element: &str, prefix: &str, binding: Binding) -> String {
        self.add(format!("const {element}*"), 8, prefix, binding)
    }

    /// Adds a pointer to `element` for writing; returns the operand.
    pub fn output(&mut self, element: &str, prefix: &str, binding: Binding) -> String {
        self.add(format!("{element}*"), 8, prefix, binding)
    }

    /// The operand of the query's state; all calls share one member.
    pub fn state(&mut self) -> String {
        if !self.members.iter().any(|member| matches!(member.binding, Binding::State)) {
            let member =
                Member { name: "state".into(), ty: "QueryState*".into(), size: 8, align: 8, binding: Binding::State };
            self.members.push(member);
        }
        "p.state".into()
    }

    /// Adds `library`, and the libraries that it uses, to the kernel's text.
    pub fn require(&mut self, library: Library) {
        if self.libraries.insert(library) {
            library.uses().iter().for_each(|&used| self.require(used));
        }
    }

    /// The libraries that the kernel needs.
    pub fn libraries(&self) -> impl Iterator<Item = Library> + '_ {
        self.libraries.iter().copied()
    }

    /// The text of these libraries, which precedes [`Params::definition`].
    pub fn library_text(&self) -> String {
        let wanted = |part: &&Library| **part == Library::Value || self.libraries.contains(part);
        let parts: Vec<&str> = Library::ALL.iter().filter(wanted).map(|part| part.text()).collect();
        parts.join("\n")
    }

    /// Adds a member whose alignment equals its size (at most 16; 8 for `Str`); returns the operand.
    pub fn add(&mut self, ty: String, size: usize, prefix: &str, binding: Binding) -> String {
        let name = format!("{prefix}_{}", self.members.len());
        let operand = format!("p.{name}");
        let align = if ty == "Str" { 8 } else { size.min(16) };
        self.members.push(Member { name, ty, size, align, binding });
        operand
    }

    /// The members.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The definition of the struct, named `name`.
    pub fn definition(&self, name: &str) -> String {
        let mut text = format!("struct {name} {{\n");
        for member in &self.members {
            text.push_str(&format!("    {} {};\n", member.ty, member.name));
        }
        if self.members.is_empty() {
            text.push_str("    u32 unused;\n");
        }
        text.push_str("};\n");
        text
    }

    /// The struct's bytes, from the bytes of each member.
    pub fn image(&self, mut value: impl FnMut(&Member) -> Vec<u8>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for member in &self.members {
            bytes.resize(bytes.len().next_multiple_of(member.align), 0);
            let image = value(member);
            assert_eq!(image.len(), member.size, "parameter {}", member.name);
            bytes.extend(image);
        }
        let align = self.members.iter().map(|member| member.align).max().unwrap_or(4);
        bytes.resize(bytes.len().max(4).next_multiple_of(align), 0);
        bytes
    }
}
