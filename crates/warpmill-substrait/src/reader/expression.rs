//! Expressions.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions::core::expr_ext::FieldAccessor;
use datafusion::logical_expr::expr::{Case, InList, TryCast};
use datafusion::logical_expr::{Expr, Operator, lit};
use datafusion_substrait::substrait::proto::Expression;
use datafusion_substrait::substrait::proto::expression::cast::FailureBehavior;
use datafusion_substrait::substrait::proto::expression::field_reference::{ReferenceType, RootType};
use datafusion_substrait::substrait::proto::expression::literal::LiteralType;
use datafusion_substrait::substrait::proto::expression::reference_segment::{ReferenceType as Segment, StructField};
use datafusion_substrait::substrait::proto::expression::{
    Cast, FieldReference, IfThen, MultiOrList, RexType, SingularOrList, SwitchExpression,
};

use super::cast::cast;
use super::function::binary;
use super::types::{chars, data_type};
use super::{Reader, Scope, literal, type_of};
use crate::error::{Result, invalid, required, unsupported};

impl Reader<'_> {
    /// An expression over `scope`.
    pub(super) fn expression(&mut self, expression: &Expression, scope: &Scope) -> Result<Expr> {
        match required(expression.rex_type.as_ref(), "the kind of an expression")? {
            RexType::Literal(value) => Ok(Expr::Literal(literal::literal(value, self.declarations)?, None)),
            RexType::Selection(reference) => self.field_reference(reference, scope),
            RexType::ScalarFunction(call) => self.scalar_function(call, scope),
            RexType::WindowFunction(call) => self.window_function(call, scope),
            RexType::IfThen(choice) => self.if_then(choice, scope),
            RexType::SwitchExpression(choice) => self.switch(choice, scope),
            RexType::SingularOrList(list) => self.singular_or_list(list, scope),
            RexType::MultiOrList(list) => self.multi_or_list(list, scope),
            RexType::Cast(conversion) => self.conversion(conversion, scope),
            RexType::Subquery(subquery) => self.subquery(subquery, scope),
            RexType::DynamicParameter(parameter) => match self.parameters.get(&parameter.parameter_reference) {
                Some(value) => Ok(Expr::Literal(value.clone(), None)),
                None => invalid(format!("parameter {} has no value", parameter.parameter_reference)),
            },
            RexType::Nested(_) => unsupported("expression 'nested'"),
            RexType::Lambda(_) => unsupported("expression 'lambda'"),
            RexType::LambdaInvocation(_) => unsupported("expression 'lambda invocation'"),
            #[allow(deprecated, reason = "plans of earlier versions hold words as expressions")]
            RexType::Enum(_) => invalid("a word that is no argument of a function"),
        }
    }

    pub(super) fn field_reference(&mut self, reference: &FieldReference, scope: &Scope) -> Result<Expr> {
        let segment = match required(reference.reference_type.as_ref(), "what a field reference refers to")? {
            ReferenceType::DirectReference(segment) => segment,
            ReferenceType::MaskedReference(_) => return unsupported("masked field reference"),
        };
        let Segment::StructField(field) =
            required(segment.reference_type.as_ref(), "the segment of a field reference")?
        else {
            return unsupported("reference to an element of a list or map");
        };
        match &reference.root_type {
            Some(RootType::RootReference(_)) | None => {
                let column = Expr::Column(scope.field(field.field)?.column.clone());
                nested_field(column, field, scope)
            }
            Some(RootType::OuterReference(outer)) => {
                let steps = usize::try_from(outer.steps_out).ok().filter(|&steps| steps > 0);
                let around = steps.and_then(|steps| self.outer.len().checked_sub(steps)).map(|at| &self.outer[at]);
                let Some(around) = around else {
                    return invalid(format!(
                        "a reference {} queries outwards, of {}",
                        outer.steps_out,
                        self.outer.len()
                    ));
                };
                let slot = around.field(field.field)?;
                let column = Expr::OuterReferenceColumn(around.arrow_field(slot)?, slot.column.clone());
                nested_field(column, field, around)
            }
            Some(RootType::Expression(_)) => unsupported("field reference into an expression"),
            Some(RootType::LambdaParameterReference(_)) => unsupported("lambda parameter"),
        }
    }

    fn if_then(&mut self, choice: &IfThen, scope: &Scope) -> Result<Expr> {
        let mut clauses = choice.ifs.iter().peekable();
        // A first clause without a result is the value that the others are compared with.
        let expr = match clauses.next_if(|first| first.then.is_none()) {
            Some(first) => {
                let value = required(first.r#if.as_ref(), "the value of a choice")?;
                Some(Box::new(self.expression(value, scope)?))
            }
            None => None,
        };
        let mut when_then_expr = Vec::with_capacity(choice.ifs.len());
        for clause in clauses {
            let when = self.expression(required(clause.r#if.as_ref(), "the condition of a choice")?, scope)?;
            let then = self.expression(required(clause.then.as_ref(), "the result of a choice")?, scope)?;
            when_then_expr.push((Box::new(when), Box::new(then)));
        }
        let otherwise = choice.r#else.as_deref();
        self.case(expr, when_then_expr, otherwise, scope)
    }

    fn switch(&mut self, choice: &SwitchExpression, scope: &Scope) -> Result<Expr> {
        let value = self.expression(required(choice.r#match.as_deref(), "the value of a switch")?, scope)?;
        let mut when_then_expr = Vec::with_capacity(choice.ifs.len());
        for clause in &choice.ifs {
            let when = literal::literal(required(clause.r#if.as_ref(), "the value of a case")?, self.declarations)?;
            let then = self.expression(required(clause.then.as_ref(), "the result of a case")?, scope)?;
            when_then_expr.push((Box::new(Expr::Literal(when, None)), Box::new(then)));
        }
        self.case(Some(Box::new(value)), when_then_expr, choice.r#else.as_deref(), scope)
    }

    fn case(
        &mut self,
        expr: Option<Box<Expr>>,
        when_then_expr: Vec<(Box<Expr>, Box<Expr>)>,
        otherwise: Option<&Expression>,
        scope: &Scope,
    ) -> Result<Expr> {
        let else_expr = match otherwise {
            Some(otherwise) => Some(Box::new(self.expression(otherwise, scope)?)),
            None => None,
        };
        match (when_then_expr.is_empty(), else_expr) {
            (true, Some(otherwise)) => Ok(*otherwise),
            (true, None) => invalid("a choice of nothing"),
            (false, else_expr) => Ok(Expr::Case(Case { expr, when_then_expr, else_expr })),
        }
    }

    fn singular_or_list(&mut self, list: &SingularOrList, scope: &Scope) -> Result<Expr> {
        let value =
            self.expression(required(list.value.as_deref(), "the value that is looked for in a list")?, scope)?;
        let options = list.options.iter().map(|option| self.expression(option, scope)).collect::<Result<Vec<_>>>()?;
        Ok(Expr::InList(InList { expr: Box::new(value), list: options, negated: false }))
    }

    fn multi_or_list(&mut self, list: &MultiOrList, scope: &Scope) -> Result<Expr> {
        let values = list.value.iter().map(|value| self.expression(value, scope)).collect::<Result<Vec<_>>>()?;
        let mut any = lit(false);
        for record in &list.options {
            if record.fields.len() != values.len() || values.is_empty() {
                return invalid(format!("a record of {} fields for {} values", record.fields.len(), values.len()));
            }
            let mut all = lit(true);
            for (value, field) in values.iter().zip(&record.fields) {
                all = all.and(binary(value.clone(), Operator::Eq, self.expression(field, scope)?));
            }
            any = any.or(all);
        }
        Ok(any)
    }

    fn conversion(&mut self, conversion: &Cast, scope: &Scope) -> Result<Expr> {
        let to = required(conversion.r#type.as_ref(), "the type of a cast")?;
        let input = required(conversion.input.as_deref(), "the input of a cast")?;
        let ty = data_type(to, self.declarations)?;
        let value = self.expression(input, scope)?;
        let from = type_of(&value, &scope.schema)?;
        let text = matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        if text && ty == DataType::Utf8 {
            // Casts to shorter strings cut; a column that is no longer than the type needs nothing.
            return match (chars(to), self.longest(input, scope)) {
                (Some(most), Some(has)) if has <= most => Ok(value),
                (Some(most), _) => self.left(value, most),
                (None, _) => Ok(value),
            };
        }
        Ok(match FailureBehavior::try_from(conversion.failure_behavior) {
            Ok(FailureBehavior::ReturnNull) => Expr::TryCast(TryCast::new(Box::new(value), ty)),
            _ => cast(value, &ty),
        })
    }

    fn left(&self, value: Expr, chars: u32) -> Result<Expr> {
        match self.state.scalar_functions().get("left") {
            Some(left) => Ok(left.call(vec![value, lit(i64::from(chars))])),
            None => unsupported("cast to a shorter string"),
        }
    }

    /// Largest length of a string in characters, if the plan declares it.
    pub(super) fn longest(&self, expression: &Expression, scope: &Scope) -> Option<u32> {
        match expression.rex_type.as_ref()? {
            RexType::Literal(value) => match value.literal_type.as_ref()? {
                LiteralType::FixedChar(text) | LiteralType::String(text) => u32::try_from(text.chars().count()).ok(),
                LiteralType::VarChar(text) => u32::try_from(text.value.chars().count()).ok(),
                _ => None,
            },
            RexType::Selection(reference) => match (reference.root_type.as_ref(), reference.reference_type.as_ref()?) {
                (None | Some(RootType::RootReference(_)), ReferenceType::DirectReference(segment)) => {
                    match segment.reference_type.as_ref()? {
                        Segment::StructField(field) if field.child.is_none() => scope.field(field.field).ok()?.chars,
                        _ => None,
                    }
                }
                _ => None,
            },
            RexType::Cast(conversion) => chars(conversion.r#type.as_ref()?),
            _ => None,
        }
    }
}

/// The nested field that the segments below `field` select.
fn nested_field(mut value: Expr, field: &StructField, scope: &Scope) -> Result<Expr> {
    let mut child = field.child.as_deref();
    while let Some(segment) = child {
        let Some(Segment::StructField(field)) = &segment.reference_type else {
            return unsupported("reference to an element of a list or map");
        };
        let DataType::Struct(fields) = type_of(&value, &scope.schema)? else {
            return invalid("a reference to a field of a column that is no struct");
        };
        let name = usize::try_from(field.field).ok().and_then(|at| fields.get(at)).map(|field| field.name().clone());
        value = value.field(ScalarValue::from(required(name, "a field of a struct that is referred to")?));
        child = field.child.as_deref();
    }
    Ok(value)
}
