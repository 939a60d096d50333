//! Evaluates a compiled expression.

use std::cmp::Ordering;

use serde_json::Value;

use crate::{
    ExpressionError, OUTPUT_BYTES_MAX, Scope, VALUE_BYTES_MAX,
    budget::{Budget, value_cost},
    filter::{Arguments, HostFunctions, Input},
    inner_steps::{count, count_value},
    syntax::ast::{
        Call, Case, Comparison, Condition, Connector, Expression, For, Node, Operand, Output,
        Relation,
    },
    value::datum::{Datum, compare_values, datums_equal, to_text, value_contains},
};

impl Expression {
    /// A single `{{ }}` keeps the type of its value; everything else becomes text.
    /// Errors: a filter rejects its value, or a limit is exceeded.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        let mut evaluator = Evaluator::new(scope, scope.data, self.slots);
        if let [Node::Output(output)] = self.body.as_slice() {
            return evaluator.evaluate_to_value(output);
        }
        let mut rendered = BoundedText { text: String::new(), bytes_max: OUTPUT_BYTES_MAX };
        evaluator.render_nodes(&self.body, &mut rendered)?;
        Ok(Value::String(rendered.text))
    }
}

/// One evaluation. Its recursion depth is the depth of the tree, which the parser limits.
pub(crate) struct Evaluator<'a> {
    pub(crate) data: &'a Value,
    pub(crate) metadata: Option<&'a Value>,
    pub(crate) host: Option<&'a dyn HostFunctions>,
    pub(crate) budget: &'a Budget,
    pub(crate) slots: Vec<Datum<'a>>,
    /// The current index and the length of each enclosing loop.
    pub(crate) loop_positions: Vec<(usize, usize)>,
}

pub(crate) struct BoundedText {
    pub(crate) text: String,
    pub(crate) bytes_max: usize,
}

impl BoundedText {
    pub(crate) fn push(&mut self, text: &str, budget: &Budget) -> Result<(), &'static str> {
        budget.charge_bytes(text.len())?;
        count(text.len());
        if self.text.len().saturating_add(text.len()) > self.bytes_max {
            return Err("the output is too large");
        }
        self.text.push_str(text);
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

type EvaluationResult<T> = Result<T, ExpressionError>;

impl<'a> Evaluator<'a> {
    pub(crate) fn new(scope: &'a Scope<'_>, data: &'a Value, slots: usize) -> Self {
        Self {
            data,
            metadata: scope.metadata,
            host: scope.host,
            budget: &scope.budget,
            slots: vec![Datum::null(); slots],
            loop_positions: Vec::new(),
        }
    }

    pub(crate) fn evaluate_to_value(&self, output: &'a Output) -> EvaluationResult<Value> {
        let value = self.evaluate_output(output)?;
        if let Datum::Borrowed(value) = &value {
            self.budget.charge_value(value).map_err(error_at(output.position))?;
        }
        Ok(value.into_value())
    }

    pub(crate) fn evaluate_output(&self, output: &'a Output) -> EvaluationResult<Datum<'a>> {
        self.apply_filters(output).map_err(error_at(output.position))
    }

    fn apply_filters(&self, output: &'a Output) -> Result<Datum<'a>, &'static str> {
        self.budget.charge_steps(1)?;
        count(1);
        let value = self.evaluate_operand(&output.operand)?;
        self.apply_calls(value, &output.calls)
    }

    pub(crate) fn apply_calls(
        &self,
        mut value: Datum<'a>,
        calls: &'a [Call],
    ) -> Result<Datum<'a>, &'static str> {
        for call in calls {
            self.budget.charge_steps(1)?;
            let arguments: Result<Vec<_>, _> =
                call.arguments.iter().map(|it| self.evaluate_operand(it)).collect();
            let arguments = arguments?;
            let input_cost = self.budget.cost_of(&value);
            self.budget.charge_bytes(input_cost)?;
            for argument in &arguments {
                self.budget.charge_value(argument)?;
            }
            value = (call.filter.run)(Input {
                value,
                arguments: Arguments(&arguments),
                budget: self.budget,
                host: self.host,
                query: call.query.as_deref(),
            })?;
            let result_cost = self.budget.cost_of(&value);
            self.budget.charge_bytes(result_cost)?;
            if result_cost > input_cost.max(VALUE_BYTES_MAX) {
                return Err("the output is too large");
            }
        }
        Ok(value)
    }

    pub(crate) fn render_output(
        &self,
        output: &'a Output,
        to: &mut BoundedText,
    ) -> EvaluationResult<()> {
        let value = self.evaluate_output(output)?;
        let fail = error_at(output.position);
        self.budget.charge_value(&value).map_err(fail)?;
        to.push(&to_text(&value), self.budget).map_err(fail)
    }

    fn render_nodes(&mut self, nodes: &'a [Node], to: &mut BoundedText) -> EvaluationResult<Flow> {
        for node in nodes {
            let flow = match node {
                Node::Text(text) => {
                    self.budget.charge_steps(1).map_err(error_at(1))?;
                    to.push(text, self.budget).map_err(error_at(1))?;
                    Flow::Next
                }
                Node::Output(output) => {
                    self.render_output(output, to)?;
                    Flow::Next
                }
                Node::Assign { slot, value } => {
                    let value = self.evaluate_output(value)?;
                    self.set_slot(*slot, value.into_shared());
                    Flow::Next
                }
                Node::Capture { slot, position, body } => {
                    self.budget.charge_steps(1).map_err(error_at(*position))?;
                    let mut inner =
                        BoundedText { text: String::new(), bytes_max: OUTPUT_BYTES_MAX };
                    let flow = self.render_nodes(body, &mut inner)?;
                    self.set_slot(*slot, Datum::from_text(inner.text).into_shared());
                    flow
                }
                Node::If(branches) => {
                    let mut flow = Flow::Next;
                    for branch in branches {
                        let is_true = self.evaluate_condition(&branch.condition);
                        if is_true.map_err(error_at(branch.position))? {
                            flow = self.render_nodes(&branch.body, to)?;
                            break;
                        }
                    }
                    flow
                }
                Node::Case(case) => self.render_case(case, to)?,
                Node::For(repeat) => self.render_for(repeat, to)?,
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
            };
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    /// Renders every matching arm, as Liquid does.
    fn render_case(&mut self, case: &'a Case, to: &mut BoundedText) -> EvaluationResult<Flow> {
        let fail = error_at(case.position);
        self.budget.charge_steps(1).map_err(fail)?;
        let subject = self.evaluate_operand(&case.subject).map_err(fail)?;
        let mut matched = false;
        for (values, body) in &case.arms {
            self.budget.charge_steps(values.len()).map_err(fail)?;
            let mut matches = false;
            for value in values {
                matches =
                    matches || self.compare(&subject, Relation::Equal, value).map_err(fail)?;
            }
            if matches {
                matched = true;
                let flow = self.render_nodes(body, to)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
            }
        }
        if matched { Ok(Flow::Next) } else { self.render_nodes(&case.else_body, to) }
    }

    fn render_for(&mut self, repeat: &'a For, to: &mut BoundedText) -> EvaluationResult<Flow> {
        let fail = error_at(repeat.position);
        self.budget.charge_steps(1).map_err(fail)?;
        let list =
            self.evaluate_operand(&repeat.list).and_then(|it| self.loop_items(it)).map_err(fail)?;
        let items = list.as_array().map_or(0, Vec::len);
        let bound = |operand: &'a Option<Operand>, otherwise| match operand {
            None => Ok(otherwise),
            Some(operand) => self.loop_bound(operand).map_err(fail),
        };
        let start = bound(&repeat.offset, 0)?.min(items);
        let length = bound(&repeat.limit, usize::MAX)?.min(items.saturating_sub(start));
        if length == 0 {
            return self.render_nodes(&repeat.else_body, to);
        }
        self.loop_positions.push((0, length));
        for iteration in 0..length {
            self.budget.charge_steps(1).map_err(fail)?;
            count(1);
            let reverse_index = length.saturating_sub(iteration).saturating_sub(1);
            let index = if repeat.reversed { reverse_index } else { iteration };
            let item = self.loop_item(&list, start.saturating_add(index)).map_err(fail)?;
            self.set_slot(repeat.slot, item);
            if let Some(last) = self.loop_positions.last_mut() {
                last.0 = iteration;
            }
            if self.render_nodes(&repeat.body, to)? == Flow::Break {
                break;
            }
        }
        self.loop_positions.pop();
        Ok(Flow::Next)
    }

    /// The items of a loop: list items, object entries, or a string as a single item.
    fn loop_items(&self, value: Datum<'a>) -> Result<Datum<'a>, &'static str> {
        match &*value {
            Value::Array(_) => Ok(value),
            Value::Object(object) => {
                self.budget.charge_value(&value)?;
                count_value(&value);
                let pair = |(name, value): (&String, &Value)| {
                    Value::Array(vec![Value::String(name.clone()), value.clone()])
                };
                Ok(Datum::Owned(object.iter().map(pair).collect()))
            }
            Value::String(text) if !text.is_empty() => {
                self.budget.charge_value(&value)?;
                count_value(&value);
                Ok(Datum::Owned(Value::Array(vec![(*value).clone()])))
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Datum::null()),
        }
    }

    fn loop_item(&self, list: &Datum<'a>, index: usize) -> Result<Datum<'a>, &'static str> {
        if let Datum::Borrowed(list) = list {
            return Ok(list.get(index).map_or(Datum::null(), Datum::Borrowed));
        }
        let item = list.get(index).cloned().unwrap_or_default();
        count_value(&item);
        self.budget.charge_value(&item)?;
        Ok(Datum::Owned(item).into_shared())
    }

    fn loop_bound(&self, operand: &'a Operand) -> Result<usize, &'static str> {
        let value = self.evaluate_operand(operand)?;
        let number = value.as_u64().or_else(|| short_text(&value)?.parse().ok());
        let number = number.ok_or("a loop limit must be a whole number")?;
        Ok(usize::try_from(number).unwrap_or(usize::MAX))
    }

    fn set_slot(&mut self, slot: usize, value: Datum<'a>) {
        if let Some(variable) = self.slots.get_mut(slot) {
            *variable = value;
        }
    }
}

/// A string that is short enough for a whole number. Longer strings need not be parsed.
pub(crate) fn short_text(value: &Value) -> Option<&str> {
    const CHARACTERS_MAX: usize = 20;
    value.as_str().filter(|it| it.len() <= CHARACTERS_MAX)
}

fn error_at(position: usize) -> impl Fn(&'static str) -> ExpressionError + Copy {
    move |problem| ExpressionError { position, problem }
}

type ConditionResult = Result<bool, &'static str>;

impl<'a> Evaluator<'a> {
    pub(crate) fn evaluate_condition(&self, condition: &'a Condition) -> ConditionResult {
        let mut is_true = true;
        for (comparison, connector) in &condition.terms {
            is_true = self.evaluate_comparison(comparison)?;
            match connector {
                Connector::And if !is_true => break,
                Connector::Or if is_true => break,
                Connector::And | Connector::Or | Connector::End => (),
            }
        }
        Ok(is_true != condition.negated)
    }

    fn evaluate_comparison(&self, comparison: &'a Comparison) -> ConditionResult {
        self.budget.charge_steps(1)?;
        let left = self.evaluate_operand(&comparison.left)?;
        match &comparison.right {
            None => Ok(left.is_true()),
            Some((relation, right)) => self.compare(&left, *relation, right),
        }
    }

    pub(crate) fn compare(
        &self,
        left: &Datum<'_>,
        relation: Relation,
        right: &'a Operand,
    ) -> ConditionResult {
        let right = self.evaluate_operand(right)?;
        // Comparing costs as much as the smaller value; searching costs as much as the whole value.
        let cost = match (relation, &**left, &*right) {
            // The number is parsed again for every compared item.
            (Relation::Contains, Value::Array(items), Value::Number(number)) => {
                let number_cost = number.as_str().len().saturating_mul(items.len());
                value_cost(left).saturating_add(number_cost)
            }
            (Relation::Contains, _, _) => value_cost(left).saturating_add(value_cost(&right)),
            (_, Value::Number(left), Value::Number(right)) => {
                left.as_str().len().saturating_add(right.as_str().len())
            }
            _ if matches!(left, Datum::Blank) || matches!(right, Datum::Blank) => {
                value_cost(left).saturating_add(value_cost(&right))
            }
            (_, Value::String(left), Value::String(right)) => left.len().min(right.len()),
            (_, Value::Array(_) | Value::Object(_), Value::Array(_) | Value::Object(_)) => {
                value_cost(left).saturating_add(value_cost(&right))
            }
            (_, Value::String(text), _) | (_, _, Value::String(text)) => text.len(),
            _ => 0,
        };
        self.budget.charge_bytes(cost)?;
        let order = |wanted: fn(Ordering) -> bool| compare_values(left, &right).is_some_and(wanted);
        Ok(match relation {
            Relation::Equal => datums_equal(left, &right),
            Relation::NotEqual => !datums_equal(left, &right),
            Relation::Less => order(Ordering::is_lt),
            Relation::LessOrEqual => order(Ordering::is_le),
            Relation::Greater => order(Ordering::is_gt),
            Relation::GreaterOrEqual => order(Ordering::is_ge),
            Relation::Contains => value_contains(left, &right),
        })
    }
}
