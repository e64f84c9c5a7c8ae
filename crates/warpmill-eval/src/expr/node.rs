//! The prepared tree and its evaluation: null-propagating kinds as [`Value`]s, truth values as [`Bits`].

use std::sync::Arc;

use warpmill_ir::{ColType, CompareOp, Phys};

use super::arith::{self, Arith};
use super::call::Compute;
use super::cast::Cast;
use super::lookup::{CodeStrings, Lookup};
use super::value::{Bits, Value};
use super::{branch, compare, logic};
use crate::chunk::Chunk;
use crate::error::Result;
use crate::memory::Worker;
use crate::vector::Vector;

/// A prepared expression node.
#[derive(Debug)]
pub(super) struct Node {
    pub kind: Kind,
    pub ty: ColType,
    /// Whether evaluation may fail for some row: then it is evaluated only on rows that need the value.
    pub fallible: bool,
    /// Whether it costs enough per row that rows are worth selecting first.
    pub heavy: bool,
}

/// Kind of the node.
#[derive(Debug)]
pub(super) enum Kind {
    Column(usize),
    Const(Arc<Vector>),
    Lookup(Lookup),
    CodeStrings(CodeStrings, Box<Node>),
    Arith(Arith, Box<Node>, Box<Node>),
    Negate(bool, Box<Node>),
    Compare(CompareOp, Box<Node>, Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    IsNull(Box<Node>),
    IsNotNull(Box<Node>),
    Case(Vec<(Node, Node)>, Option<Box<Node>>),
    Coalesce(Vec<Node>),
    NullIf(Box<Node>, Box<Node>),
    Cast(Cast, Box<Node>),
    Widen(Box<Node>),
    Call(Box<dyn Compute>, Vec<Node>),
}

impl Node {
    /// The representation of the node's value.
    pub fn phys(&self) -> Phys {
        self.ty.phys
    }

    /// The constant, if it is one.
    pub fn constant(&self) -> Option<&Arc<Vector>> {
        match &self.kind {
            Kind::Const(one) => Some(one),
            _ => None,
        }
    }

    /// The value for every row of `chunk`.
    pub fn eval(&self, chunk: &Chunk, worker: &mut Worker) -> Result<Value> {
        let len = chunk.len();
        match &self.kind {
            Kind::Column(index) => Ok(Value::Rows(chunk.dense(*index).clone())),
            Kind::Const(one) => Ok(Value::Const(one.clone())),
            Kind::Lookup(lookup) => Ok(lookup.eval(chunk.dense(lookup.column))),
            Kind::CodeStrings(table, input) => Ok(table.eval(&input.eval(chunk, worker)?)),
            Kind::Arith(arith, left, right) => {
                let (left, right) = (left.eval(chunk, worker)?, right.eval(chunk, worker)?);
                arith.eval(self.phys(), &left, &right, len)
            }
            Kind::Negate(checked, input) => {
                arith::negate(self.phys(), *checked, &self.ty.logical, &input.eval(chunk, worker)?)
            }
            Kind::Case(branches, otherwise) => branch::case(self, branches, otherwise.as_deref(), chunk, worker),
            Kind::Coalesce(args) => branch::coalesce(self, args, chunk, worker),
            Kind::NullIf(value, other) => {
                let (value, other) = (value.eval(chunk, worker)?, other.eval(chunk, worker)?);
                Ok(branch::null_if(value, &other, len))
            }
            Kind::Cast(cast, input) => cast.eval(&input.eval(chunk, worker)?, worker),
            Kind::Widen(input) => Ok(super::cast::widen(self.phys(), input.eval(chunk, worker)?)),
            Kind::Call(function, args) => {
                let args = args.iter().map(|arg| arg.eval(chunk, worker)).collect::<Result<Vec<_>>>()?;
                function.eval(&args, len, worker)
            }
            Kind::Compare(..) | Kind::And(_) | Kind::Or(_) | Kind::Not(_) | Kind::IsNull(_) | Kind::IsNotNull(_) => {
                Ok(Value::rows(self.bits(chunk, worker)?.into_vector()))
            }
        }
    }

    /// The truth value for every row of `chunk`; the node is boolean.
    pub fn bits(&self, chunk: &Chunk, worker: &mut Worker) -> Result<Bits> {
        let len = chunk.len();
        match &self.kind {
            Kind::Lookup(lookup) => Ok(lookup.bits(chunk.dense(lookup.column))),
            Kind::Compare(op, left, right) => {
                let (left, right) = (left.eval(chunk, worker)?, right.eval(chunk, worker)?);
                Ok(compare::compare(*op, &left, &right, len))
            }
            Kind::And(list) => logic::connect(list, true, chunk, worker),
            Kind::Or(list) => logic::connect(list, false, chunk, worker),
            Kind::Not(input) => Ok(input.bits(chunk, worker)?.not()),
            Kind::IsNull(input) => Ok(logic::is_null(input, chunk, worker)?),
            Kind::IsNotNull(input) => Ok(logic::is_null(input, chunk, worker)?.not()),
            _ => Ok(Bits::of(&self.eval(chunk, worker)?, len)),
        }
    }
}
