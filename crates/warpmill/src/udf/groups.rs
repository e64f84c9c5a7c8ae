//! Aggregate functions that call code.
//!
//! A function of whole groups collects their rows, and is called once for many groups, or runs as compiled code; its partial states are lists of
//! rows. A function with states is updated with each batch of rows; its partial states are the host's, as binary values.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeListArray, UInt64Array};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::{concat, filter, interleave, prep_null_mask_filter, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

use warpmill_ir::GroupFunction as Translated;

use super::compiled::{self, Compiler, Native, Outcome};
use super::{Called, GroupFunction, StateFunction, States, how};

/// The aggregate function for host code `code`, compiled code, or both: compiled code is tried first.
pub(super) fn of_groups(
    called: Called,
    parameters: usize,
    code: Option<Arc<dyn GroupFunction>>,
    compiler: Option<Compiler>,
) -> Arc<AggregateUDF> {
    function(called, parameters, Code::Groups { code, compiler: compiler.map(Arc::new) })
}

/// The function with states that `code` is.
pub(super) fn of_states(called: Called, parameters: usize, code: Arc<dyn StateFunction>) -> Arc<AggregateUDF> {
    function(called, parameters, Code::States(code))
}

fn function(called: Called, parameters: usize, code: Code) -> Arc<AggregateUDF> {
    let signature = Signature::any(parameters, Volatility::Immutable);
    Arc::new(AggregateUDF::from(CalledAggregate { called, code, signature }))
}

/// The name of `function`, if the session defines it, and the way it runs for these argument types.
pub(super) fn explained(
    function: &AggregateUDF,
    types: impl FnOnce() -> Result<Vec<DataType>>,
) -> Option<(String, String)> {
    let CalledAggregate { called, code, .. } = function.inner().downcast_ref::<CalledAggregate>()?;
    Some((called.name.clone(), how(called, code.compiler().map(Arc::as_ref), types)))
}

/// The device translation of `function` for columns of these types, or the reason why there is none; `None`: not a function of a session.
pub(super) fn translated(
    function: &AggregateUDF,
    types: &[DataType],
) -> Option<std::result::Result<Arc<Translated>, String>> {
    let CalledAggregate { called, code, .. } = function.inner().downcast_ref::<CalledAggregate>()?;
    let Some(compiler) = code.compiler() else { return Some(Err("its code is called".into())) };
    Some(match compiler.native(types) {
        Ok(Ok(native)) => native.group_function(&called.name).map(Arc::new),
        Ok(Err(reason)) => Err(reason),
        Err(error) => Err(error.to_string()),
    })
}

#[derive(Debug, Clone)]
enum Code {
    Groups { code: Option<Arc<dyn GroupFunction>>, compiler: Option<Arc<Compiler>> },
    States(Arc<dyn StateFunction>),
}

impl Code {
    fn address(&self) -> usize {
        match self {
            Code::Groups { code: Some(code), .. } => Arc::as_ptr(code).cast::<()>() as usize,
            Code::Groups { compiler: Some(compiler), .. } => Arc::as_ptr(compiler) as usize,
            Code::Groups { .. } => 0,
            Code::States(code) => Arc::as_ptr(code).cast::<()>() as usize,
        }
    }

    fn compiler(&self) -> Option<&Arc<Compiler>> {
        match self {
            Code::Groups { compiler, .. } => compiler.as_ref(),
            Code::States(_) => None,
        }
    }
}

#[derive(Debug)]
struct CalledAggregate {
    called: Called,
    code: Code,
    signature: Signature,
}

impl PartialEq for CalledAggregate {
    fn eq(&self, other: &Self) -> bool {
        self.called == other.called && self.code.address() == other.code.address()
    }
}

impl Eq for CalledAggregate {}

impl Hash for CalledAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.called.hash(state);
        self.code.address().hash(state);
    }
}

impl CalledAggregate {
    fn groups(&self, types: Vec<DataType>) -> Result<Box<dyn Gathers>> {
        let called = self.called.clone();
        Ok(match &self.code {
            Code::Groups { code, compiler } => {
                let native = self.native(&types)?;
                let native = native.zip(compiler.clone());
                Box::new(Rows { called, code: code.clone(), native, types, batches: vec![], groups: 0 })
            }
            Code::States(code) => Box::new(Added { states: code.start()?, returns: called.returns, groups: 0 }),
        })
    }

    /// The compiled function for columns of these types; an error where there is neither it nor code to call.
    fn native(&self, types: &[DataType]) -> Result<Option<Arc<Native>>> {
        let Some(compiler) = self.code.compiler() else { return Ok(None) };
        match compiler.native(types)? {
            Ok(native) => Ok(Some(native)),
            Err(_) if matches!(&self.code, Code::Groups { code: Some(_), .. }) => Ok(None),
            Err(reason) => plan_err!("function '{}' is not compiled: {reason}", self.called.name),
        }
    }
}

fn types_of(args: &AccumulatorArgs<'_>) -> Vec<DataType> {
    args.expr_fields.iter().map(|field| field.data_type().clone()).collect()
}

impl AggregateUDFImpl for CalledAggregate {
    fn name(&self) -> &str {
        &self.called.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if matches!(&self.code, Code::Groups { code: None, .. }) {
            self.native(types)?;
        }
        Ok(self.called.returns.clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup(self.groups(types_of(&args))?)))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(ManyGroups(self.groups(types_of(&args))?)))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |name: String, ty: DataType| Arc::new(Field::new(name, ty, true));
        Ok(match &self.code {
            Code::Groups { .. } => {
                let rows = args.input_fields.iter().enumerate();
                rows.map(|(at, input)| field(format!("{}[rows {at}]", args.name), list_of(input.data_type()))).collect()
            }
            Code::States(_) => vec![field(format!("{}[state]", args.name), DataType::Binary)],
        })
    }
}

fn list_of(ty: &DataType) -> DataType {
    DataType::LargeList(Arc::new(Field::new_list_field(ty.clone(), true)))
}

/// The accumulated rows or states of groups, by group number.
trait Gathers: Send + Sync + fmt::Debug {
    fn update(&mut self, columns: &[ArrayRef], groups: &[usize], total: usize) -> Result<()>;
    fn merge(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()>;
    /// Takes the results of the first `count` groups.
    fn finish(&mut self, count: usize) -> Result<ArrayRef>;
    /// Takes the states of the first `count` groups.
    fn take(&mut self, count: usize) -> Result<Vec<ArrayRef>>;
    /// The result of the only group so far; more rows may follow.
    fn result(&self) -> Result<ArrayRef>;
    fn groups(&self) -> usize;
    fn size(&self) -> usize;
}

/// The rows of groups in arrival order.
#[derive(Debug)]
struct Rows {
    called: Called,
    code: Option<Arc<dyn GroupFunction>>,
    native: Option<(Arc<Native>, Arc<Compiler>)>,
    types: Vec<DataType>,
    batches: Vec<Gathered>,
    groups: usize,
}

/// A batch of rows, and the group of each.
#[derive(Debug, Clone)]
struct Gathered {
    columns: Vec<ArrayRef>,
    groups: Vec<usize>,
}

impl Gathered {
    fn size(&self) -> usize {
        let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
        self.columns.iter().map(bytes).sum::<usize>() + self.groups.capacity() * size_of::<usize>()
    }
}

impl Rows {
    /// The rows of `count` groups, sorted by group, and the first row of each. `number` maps groups to their numbers among them.
    fn sorted(&self, count: usize, number: impl Fn(usize) -> Option<usize>) -> Result<(Vec<ArrayRef>, Vec<i64>)> {
        let mut offsets = vec![0i64; count + 1];
        for group in self.batches.iter().flat_map(|batch| &batch.groups).filter_map(|group| number(*group)) {
            offsets[group + 1] += 1;
        }
        for at in 0..count {
            offsets[at + 1] += offsets[at];
        }
        let mut next = offsets.clone();
        let mut order = vec![0u64; offsets[count] as usize];
        for (row, group) in self.batches.iter().flat_map(|batch| &batch.groups).enumerate() {
            if let Some(group) = number(*group) {
                order[next[group] as usize] = row as u64;
                next[group] += 1;
            }
        }
        let order = UInt64Array::from(order);
        let columns = self.types.iter().enumerate().map(|(at, ty)| {
            let parts: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.columns[at].as_ref()).collect();
            let all = if parts.is_empty() { arrow::array::new_empty_array(ty) } else { concat(&parts)? };
            Ok(take(&all, &order, None)?)
        });
        Ok((columns.collect::<Result<_>>()?, offsets))
    }

    /// Drops the first `count` groups.
    fn forget(&mut self, count: usize) -> Result<()> {
        self.groups -= count.min(self.groups);
        if self.groups == 0 {
            self.batches.clear();
            return Ok(());
        }
        for batch in &mut self.batches {
            let stays: BooleanArray = batch.groups.iter().map(|group| Some(*group >= count)).collect();
            batch.columns = batch.columns.iter().map(|column| filter(column, &stays)).collect::<Result<_, _>>()?;
            batch.groups.retain(|group| *group >= count);
            batch.groups.iter_mut().for_each(|group| *group -= count);
        }
        self.batches.retain(|batch| !batch.groups.is_empty());
        Ok(())
    }

    /// The rows of the first `count` groups.
    fn first(&self, count: usize) -> Result<(Vec<ArrayRef>, Vec<i64>)> {
        self.sorted(count, |group| Some(group).filter(|group| *group < count))
    }

    fn results(&self, count: usize) -> Result<ArrayRef> {
        let returns = &self.called.returns;
        let Some((native, compiler)) = &self.native else {
            let Some(code) = &self.code else { return internal_err!("a function without code") };
            let (columns, offsets) = self.first(count)?;
            return checked(code.call(&columns, &offsets, returns)?, count, returns);
        };
        let batches: Vec<_> =
            self.batches.iter().map(|batch| (batch.columns.as_slice(), batch.groups.as_slice())).collect();
        let outcome = compiled::run(native, compiler.runs(), &batches, count, returns);
        let outcome = outcome.map_err(|error| self.called.named(error))?;
        checked(self.completed(outcome, count)?, count, returns)
    }

    /// The results of compiled code, completed by calling code for groups that were given up.
    fn completed(&self, outcome: Outcome, count: usize) -> Result<ArrayRef> {
        let Outcome { results, given_up } = outcome;
        let Some((_, reason)) = given_up.first() else { return Ok(results) };
        let Some(code) = &self.code else { return Err(self.called.gives_up(reason)) };
        tracing::debug!(function = self.called.name, groups = given_up.len(), reason, "compiled code gave groups up");
        let mut numbers = vec![None; count];
        for (number, (group, _)) in given_up.iter().enumerate() {
            numbers[*group] = Some(number);
        }
        let (columns, offsets) = self.sorted(given_up.len(), |group| numbers.get(group).copied().flatten())?;
        let called =
            checked(code.call(&columns, &offsets, &self.called.returns)?, given_up.len(), &self.called.returns)?;
        let places: Vec<_> =
            numbers.iter().enumerate().map(|(group, number)| number.map_or((0, group), |at| (1, at))).collect();
        Ok(interleave(&[results.as_ref(), called.as_ref()], &places)?)
    }
}

impl Gathers for Rows {
    fn update(&mut self, columns: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups = self.groups.max(total);
        if !groups.is_empty() {
            self.batches.push(Gathered { columns: columns.to_vec(), groups: groups.to_vec() });
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups = self.groups.max(total);
        let Some(first) = states.first() else { return internal_err!("states of no column") };
        let lists = first.as_list::<i64>();
        let mut rows = vec![];
        for (list, group) in groups.iter().enumerate() {
            rows.extend(std::iter::repeat_n(*group, lists.value_length(list) as usize));
        }
        let values = |state: &ArrayRef| {
            let lists = state.as_list::<i64>();
            let (from, to) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
            lists.values().slice(from as usize, (to - from) as usize)
        };
        let columns = states.iter().map(values).collect();
        if !rows.is_empty() {
            self.batches.push(Gathered { columns, groups: rows });
        }
        Ok(())
    }

    fn finish(&mut self, count: usize) -> Result<ArrayRef> {
        let results = self.results(count)?;
        self.forget(count)?;
        Ok(results)
    }

    fn take(&mut self, count: usize) -> Result<Vec<ArrayRef>> {
        let (columns, offsets) = self.first(count)?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let lists = columns.into_iter().map(|values| {
            let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            Ok(Arc::new(LargeListArray::try_new(field, offsets.clone(), values, None)?) as ArrayRef)
        });
        let lists = lists.collect::<Result<_>>()?;
        self.forget(count)?;
        Ok(lists)
    }

    fn result(&self) -> Result<ArrayRef> {
        self.results(1)
    }

    fn groups(&self) -> usize {
        self.groups
    }

    fn size(&self) -> usize {
        self.batches.iter().map(Gathered::size).sum()
    }
}

/// The states of groups.
struct Added {
    states: Box<dyn States>,
    returns: DataType,
    groups: usize,
}

impl fmt::Debug for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Added").field("groups", &self.groups).finish_non_exhaustive()
    }
}

impl Gathers for Added {
    fn update(&mut self, columns: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups = self.groups.max(total);
        Ok(self.states.update(columns, groups, self.groups)?)
    }

    fn merge(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.groups = self.groups.max(total);
        let [states] = states else { return internal_err!("{} columns of states", states.len()) };
        Ok(self.states.merge(states, groups, self.groups)?)
    }

    fn finish(&mut self, count: usize) -> Result<ArrayRef> {
        self.groups -= count.min(self.groups);
        checked(self.states.finish(count, &self.returns)?, count, &self.returns)
    }

    fn take(&mut self, count: usize) -> Result<Vec<ArrayRef>> {
        self.groups -= count.min(self.groups);
        Ok(vec![checked(self.states.take(count)?, count, &DataType::Binary)?])
    }

    fn result(&self) -> Result<ArrayRef> {
        checked(self.states.copy()?.finish(1, &self.returns)?, 1, &self.returns)
    }

    fn groups(&self) -> usize {
        self.groups
    }

    fn size(&self) -> usize {
        self.states.size()
    }
}

fn checked(results: ArrayRef, count: usize, ty: &DataType) -> Result<ArrayRef> {
    match results.len() == count && results.data_type() == ty {
        true => Ok(results),
        false => {
            internal_err!("{} results of type {} for {count} groups of {ty}", results.len(), results.data_type())
        }
    }
}

#[derive(Debug)]
struct ManyGroups(Box<dyn Gathers>);

impl ManyGroups {
    fn count(&self, emit: EmitTo) -> usize {
        match emit {
            EmitTo::All => self.0.groups(),
            EmitTo::First(count) => count,
        }
    }
}

impl GroupsAccumulator for ManyGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        rows: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let Some(rows) = rows else { return self.0.update(values, groups, total) };
        let rows = if rows.null_count() > 0 { prep_null_mask_filter(rows) } else { rows.clone() };
        let values = values.iter().map(|column| filter(column, &rows)).collect::<Result<Vec<_>, _>>()?;
        let chosen = groups.iter().zip(rows.values()).filter(|(_, chosen)| *chosen);
        let groups: Vec<usize> = chosen.map(|(group, _)| *group).collect();
        self.0.update(&values, &groups, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.0.finish(self.count(emit))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.take(self.count(emit))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.0.merge(states, groups, total)
    }

    fn convert_to_state(&self, _: &[ArrayRef], _: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        internal_err!("rows are no states of a function of the session")
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// The rows of a query without groups, or of a window.
#[derive(Debug)]
struct OneGroup(Box<dyn Gathers>);

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |column| column.len());
        self.0.update(values, &vec![0; rows], 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.update(&[], &[], 1)?;
        ScalarValue::try_from_array(&self.0.result()?, 0)
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.update(&[], &[], 1)?;
        self.0.take(1)?.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let count = states.first().map_or(0, |states| states.len());
        self.0.merge(states, &vec![0; count], 1)
    }
}
