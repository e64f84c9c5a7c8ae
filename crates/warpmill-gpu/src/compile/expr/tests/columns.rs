//! Columns of random and adversarial values, and shorthands for expressions.

use warpmill_format::{Dictionary, StrView};

use super::*;

/// A random number generator (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 11) as usize % n
    }
}

pub const ROWS: usize = 250;

pub fn ty(logical: DataType) -> ColType {
    ColType::of(&logical, true).unwrap()
}

/// Every fifth row NULL if `nullable`.
fn validity(random: &mut Random, nullable: bool) -> Option<Bitmap> {
    nullable.then(|| Bitmap::from_fn(ROWS, |_| random.below(5) != 0))
}

/// Integers of a type: its extremes, small numbers, numbers of every magnitude.
pub fn ints(logical: DataType, seed: u64, nullable: bool) -> Column {
    let range = ColType::range_of(&logical).unwrap();
    ints_within(logical, range, seed, nullable)
}

/// Integers whose range is proven.
pub fn ints_within(logical: DataType, (low, high): (i128, i128), seed: u64, nullable: bool) -> Column {
    let mut random = Random(seed * 0x9e37_79b9 + 77);
    let ty = ty(logical).narrowed((low, high));
    let extremes = [low, high, low + 1, high - 1, 0, 1, -1, 2, -2, 10, 100, low / 2, high / 2, 99, -50];
    let value = |random: &mut Random| {
        let value = match random.below(4) {
            0 => extremes[random.below(extremes.len())],
            1 => random.below(200) as i128 - 100,
            _ => {
                let wide = i128::from(random.bits()) << 64 | i128::from(random.bits());
                wide >> random.below(127)
            }
        };
        if value < low || value > high {
            let width = (high as u128).wrapping_sub(low as u128).wrapping_add(1);
            if width == 0 { value } else { low.wrapping_add((value as u128 % width) as i128) }
        } else {
            value
        }
    };
    let values: Vec<i128> = (0..ROWS).map(|_| value(&mut random)).collect();
    let data = match ty.phys {
        Phys::I32 => Data::I32(values.iter().map(|&v| v as i32).collect()),
        Phys::I64 => Data::I64(values.iter().map(|&v| v as i64).collect()),
        _ => Data::I128(values),
    };
    Column { vector: Arc::new(Vector::with_validity(data, validity(&mut random, nullable))), ty }
}

/// Floats: special values, integers, halves, every magnitude.
pub fn floats(logical: DataType, seed: u64, nullable: bool) -> Column {
    let mut random = Random(seed * 0x9e37_79b9 + 5);
    let special = [
        0.0,
        -0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        1e300,
        -1e-300,
        5e-324,
        1e19,
        -9.3e18,
        9_007_199_254_740_993.0,
        2_147_483_647.5,
        -2_147_483_648.9,
        1e38,
        0.1,
        255.9,
        -0.9,
        127.99,
    ];
    let mut value = || match random.below(4) {
        0 => special[random.below(special.len())],
        1 => random.below(1000) as f64 / 8.0 - 60.0,
        2 => (random.bits() as f64 / 1e19 - 0.5) * 10f64.powi(random.below(40) as i32 - 10),
        _ => f64::from_bits(random.bits()),
    };
    let values: Vec<f64> = (0..ROWS).map(|_| value()).collect();
    let data = match logical {
        DataType::Float32 => Data::F32(values.iter().map(|&v| v as f32).collect()),
        _ => Data::F64(values),
    };
    Column { vector: Arc::new(Vector::with_validity(data, validity(&mut random, nullable))), ty: ty(logical) }
}

pub fn bools(seed: u64, nullable: bool) -> Column {
    let mut random = Random(seed * 0x9e37_79b9 + 11);
    let data = Data::Bool((0..ROWS).map(|_| random.below(2) == 0).collect());
    Column { vector: Arc::new(Vector::with_validity(data, validity(&mut random, nullable))), ty: ty(DataType::Boolean) }
}

/// Random choices from `values`.
pub fn texts_of(values: &[&str], seed: u64, nullable: bool) -> Column {
    let mut random = Random(seed * 0x9e37_79b9 + 3);
    let texts: Vec<&'static str> = values.iter().map(|s| &*String::leak(s.to_string())).collect();
    // Every value occurs.
    let pick = |row: usize, random: &mut Random| if row < texts.len() { row } else { random.below(texts.len()) };
    let data = Data::Str((0..ROWS).map(|row| StrView::new(texts[pick(row, &mut random)])).collect());
    Column { vector: Arc::new(Vector::with_validity(data, validity(&mut random, nullable))), ty: ty(DataType::Utf8) }
}

pub const TEXTS: [&str; 24] = [
    "",
    "a",
    "b",
    "ab",
    "abc",
    "abcabc",
    "ABC",
    "aXbXc",
    "héllo wörld",
    "日本語テキスト",
    "😀😃a😀",
    " a b ",
    "  ",
    "100%",
    "a_c",
    "PROMO BRUSHED",
    "special requests",
    "x special y requests z",
    "aaa",
    "aab",
    "ß",
    "é",
    "\u{7f}\u{80}",
    "zz%zz",
];

pub fn texts(seed: u64, nullable: bool) -> Column {
    texts_of(&TEXTS, seed, nullable)
}

/// Codes of a dictionary of `words` (ascending).
pub fn codes(words: &[&str], seed: u64, nullable: bool) -> Column {
    let mut random = Random(seed * 0x9e37_79b9 + 7);
    let dictionary = Arc::new(Dictionary::from_sorted(words.iter().copied()));
    let data = Data::Code((0..ROWS).map(|_| random.below(words.len()) as u32).collect());
    let ty = ColType { phys: Phys::Code, dictionary: Some(dictionary), ..ty(DataType::Utf8) };
    Column { vector: Arc::new(Vector::with_validity(data, validity(&mut random, nullable))), ty }
}

pub fn expr(kind: ExprKind, logical: DataType) -> Expr {
    Expr { kind, ty: ty(logical) }
}

pub fn col(index: usize, columns: &[Column]) -> Expr {
    Expr::column(index, columns[index].ty.clone())
}

pub fn int(value: i128, logical: DataType) -> Expr {
    Expr::literal(Scalar::Int(value), ty(logical).with_nullable(false))
}

pub fn text(value: &str) -> Expr {
    Expr::literal(Scalar::Str(value.into()), ty(DataType::Utf8))
}

pub fn null(ty: &ColType) -> Expr {
    Expr::literal(Scalar::Null, ty.clone())
}

pub fn arith(op: ArithOp, left: Expr, right: Expr, checked: bool, ty: ColType) -> Expr {
    Expr { kind: ExprKind::Arith { op, left: left.into(), right: right.into(), checked }, ty }
}

pub fn compare(op: CompareOp, left: Expr, right: Expr) -> Expr {
    expr(ExprKind::Compare { op, left: left.into(), right: right.into() }, DataType::Boolean)
}

pub fn call(function: Function, args: Vec<Expr>, ty: ColType) -> Expr {
    Expr { kind: ExprKind::Call { function, args }, ty }
}

pub fn cast(input: Expr, logical: DataType, try_cast: bool) -> Expr {
    expr(ExprKind::Cast { input: input.into(), try_cast }, logical)
}

pub fn like(input: Expr, pattern: &str, case_insensitive: bool, negated: bool) -> Expr {
    let kind = ExprKind::Like { input: input.into(), pattern: pattern.into(), escape: None, case_insensitive, negated };
    expr(kind, DataType::Boolean)
}

pub fn in_list(input: Expr, list: Vec<Scalar>, has_null: bool, negated: bool) -> Expr {
    expr(ExprKind::InList { input: input.into(), list, has_null, negated }, DataType::Boolean)
}

pub const COMPARES: [CompareOp; 8] = [
    CompareOp::Eq,
    CompareOp::Ne,
    CompareOp::Lt,
    CompareOp::Le,
    CompareOp::Gt,
    CompareOp::Ge,
    CompareOp::IsDistinct,
    CompareOp::IsNotDistinct,
];

pub const ARITHS: [ArithOp; 5] = [ArithOp::Add, ArithOp::Sub, ArithOp::Mul, ArithOp::Div, ArithOp::Mod];
