//! A typed builder of C++: statements in blocks, values with type and validity.

use warpmill_ir::Phys;

/// C++ types of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CType {
    /// `bool`
    Bool,
    /// `i32`
    I32,
    /// `u32`: dictionary codes, row numbers.
    U32,
    /// `i64`
    I64,
    /// `u64`: packed keys, hashes.
    U64,
    /// `i128`
    I128,
    /// `float`
    F32,
    /// `double`
    F64,
    /// `Str`: `{const u8* data; u32 len}` (kernels/value.cuh).
    Str,
}

impl CType {
    /// The type that holds values of a representation.
    pub fn of(phys: Phys) -> Self {
        match phys {
            Phys::Bool => CType::Bool,
            Phys::I32 => CType::I32,
            Phys::I64 => CType::I64,
            Phys::I128 => CType::I128,
            Phys::F32 => CType::F32,
            Phys::F64 => CType::F64,
            Phys::Str => CType::Str,
            Phys::Code => CType::U32,
        }
    }

    /// Its name in C++.
    pub fn name(self) -> &'static str {
        match self {
            CType::Bool => "bool",
            CType::I32 => "i32",
            CType::U32 => "u32",
            CType::I64 => "i64",
            CType::U64 => "u64",
            CType::I128 => "i128",
            CType::F32 => "float",
            CType::F64 => "double",
            CType::Str => "Str",
        }
    }

    /// Bytes of a value in device memory.
    pub fn size(self) -> usize {
        match self {
            CType::Bool => 1,
            CType::I32 | CType::U32 | CType::F32 => 4,
            CType::I64 | CType::U64 | CType::F64 => 8,
            CType::I128 | CType::Str => 16,
        }
    }

    /// A placeholder value, for NULLs.
    pub fn zero(self) -> &'static str {
        match self {
            CType::Bool => "false",
            CType::I32 => "0",
            CType::U32 => "0u",
            CType::I64 => "0ll",
            CType::U64 => "0ull",
            CType::I128 => "(i128)0",
            CType::F32 => "0.0f",
            CType::F64 => "0.0",
            CType::Str => "Str{nullptr, 0}",
        }
    }
}

/// A C++ value: an operand that may be repeated freely (a name, a parameter or a constant, no computation).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    /// The operand.
    pub text: String,
    /// Its type.
    pub ty: CType,
    /// A `bool` operand: whether the value is not NULL; `None`: it never is NULL. The value of a NULL is unspecified.
    pub valid: Option<String>,
}

impl Value {
    /// A value that is never NULL.
    pub fn new(text: impl Into<String>, ty: CType) -> Self {
        Self { text: text.into(), ty, valid: None }
    }

    /// The same with validity `valid`.
    pub fn with_valid(self, valid: Option<String>) -> Self {
        Self { valid, ..self }
    }

    /// `valid && value`, for truth values: whether it is true (neither false nor NULL).
    pub fn is_true(&self) -> String {
        match &self.valid {
            Some(valid) => format!("({valid} && {})", self.text),
            None => self.text.clone(),
        }
    }

    /// The validity as an operand: `true` if the value is never NULL.
    pub fn valid_text(&self) -> &str {
        self.valid.as_deref().unwrap_or("true")
    }
}

/// C++ statements, indented by block, with unique names.
#[derive(Debug, Default)]
pub struct Code {
    text: String,
    depth: usize,
    names: usize,
}

impl Code {
    /// Empty code at indentation `depth`.
    pub fn at_depth(depth: usize) -> Self {
        Self { depth, ..Self::default() }
    }

    /// A name that is unique in this code: `prefix` and a number.
    pub fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// Adds a line unchanged.
    pub fn line(&mut self, text: impl AsRef<str>) {
        for line in text.as_ref().lines() {
            if !line.is_empty() {
                self.text.extend(std::iter::repeat_n("    ", self.depth));
                self.text.push_str(line);
            }
            self.text.push('\n');
        }
    }

    /// A comment line.
    pub fn comment(&mut self, text: impl AsRef<str>) {
        for line in text.as_ref().lines() {
            self.line(format!("// {line}"));
        }
    }

    /// Adds `const TYPE name = init;` with a unique name, which it returns.
    pub fn define(&mut self, ty: CType, prefix: &str, init: impl AsRef<str>) -> String {
        let name = self.fresh(prefix);
        self.line(format!("const {} {name} = {};", ty.name(), init.as_ref()));
        name
    }

    /// `TYPE name = init;`: a variable that is assigned later.
    pub fn variable(&mut self, ty: CType, prefix: &str, init: impl AsRef<str>) -> String {
        let name = self.fresh(prefix);
        self.line(format!("{} {name} = {};", ty.name(), init.as_ref()));
        name
    }

    /// `header {` ... `}` around what `body` adds.
    pub fn block<T>(&mut self, header: impl AsRef<str>, body: impl FnOnce(&mut Code) -> T) -> T {
        let header = header.as_ref();
        self.line(if header.is_empty() { "{".into() } else { format!("{header} {{") });
        self.depth += 1;
        let result = body(self);
        self.depth -= 1;
        self.line("}");
        result
    }

    /// `header {`, closed by [`Code::close_to`].
    pub fn open(&mut self, header: impl AsRef<str>) {
        self.line(format!("{} {{", header.as_ref()));
        self.depth += 1;
    }

    /// The number of open blocks.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Closes blocks until `depth` are open.
    pub fn close_to(&mut self, depth: usize) {
        while self.depth > depth {
            self.depth -= 1;
            self.line("}");
        }
    }

    /// `if (condition) {` ... `}`.
    pub fn when<T>(&mut self, condition: &str, body: impl FnOnce(&mut Code) -> T) -> T {
        self.block(format!("if ({condition})"), body)
    }

    /// The statements.
    pub fn text(&self) -> &str {
        &self.text
    }
}
