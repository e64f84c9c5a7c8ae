//! Identity of a program for code generation: byte strings that are equal for programs that lowering cannot tell apart.
//!
//! They cover all of a program except the parts that lowering does not see ([`seen`]): filters of scans that are decided on packed values, whose
//! constants are parameters; filters of other tables, used for pruning by metadata only; and the schema of the result. Patterns name every field, so
//! that a new one is not forgotten.

use std::sync::{Arc, Weak};

use arrow::datatypes::{DataType, Schema};
use warpmill_format::{Dictionary, TableSnapshot};
use warpmill_ir::pruning::PruningMode;
use warpmill_ir::recoding::Recoding;
use warpmill_ir::{
    AggregateExpr, Asof, Bound, ColType, Expr, ExprKind, Field, Frame, FrameBound, FunctionCall, GroupFunction,
    Operator, Pipeline, Probe, Program, PruneKey, Range, Scalar, Scan, Sink, SortKey, Source, WindowCall,
    WindowFunction,
};

use super::filters::Filters;

/// The part of `program` that lowering sees.
pub fn seen(program: &Program, filters: &Filters) -> Program {
    let mut pipelines = program.pipelines.clone();
    for (index, pipeline) in pipelines.iter_mut().enumerate() {
        if let Source::Scan(scan) = &mut pipeline.source {
            scan.filters = filters[&index].rest.iter().map(|&position| scan.filters[position].clone()).collect();
            scan.sideways = vec![];
        }
    }
    Program::new(pipelines, program.sinks.clone(), Arc::new(Schema::empty()))
}

/// The identity of a program.
#[derive(Default)]
pub struct Identity<'a> {
    bytes: Vec<u8>,
    /// Whether values of constants are left out.
    is_rough: bool,
    tables: Vec<&'a Arc<TableSnapshot>>,
    dictionaries: Vec<&'a Arc<Dictionary>>,
}

/// Weak references to the tables and dictionaries that an identity names by address. They keep the addresses unique.
#[derive(Debug)]
pub struct Named {
    tables: Vec<Weak<TableSnapshot>>,
    _dictionaries: Vec<Weak<Dictionary>>,
}

impl Named {
    /// Whether all tables still exist, so that another program may have the identity.
    pub fn are_there(&self) -> bool {
        self.tables.iter().all(|table| table.strong_count() > 0)
    }
}

impl<'a> Identity<'a> {
    /// The identity of `program`, whose scans have filters `filters`.
    pub fn of(program: &'a Program, filters: &Filters) -> Self {
        Self { bytes: Vec::with_capacity(4096), ..Self::default() }.with(program, filters)
    }

    /// An identity that programs share which differ in constants of conditions that lowering sees.
    pub fn rough(program: &'a Program, filters: &Filters) -> Self {
        Self { is_rough: true, ..Self::default() }.with(program, filters)
    }

    fn with(self, program: &'a Program, filters: &Filters) -> Self {
        let mut identity = self;
        let Program { pipelines, sinks, schema: _, derived: _ } = program;
        identity.index(pipelines.len());
        for (index, Pipeline { source, operators, sink }) in pipelines.iter().enumerate() {
            identity.source(source, filters.get(&index).map_or(&[], |filters| &filters.rest));
            identity.list(operators, Self::operator);
            identity.index(*sink);
        }
        identity.list(sinks, Self::sink);
        identity
    }

    /// The identity's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The tables and dictionaries that the bytes name by address.
    pub fn named(&self) -> Named {
        Named {
            tables: self.tables.iter().map(|table| Arc::downgrade(table)).collect(),
            _dictionaries: self.dictionaries.iter().map(|dictionary| Arc::downgrade(dictionary)).collect(),
        }
    }

    fn tag(&mut self, tag: u8) {
        self.bytes.push(tag);
    }

    fn flag(&mut self, flag: bool) {
        self.tag(flag.into());
    }

    fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn wide(&mut self, number: i128) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn index(&mut self, index: usize) {
        self.number(index as u64);
    }

    fn text(&mut self, text: &str) {
        self.index(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn list<T>(&mut self, list: &'a [T], mut each: impl FnMut(&mut Self, &'a T)) {
        self.index(list.len());
        list.iter().for_each(|one| each(self, one));
    }

    fn option<T>(&mut self, option: Option<&'a T>, each: impl FnOnce(&mut Self, &'a T)) {
        self.flag(option.is_some());
        if let Some(one) = option {
            each(self, one);
        }
    }

    fn indexes(&mut self, list: &'a [usize]) {
        self.list(list, |to, &index| to.index(index));
    }

    fn exprs(&mut self, list: &'a [Expr]) {
        self.list(list, Self::expr);
    }

    /// Adds a source; `seen` are the positions of the scan's filters that lowering sees.
    fn source(&mut self, source: &'a Source, seen: &[usize]) {
        match source {
            Source::Scan(scan) => {
                self.tag(0);
                self.scan(scan, seen);
            }
            Source::Rows { sink, fields } => {
                self.tag(1);
                self.index(*sink);
                self.fields(fields);
            }
            Source::Build { sink, rows, fields } => {
                self.tag(2);
                self.index(*sink);
                self.tag(*rows as u8);
                self.fields(fields);
            }
            Source::Input { input, fields } => {
                self.tag(3);
                self.index(*input);
                self.fields(fields);
            }
            Source::Values { rows, fields } => {
                self.tag(4);
                self.list(rows, |to, row| to.list(row, Self::scalar));
                self.fields(fields);
            }
        }
    }

    fn scan(&mut self, scan: &'a Scan, seen: &[usize]) {
        let Scan { table, name, columns, fields, filters, prune, sideways: _, pruning } = scan;
        self.index(Arc::as_ptr(table) as usize);
        self.tables.push(table);
        self.text(name);
        self.indexes(columns);
        self.fields(fields);
        self.index(seen.len());
        seen.iter().for_each(|&position| self.expr(&filters[position]));
        self.list(prune, |to, PruneKey { column, build, key }| {
            [column, build, key].into_iter().for_each(|&index| to.index(index));
        });
        self.tag(match pruning {
            PruningMode::None => 0,
            PruningMode::MinMax => 1,
            PruningMode::All => 2,
        });
    }

    fn operator(&mut self, operator: &'a Operator) {
        match operator {
            Operator::Filter(predicate) => {
                self.tag(0);
                self.expr(predicate);
            }
            Operator::Project(list) => {
                self.tag(1);
                self.list(list, |to, (field, expr)| {
                    to.field(field);
                    to.expr(expr);
                });
            }
            Operator::Probe(probe) => {
                self.tag(2);
                self.probe(probe);
            }
            Operator::Limit { skip, fetch } => {
                self.tag(3);
                self.limit(*skip, fetch.as_ref());
            }
        }
    }

    fn limit(&mut self, skip: u64, fetch: Option<&'a u64>) {
        self.number(skip);
        self.option(fetch, |to, &fetch| to.number(fetch));
    }

    fn probe(&mut self, probe: &'a Probe) {
        let Probe { build, kind, keys, residual, asof, range, null_aware, output, fields } = probe;
        self.index(*build);
        self.tag(*kind as u8);
        self.exprs(keys);
        self.option(residual.as_ref(), Self::expr);
        self.option(asof.as_ref(), |to, Asof { value, nearest }| {
            to.expr(value);
            to.tag(*nearest as u8);
        });
        self.option(range.as_ref(), |to, Range { lower, upper, rest }| {
            for bound in [lower, upper] {
                to.option(bound.as_ref(), |to, Bound { value, inclusive }| {
                    to.expr(value);
                    to.flag(*inclusive);
                });
            }
            to.option(rest.as_ref(), Self::expr);
        });
        self.flag(*null_aware);
        self.indexes(output);
        self.fields(fields);
    }

    fn sink(&mut self, sink: &'a Sink) {
        match sink {
            Sink::HashBuild { keys, payload, fields, null_equals_null, track_matches, order } => {
                self.tag(0);
                self.exprs(keys);
                self.indexes(payload);
                self.fields(fields);
                self.flag(*null_equals_null);
                self.flag(*track_matches);
                self.option(order.as_ref(), Self::expr);
            }
            Sink::Aggregate { groups, aggregates, fields } => {
                self.tag(1);
                self.exprs(groups);
                self.list(aggregates, Self::aggregate);
                self.fields(fields);
            }
            Sink::Functions { groups, calls, fields } => {
                self.tag(2);
                self.exprs(groups);
                self.list(calls, Self::function);
                self.fields(fields);
            }
            Sink::Sort { keys, skip, fetch, fields } => {
                self.tag(3);
                self.list(keys, Self::sort_key);
                self.limit(*skip, fetch.as_ref());
                self.fields(fields);
            }
            Sink::Window { partition, order, calls, payload, fields } => {
                self.tag(4);
                self.exprs(partition);
                self.list(order, Self::sort_key);
                self.list(calls, Self::window);
                self.indexes(payload);
                self.fields(fields);
            }
            Sink::Collect { fields } => {
                self.tag(5);
                self.fields(fields);
            }
        }
    }

    fn sort_key(&mut self, key: &'a SortKey) {
        let SortKey { expr, descending, nulls_first } = key;
        self.expr(expr);
        self.flag(*descending);
        self.flag(*nulls_first);
    }

    fn aggregate(&mut self, aggregate: &'a AggregateExpr) {
        let AggregateExpr { function, argument, second, filter, distinct, ty } = aggregate;
        self.text(function.name());
        self.option(argument.as_ref(), Self::expr);
        self.option(second.as_ref(), Self::expr);
        self.option(filter.as_ref(), Self::expr);
        self.flag(*distinct);
        self.ty(ty);
    }

    fn function(&mut self, call: &'a FunctionCall) {
        let FunctionCall { function, arguments, ty } = call;
        let GroupFunction { name, text, whole, floats } = &**function;
        self.text(name);
        self.text(text);
        self.list(whole, |to, &value| to.number(value as u64));
        self.list(floats, |to, value| to.number(value.to_bits()));
        self.exprs(arguments);
        self.ty(ty);
    }

    fn window(&mut self, call: &'a WindowCall) {
        let WindowCall { function, argument, frame, ignore_nulls, ty } = call;
        match function {
            WindowFunction::RowNumber => self.tag(0),
            WindowFunction::Rank => self.tag(1),
            WindowFunction::DenseRank => self.tag(2),
            WindowFunction::PercentRank => self.tag(3),
            WindowFunction::CumeDist => self.tag(4),
            WindowFunction::Ntile(buckets) => {
                self.tag(5);
                self.number(*buckets);
            }
            WindowFunction::Shift { back, default } => {
                self.tag(6);
                self.number(*back as u64);
                self.scalar(default);
            }
            WindowFunction::First => self.tag(7),
            WindowFunction::Last => self.tag(8),
            WindowFunction::Nth(row) => {
                self.tag(9);
                self.number(*row as u64);
            }
            WindowFunction::Aggregate(function) => {
                self.tag(10);
                self.text(function.name());
            }
        }
        self.option(argument.as_ref(), Self::expr);
        let Frame { units, start, end, exclude } = frame;
        self.tag(*units as u8);
        self.tag(*exclude as u8);
        for bound in [start, end] {
            match bound {
                FrameBound::UnboundedPreceding => self.tag(0),
                FrameBound::Preceding(distance) => {
                    self.tag(1);
                    self.scalar(distance);
                }
                FrameBound::CurrentRow => self.tag(2),
                FrameBound::Following(distance) => {
                    self.tag(3);
                    self.scalar(distance);
                }
                FrameBound::UnboundedFollowing => self.tag(4),
            }
        }
        self.flag(*ignore_nulls);
        self.ty(ty);
    }

    fn fields(&mut self, fields: &'a [Field]) {
        self.list(fields, Self::field);
    }

    fn field(&mut self, field: &'a Field) {
        let Field { name, ty } = field;
        self.text(name);
        self.ty(ty);
    }

    fn ty(&mut self, ty: &'a ColType) {
        let ColType { logical, phys, nullable, range, dictionary } = ty;
        self.logical(logical);
        self.tag(*phys as u8);
        self.flag(*nullable);
        self.option(range.as_ref(), |to, (least, most)| {
            to.wide(*least);
            to.wide(*most);
        });
        self.option(dictionary.as_ref(), |to, dictionary| {
            to.index(Arc::as_ptr(dictionary) as usize);
            to.dictionaries.push(dictionary);
        });
    }

    fn logical(&mut self, logical: &DataType) {
        match logical {
            DataType::Boolean => self.tag(0),
            DataType::Int32 => self.tag(1),
            DataType::Int64 => self.tag(2),
            DataType::Float64 => self.tag(3),
            DataType::Date32 => self.tag(4),
            DataType::Utf8View => self.tag(5),
            DataType::Utf8 => self.tag(6),
            DataType::Decimal128(precision, scale) => {
                self.tag(7);
                self.tag(*precision);
                self.tag(*scale as u8);
            }
            // Rare types, by their debug text, which is unique.
            other => {
                self.tag(8);
                self.text(&format!("{other:?}"));
            }
        }
    }

    fn scalar(&mut self, scalar: &'a Scalar) {
        match scalar {
            _ if self.is_rough => {}
            Scalar::Null => self.tag(0),
            Scalar::Bool(value) => {
                self.tag(1);
                self.flag(*value);
            }
            Scalar::Int(value) => {
                self.tag(2);
                self.wide(*value);
            }
            Scalar::Float(value) => {
                self.tag(3);
                self.number(value.to_bits());
            }
            Scalar::Str(value) => {
                self.tag(4);
                self.text(value);
            }
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        let Expr { kind, ty } = expr;
        // The range of a constant is its value.
        if !(self.is_rough && matches!(kind, ExprKind::Literal(_))) {
            self.ty(ty);
        }
        match kind {
            ExprKind::Column(index) => {
                self.tag(0);
                self.index(*index);
            }
            ExprKind::Literal(value) => {
                self.tag(1);
                self.scalar(value);
            }
            ExprKind::Arith { op, left, right, checked } => {
                self.tag(2);
                self.tag(*op as u8);
                self.expr(left);
                self.expr(right);
                self.flag(*checked);
            }
            ExprKind::Negate { input, checked } => {
                self.tag(3);
                self.expr(input);
                self.flag(*checked);
            }
            ExprKind::Compare { op, left, right } => {
                self.tag(4);
                self.tag(*op as u8);
                self.expr(left);
                self.expr(right);
            }
            ExprKind::And(list) => {
                self.tag(5);
                self.exprs(list);
            }
            ExprKind::Or(list) => {
                self.tag(6);
                self.exprs(list);
            }
            ExprKind::Not(input) => {
                self.tag(7);
                self.expr(input);
            }
            ExprKind::IsNull(input) => {
                self.tag(8);
                self.expr(input);
            }
            ExprKind::IsNotNull(input) => {
                self.tag(9);
                self.expr(input);
            }
            ExprKind::Case { branches, otherwise } => {
                self.tag(10);
                self.list(branches, |to, (when, then)| {
                    to.expr(when);
                    to.expr(then);
                });
                self.option(otherwise.as_deref(), Self::expr);
            }
            ExprKind::Cast { input, try_cast } => {
                self.tag(11);
                self.expr(input);
                self.flag(*try_cast);
            }
            ExprKind::Widen(input) => {
                self.tag(12);
                self.expr(input);
            }
            ExprKind::InList { input, list, has_null, negated } => {
                self.tag(13);
                self.expr(input);
                self.list(list, Self::scalar);
                self.flag(*has_null);
                self.flag(*negated);
            }
            ExprKind::Like { input, pattern, escape, case_insensitive, negated } => {
                self.tag(14);
                self.expr(input);
                if !self.is_rough {
                    self.text(pattern);
                }
                self.option(escape.as_ref(), |to, &escape| to.number(u32::from(escape).into()));
                self.flag(*case_insensitive);
                self.flag(*negated);
            }
            ExprKind::AddInterval { input, months, days, nanos } => {
                self.tag(15);
                self.expr(input);
                [i64::from(*months), i64::from(*days), *nanos].into_iter().for_each(|part| self.number(part as u64));
            }
            ExprKind::Call { function, args } => {
                self.tag(16);
                self.tag(*function as u8);
                self.exprs(args);
            }
            ExprKind::Recode(Recoding { inputs, codes, source }) => {
                self.tag(17);
                self.exprs(inputs);
                self.list(codes, |to, code| to.bytes.extend_from_slice(&code.to_le_bytes()));
                self.expr(source);
            }
        }
    }
}
