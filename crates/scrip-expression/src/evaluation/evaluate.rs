//! A compiled expression against the values it may see.

use serde_json::Value;

use crate::{
    ExpressionError, OUTPUT_BYTES_MAX, Scope, VALUE_BYTES_MAX,
    evaluation::budget::{Budget, weight},
    filter::{Arguments, Input},
    inner_steps::{count, count_value},
    outside::Outside,
    syntax::ast::{Case, Expression, For, Node, Operand, Output, Relation},
    value::datum::{Datum, text_of},
};

impl Expression {
    /// A lone `{{ }}` keeps the type of its value; anything else is text.
    ///
    /// # Errors
    /// A filter cannot take its value, or a bound is passed.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        let mut run = Run::new(scope, scope.data, self.slots);
        if let [Node::Output(output)] = self.body.as_slice() {
            return run.lone(output);
        }
        let mut rendered = Rendered { text: String::new(), bytes_max: OUTPUT_BYTES_MAX };
        run.nodes(&self.body, &mut rendered)?;
        Ok(Value::String(rendered.text))
    }
}

/// One evaluation under way. Its depth is that of the tree, which the parser bounds.
pub(crate) struct Run<'a> {
    pub(crate) data: &'a Value,
    pub(crate) metadata: Option<&'a Value>,
    pub(crate) outside: Option<&'a dyn Outside>,
    pub(crate) budget: &'a Budget,
    pub(crate) slots: Vec<Datum<'a>>,
    /// Of the loops around: which turn it is, and of how many.
    pub(crate) turns: Vec<(usize, usize)>,
}

pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) bytes_max: usize,
}

impl Rendered {
    pub(crate) fn push(&mut self, text: &str, budget: &Budget) -> Result<(), &'static str> {
        budget.bytes(text.len())?;
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

type Evaluated<T> = Result<T, ExpressionError>;

impl<'a> Run<'a> {
    pub(crate) fn new(scope: &'a Scope<'_>, data: &'a Value, slots: usize) -> Self {
        Self {
            data,
            metadata: scope.metadata,
            outside: scope.outside,
            budget: &scope.budget,
            slots: vec![Datum::null(); slots],
            turns: Vec::new(),
        }
    }

    pub(crate) fn lone(&self, output: &'a Output) -> Evaluated<Value> {
        let value = self.output(output)?;
        if let Datum::Borrowed(value) = &value {
            self.budget.value(value).map_err(at(output.position))?;
        }
        Ok(value.into_value())
    }

    pub(crate) fn output(&self, output: &'a Output) -> Evaluated<Datum<'a>> {
        self.filtered(output).map_err(at(output.position))
    }

    fn filtered(&self, output: &'a Output) -> Result<Datum<'a>, &'static str> {
        self.budget.steps(1)?;
        count(1);
        let mut value = self.operand(&output.operand)?;
        for call in &output.calls {
            self.budget.steps(1)?;
            let arguments: Result<Vec<_>, _> =
                call.arguments.iter().map(|it| self.operand(it)).collect();
            let arguments = arguments?;
            let given = weight(&value);
            self.budget.bytes(given)?;
            for argument in &arguments {
                self.budget.value(argument)?;
            }
            value = (call.filter.run)(Input {
                value,
                arguments: Arguments(&arguments),
                budget: self.budget,
                outside: self.outside,
                query: call.query.as_deref(),
            })?;
            let made = weight(&value);
            self.budget.bytes(made)?;
            if made > given.max(VALUE_BYTES_MAX) {
                return Err("the output is too large");
            }
        }
        Ok(value)
    }

    pub(crate) fn render(&self, output: &'a Output, to: &mut Rendered) -> Evaluated<()> {
        let value = self.output(output)?;
        let fail = at(output.position);
        self.budget.value(&value).map_err(fail)?;
        to.push(&text_of(&value), self.budget).map_err(fail)
    }

    fn nodes(&mut self, nodes: &'a [Node], to: &mut Rendered) -> Evaluated<Flow> {
        for node in nodes {
            let flow = match node {
                Node::Text(text) => {
                    self.budget.steps(1).map_err(at(1))?;
                    to.push(text, self.budget).map_err(at(1))?;
                    Flow::Next
                }
                Node::Output(output) => {
                    self.render(output, to)?;
                    Flow::Next
                }
                Node::Assign { slot, value } => {
                    let value = self.output(value)?;
                    self.set(*slot, value.shared());
                    Flow::Next
                }
                Node::Capture { slot, position, body } => {
                    self.budget.steps(1).map_err(at(*position))?;
                    let mut inner = Rendered { text: String::new(), bytes_max: OUTPUT_BYTES_MAX };
                    let flow = self.nodes(body, &mut inner)?;
                    self.set(*slot, Datum::text(inner.text).shared());
                    flow
                }
                Node::If(branches) => {
                    let mut flow = Flow::Next;
                    for branch in branches {
                        let holds = self.condition(&branch.condition);
                        if holds.map_err(at(branch.position))? {
                            flow = self.nodes(&branch.body, to)?;
                            break;
                        }
                    }
                    flow
                }
                Node::Case(case) => self.case(case, to)?,
                Node::For(repeat) => self.repeat(repeat, to)?,
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
            };
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    /// Every arm that matches is rendered, as in Liquid.
    fn case(&mut self, case: &'a Case, to: &mut Rendered) -> Evaluated<Flow> {
        let fail = at(case.position);
        self.budget.steps(1).map_err(fail)?;
        let subject = self.operand(&case.subject).map_err(fail)?;
        let mut matched = false;
        for (values, body) in &case.arms {
            self.budget.steps(values.len()).map_err(fail)?;
            let mut matches = false;
            for value in values {
                matches =
                    matches || self.related(&subject, Relation::Equal, value).map_err(fail)?;
            }
            if matches {
                matched = true;
                let flow = self.nodes(body, to)?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
            }
        }
        if matched { Ok(Flow::Next) } else { self.nodes(&case.otherwise, to) }
    }

    fn repeat(&mut self, repeat: &'a For, to: &mut Rendered) -> Evaluated<Flow> {
        let fail = at(repeat.position);
        self.budget.steps(1).map_err(fail)?;
        let list = self.operand(&repeat.list).and_then(|it| self.list(it)).map_err(fail)?;
        let items = list.as_array().map_or(0, Vec::len);
        let bound = |operand: &'a Option<Operand>, otherwise| match operand {
            None => Ok(otherwise),
            Some(operand) => self.bound(operand).map_err(fail),
        };
        let start = bound(&repeat.offset, 0)?.min(items);
        let length = bound(&repeat.limit, usize::MAX)?.min(items.saturating_sub(start));
        if length == 0 {
            return self.nodes(&repeat.otherwise, to);
        }
        self.turns.push((0, length));
        for turn in 0..length {
            self.budget.steps(1).map_err(fail)?;
            count(1);
            let back = length.saturating_sub(turn).saturating_sub(1);
            let place = if repeat.reversed { back } else { turn };
            let item = self.item(&list, start.saturating_add(place)).map_err(fail)?;
            self.set(repeat.slot, item);
            if let Some(last) = self.turns.last_mut() {
                last.0 = turn;
            }
            if self.nodes(&repeat.body, to)? == Flow::Break {
                break;
            }
        }
        self.turns.pop();
        Ok(Flow::Next)
    }

    /// What a loop goes over: the items of a list, the pairs of an object, a text as one.
    fn list(&self, value: Datum<'a>) -> Result<Datum<'a>, &'static str> {
        match &*value {
            Value::Array(_) => Ok(value),
            Value::Object(object) => {
                self.budget.value(&value)?;
                count_value(&value);
                let pair = |(name, value): (&String, &Value)| {
                    Value::Array(vec![Value::String(name.clone()), value.clone()])
                };
                Ok(Datum::Owned(object.iter().map(pair).collect()))
            }
            Value::String(text) if !text.is_empty() => {
                self.budget.value(&value)?;
                count_value(&value);
                Ok(Datum::Owned(Value::Array(vec![(*value).clone()])))
            }
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Datum::null()),
        }
    }

    fn item(&self, list: &Datum<'a>, at: usize) -> Result<Datum<'a>, &'static str> {
        if let Datum::Borrowed(list) = list {
            return Ok(list.get(at).map_or(Datum::null(), Datum::Borrowed));
        }
        let item = list.get(at).cloned().unwrap_or_default();
        count_value(&item);
        self.budget.value(&item)?;
        Ok(Datum::Owned(item).shared())
    }

    fn bound(&self, operand: &'a Operand) -> Result<usize, &'static str> {
        let value = self.operand(operand)?;
        let number = value.as_u64().or_else(|| short(&value)?.parse().ok());
        let number = number.ok_or("a loop is bounded by a whole number")?;
        Ok(usize::try_from(number).unwrap_or(usize::MAX))
    }

    fn set(&mut self, slot: usize, value: Datum<'a>) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = value;
        }
    }
}

/// A text no longer than a whole number: a longer one would be read for nothing.
pub(crate) fn short(value: &Value) -> Option<&str> {
    const CHARACTERS_MAX: usize = 20;
    value.as_str().filter(|it| it.len() <= CHARACTERS_MAX)
}

fn at(position: usize) -> impl Fn(&'static str) -> ExpressionError + Copy {
    move |problem| ExpressionError { position, problem }
}
