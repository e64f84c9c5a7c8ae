use super::*;

#[test]
fn checked_and_float_arithmetic() {
    let types = [
        DataType::Int32,
        DataType::Int64,
        DataType::Decimal128(12, 2),
        DataType::Decimal128(38, 4),
        DataType::Float32,
        DataType::Float64,
    ];
    for logical in types {
        let column = |seed| match logical {
            DataType::Float32 | DataType::Float64 => floats(logical.clone(), seed, seed == 1),
            _ => ints(logical.clone(), seed, seed == 1),
        };
        let columns = [column(1), column(2)];
        let mut exprs = Vec::new();
        for op in ARITHS {
            let (left, right) = (|| col(0, &columns), || col(1, &columns));
            match logical {
                // Scales of products add up, and quotients have a rule of their own.
                DataType::Decimal128(p, s) if op == ArithOp::Mul || op == ArithOp::Div => {
                    let (precision, scale) = if op == ArithOp::Mul { (38, 2 * s) } else { (p, s + 4) };
                    let result = ty(DataType::Decimal128(precision, scale)).widened(Phys::I128);
                    exprs.push(arith(op, left().widen(Phys::I128), right().widen(Phys::I128), true, result));
                    exprs.push(arith(op, left(), right(), true, columns[0].ty.clone()));
                }
                _ => exprs.push(arith(op, left(), right(), true, columns[0].ty.clone())),
            }
        }
        for checked in [true, false] {
            exprs.push(Expr {
                kind: ExprKind::Negate { input: col(0, &columns).into(), checked },
                ty: columns[0].ty.clone(),
            });
        }
        check(&columns, &exprs);
    }
}

#[test]
fn proven_arithmetic_in_narrow_representations() {
    let small = |seed, nullable| ints_within(DataType::Decimal128(15, 2), (-30_000, 40_000), seed, nullable);
    let columns = [small(1, true), small(2, false), ints_within(DataType::Int64, (1, 9_000_000), 3, true)];
    let wide = |range| ty(DataType::Decimal128(38, 4)).narrowed(range);
    let product = arith(ArithOp::Mul, col(0, &columns), col(1, &columns), false, wide((-1_200_000_000, 1_600_000_000)));
    let cubes = arith(
        ArithOp::Mul,
        product.clone().widen(Phys::I64),
        col(1, &columns).widen(Phys::I64),
        false,
        ty(DataType::Decimal128(38, 6)).narrowed((-64_000_000_000_000, 64_000_000_000_000)),
    );
    let huge = arith(
        ArithOp::Mul,
        cubes.clone().widen(Phys::I128),
        cubes.clone().widen(Phys::I128),
        false,
        ty(DataType::Decimal128(38, 12)),
    );
    let mut exprs = vec![product, cubes, huge];
    for op in [ArithOp::Add, ArithOp::Sub, ArithOp::Mod, ArithOp::Div] {
        let result = ty(DataType::Decimal128(15, 2)).narrowed((-80_000_000, 80_000_000));
        exprs.push(arith(op, col(0, &columns), col(1, &columns), false, result));
    }
    // Quotients of which the scaled dividend fits 64 bits.
    let quotient = ty(DataType::Decimal128(30, 6)).narrowed((-40_000_000_000, 40_000_000_000));
    exprs.push(arith(
        ArithOp::Div,
        col(0, &columns).widen(Phys::I64),
        col(2, &columns).widen(Phys::I64),
        false,
        quotient,
    ));
    check(&columns, &exprs);
}

#[test]
fn comparisons_of_every_representation() {
    let types = [
        DataType::Int32,
        DataType::Int64,
        DataType::Decimal128(38, 2),
        DataType::Float32,
        DataType::Float64,
        DataType::Boolean,
        DataType::Utf8,
    ];
    let mut columns = Vec::new();
    for logical in &types {
        for seed in [1, 2] {
            columns.push(match logical {
                DataType::Boolean => bools(seed, true),
                DataType::Utf8 => texts(seed, seed == 1),
                DataType::Float32 | DataType::Float64 => floats(logical.clone(), seed, seed == 2),
                _ => ints(logical.clone(), seed, true),
            });
        }
    }
    let pair = |i: usize| (col(2 * i, &columns), col(2 * i + 1, &columns));
    let mut exprs = Vec::new();
    for i in 0..types.len() {
        for op in COMPARES {
            exprs.push(compare(op, pair(i).0, pair(i).1));
            exprs.push(compare(op, pair(i).0, null(&columns[2 * i].ty)));
        }
        for function in [Function::Greatest, Function::Least, Function::NullIf, Function::Coalesce] {
            let (a, b) = pair(i);
            exprs.push(call(function, vec![a.clone(), b.clone()], a.ty.clone()));
            exprs.push(call(function, vec![b.clone(), null(&a.ty)], a.ty.clone()));
            exprs.push(call(function, vec![null(&a.ty), a.clone()], a.ty.clone()));
        }
    }
    check(&columns, &exprs);
}

#[test]
fn lists_of_constants() {
    let columns = [
        ints_within(DataType::Int32, (-100, 100), 1, true),
        ints(DataType::Int64, 2, true),
        ints(DataType::Decimal128(38, 0), 3, false),
        floats(DataType::Float64, 4, true),
        floats(DataType::Float32, 5, true),
        texts(6, true),
        bools(7, true),
    ];
    let mut exprs = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        for count in [0, 1, 3, 8, 20, 60] {
            let member = |k: usize| match &column.vector.data {
                Data::I32(v) => Scalar::Int(v[k].into()),
                Data::I64(v) => Scalar::Int(v[k].into()),
                Data::I128(v) => Scalar::Int(v[k]),
                Data::F32(v) => Scalar::Float(v[k].into()),
                Data::F64(v) => Scalar::Float(v[k]),
                Data::Str(v) => Scalar::Str(v[k].as_str().into()),
                Data::Bool(v) => Scalar::Bool(v[k]),
                Data::Code(_) => unreachable!("codes are compared as strings"),
            };
            let list: Vec<Scalar> = (0..count).map(|k| member(k * 4)).collect();
            exprs.push(in_list(col(i, &columns), list.clone(), false, count % 2 == 0));
            exprs.push(in_list(col(i, &columns), list, true, count % 3 == 0));
        }
    }
    check(&columns, &exprs);
}

#[test]
fn functions_of_floats() {
    for logical in [DataType::Float32, DataType::Float64] {
        let columns = [
            floats(logical.clone(), 1, true),
            floats(logical.clone(), 2, true),
            ints_within(DataType::Int64, (-4, 6), 3, true),
        ];
        let [x, y] = [0, 1].map(|i| col(i, &columns));
        let places = col(2, &columns).widen(Phys::I64);
        let of = |function, args| call(function, args, ty(logical.clone()));
        let simple = [
            Function::Abs,
            Function::Sign,
            Function::Round,
            Function::Floor,
            Function::Ceil,
            Function::Trunc,
            Function::Sqrt,
            Function::Exp,
            Function::Ln,
            Function::Log10,
        ];
        let mut exprs: Vec<Expr> = simple.into_iter().map(|function| of(function, vec![x.clone()])).collect();
        exprs.push(of(Function::Power, vec![x.clone(), y]));
        exprs.push(of(Function::Round, vec![x.clone(), places.clone()]));
        exprs.push(of(Function::Trunc, vec![x.clone(), places]));
        exprs.push(of(Function::Round, vec![x, int(2, DataType::Int64)]));
        check(&columns, &exprs);
    }
}

#[test]
fn functions_of_exact_numbers() {
    let types = [
        DataType::Int32,
        DataType::Int64,
        DataType::Decimal128(9, 2),
        DataType::Decimal128(18, 4),
        DataType::Decimal128(38, 6),
    ];
    for logical in types {
        let columns = [ints(logical.clone(), 1, true), ints_within(DataType::Int64, (-40, 45), 2, true)];
        let x = col(0, &columns);
        let places = col(1, &columns).widen(Phys::I64);
        let of = |function, args| call(function, args, columns[0].ty.clone());
        let mut exprs = vec![of(Function::Abs, vec![x.clone()])];
        for function in [Function::Floor, Function::Ceil, Function::Trunc, Function::Round] {
            exprs.push(of(function, vec![x.clone()]));
        }
        for function in [Function::Trunc, Function::Round] {
            exprs.push(of(function, vec![x.clone(), places.clone()]));
        }
        check(&columns, &exprs);
    }
}
