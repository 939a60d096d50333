//! Parses lexemes into outputs, operands and conditions.
//!
//! ```text
//! output   = operand ( ("|" | ",") filter )*
//! operand  = name step* | text | number | "(" operand ".." operand ")"
//! step     = "." name | "[" operand "]"
//! filter   = name ( ":" argument ( "," argument )* )?
//! argument = ( parameter (":" | "=") )? operand
//! ```
//! # Commas before filters
//! Samples of client libraries write `{{ data.number, reveal_last: 4 }}`. Liquid drops everything
//! after such a comma and would show the whole number. Here a comma before the name of a filter
//! *is* a pipe, and nothing is ever dropped: the text after any comma is a filter that is run, an
//! argument that is used, or an error. So a comma never shows more than the pipe. Two rules make
//! this unambiguous. A parameter name followed by `:` or `=` is that parameter (no filter of that
//! name takes an argument, so the pipe would be an error). A variable cannot have the name of a
//! filter.

use serde_json::{Number, Value};

use crate::{
    NESTING_MAX,
    filter::{self, Filter, JsonPathQuery},
    syntax::{
        ast::{
            Call, Comparison, Condition, Connector, LoopProperty, Operand, Output, Path, Root, Step,
        },
        lexeme::{Lexeme, PositionedLexeme, SyntaxError},
    },
};

pub(crate) type ParseResult<T> = Result<T, SyntaxError>;

pub(crate) struct Parser<'p, 's> {
    pub(crate) rest: &'p [PositionedLexeme<'s>],
    /// The end of the lexemes, for errors about something missing.
    pub(crate) end: usize,
    pub(crate) names: &'p mut NameTable<'s>,
    pub(crate) random: &'p mut bool,
    depth: usize,
}

impl<'p, 's> Parser<'p, 's> {
    pub(crate) fn new(
        rest: &'p [PositionedLexeme<'s>],
        end: usize,
        names: &'p mut NameTable<'s>,
        random: &'p mut bool,
    ) -> Self {
        Self { rest, end, names, random, depth: 0 }
    }

    pub(crate) fn parse_output(&mut self, position: usize) -> ParseResult<Output> {
        let operand = self.parse_operand()?;
        let calls = self.parse_calls()?;
        Ok(Output { position, operand, calls })
    }

    pub(crate) fn parse_calls(&mut self) -> ParseResult<Vec<Call>> {
        let mut calls = Vec::new();
        while let Some((at, lexeme)) = self.next() {
            if !matches!(lexeme, Lexeme::Pipe | Lexeme::Comma) {
                return Err((at, "a | was expected before a filter"));
            }
            calls.push(self.parse_call()?);
        }
        Ok(calls)
    }

    pub(crate) fn parse_operand(&mut self) -> ParseResult<Operand> {
        let Some((at, lexeme)) = self.next() else {
            return Err((self.end, "a value was expected"));
        };
        match lexeme {
            Lexeme::Name("true") => Ok(Operand::Literal(Value::Bool(true))),
            Lexeme::Name("false") => Ok(Operand::Literal(Value::Bool(false))),
            Lexeme::Name("nil" | "null") => Ok(Operand::Literal(Value::Null)),
            Lexeme::Name("empty") => Ok(Operand::Empty),
            Lexeme::Name("blank") => Ok(Operand::Blank),
            Lexeme::Name("forloop") => self.parse_loop_property(at),
            Lexeme::Name(name) => {
                let root = self.names.resolve_root(name, at)?;
                let object = self.names.is_object(name).then(|| Step::Name(name.to_owned()));
                self.parse_path(root, object)
            }
            Lexeme::Text(text) => Ok(Operand::Literal(Value::String(text.to_owned()))),
            Lexeme::Number(digits) => Ok(Operand::Literal(parse_number(at, digits)?)),
            Lexeme::OpenParen => self.parse_range(at),
            Lexeme::Relation(_)
            | Lexeme::Dot
            | Lexeme::DotDot
            | Lexeme::Pipe
            | Lexeme::Colon
            | Lexeme::Comma
            | Lexeme::Equal
            | Lexeme::OpenBracket
            | Lexeme::CloseBracket
            | Lexeme::CloseParen => Err((at, "a value was expected")),
        }
    }

    fn parse_path(&mut self, root: Root, first_step: Option<Step>) -> ParseResult<Operand> {
        let mut steps = Vec::from_iter(first_step);
        while let Some((at, lexeme)) = self.peek() {
            match lexeme {
                Lexeme::Dot => {
                    self.next();
                    steps.push(Step::Name(self.parse_property_name()?.to_owned()));
                }
                Lexeme::OpenBracket => {
                    self.next();
                    steps.push(self.parse_index(at)?);
                }
                Lexeme::Name(_)
                | Lexeme::Text(_)
                | Lexeme::Number(_)
                | Lexeme::Relation(_)
                | Lexeme::DotDot
                | Lexeme::Pipe
                | Lexeme::Colon
                | Lexeme::Comma
                | Lexeme::Equal
                | Lexeme::CloseBracket
                | Lexeme::OpenParen
                | Lexeme::CloseParen => break,
            }
        }
        Ok(Operand::Path(Path { root, steps }))
    }

    fn parse_property_name(&mut self) -> ParseResult<&'s str> {
        match self.next() {
            Some((_, Lexeme::Name(name) | Lexeme::Number(name))) => Ok(name),
            Some((_, Lexeme::Relation(crate::syntax::ast::Relation::Contains))) => Ok("contains"),
            Some((at, _)) => Err((at, "a property name was expected")),
            None => Err((self.end, "a property name was expected")),
        }
    }

    fn parse_index(&mut self, at: usize) -> ParseResult<Step> {
        let operand = self.parse_nested(at, Self::parse_operand)?;
        self.expect(Lexeme::CloseBracket, "a ] was expected")?;
        Ok(match operand {
            Operand::Literal(Value::String(name)) => Step::Name(name),
            Operand::Literal(Value::Number(number)) => match number.as_i64() {
                Some(index) => Step::Index(index),
                None => return Err((at, "an index is a whole number")),
            },
            Operand::Literal(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_))
            | Operand::Empty
            | Operand::Blank
            | Operand::Range(_) => return Err((at, "an index is a number or a name")),
            Operand::Path(_) | Operand::Loop(_) => Step::Computed(operand),
        })
    }

    fn parse_range(&mut self, at: usize) -> ParseResult<Operand> {
        let first = self.parse_nested(at, Self::parse_operand)?;
        self.expect(Lexeme::DotDot, ".. was expected")?;
        let last = self.parse_nested(at, Self::parse_operand)?;
        self.expect(Lexeme::CloseParen, "a ) was expected")?;
        Ok(Operand::Range(Box::new((first, last))))
    }

    fn parse_loop_property(&mut self, offset: usize) -> ParseResult<Operand> {
        if !self.names.is_in_loop() {
            return Err((offset, "only allowed inside a loop"));
        }
        self.expect(Lexeme::Dot, "a property of forloop was expected")?;
        let offset = self.peek().map_or(self.end, |(offset, _)| offset);
        Ok(Operand::Loop(match self.parse_property_name()? {
            "index" => LoopProperty::Index,
            "index0" => LoopProperty::Index0,
            "rindex" => LoopProperty::Rindex,
            "rindex0" => LoopProperty::Rindex0,
            "first" => LoopProperty::First,
            "last" => LoopProperty::Last,
            "length" => LoopProperty::Length,
            _ => return Err((offset, "unknown property of forloop")),
        }))
    }

    fn parse_nested<T>(
        &mut self,
        offset: usize,
        parse: fn(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<T> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > NESTING_MAX {
            return Err((offset, "this is nested too deep"));
        }
        let value = parse(self)?;
        self.depth = self.depth.saturating_sub(1);
        Ok(value)
    }

    fn parse_call(&mut self) -> ParseResult<Call> {
        let offset = self.peek().map_or(self.end, |(offset, _)| offset);
        let Some((_, Lexeme::Name(name))) = self.next() else {
            return Err((offset, "a filter name was expected"));
        };
        let filter = filter::find_filter(name).ok_or((offset, "unknown filter"))?;
        let arguments = self.parse_arguments(filter)?;
        let has_required = arguments.iter().take(filter.required_arguments).all(Option::is_some);
        if !has_required
            || arguments.len() < filter.required_arguments
            || arguments.len() > filter.parameters.len()
        {
            return Err((offset, "wrong number of arguments for this filter"));
        }
        *self.random |= filter.random;
        let arguments: Vec<_> =
            arguments.into_iter().map(|it| it.unwrap_or(Operand::Literal(Value::Null))).collect();
        let query = match (filter.name, arguments.as_slice()) {
            ("json", [Operand::Literal(Value::String(path))]) => {
                Some(Box::new(JsonPathQuery::parse(path).map_err(|problem| (offset, problem))?))
            }
            ("json", _) => return Err((offset, "json takes a path in quotes")),
            ("date", [Operand::Literal(format)]) => {
                filter::check_date_format(format).map_err(|problem| (offset, problem))?;
                None
            }
            _ => None,
        };
        Ok(Call { filter, arguments, query })
    }

    /// The arguments in the order of the filter's parameters, named or not.
    fn parse_arguments(&mut self, filter: &Filter) -> ParseResult<Vec<Option<Operand>>> {
        let mut arguments: Vec<Option<Operand>> = Vec::new();
        if !matches!(self.peek(), Some((_, Lexeme::Colon))) {
            return Ok(arguments);
        }
        loop {
            self.next();
            let at = self.peek().map_or(self.end, |(at, _)| at);
            let index = match self.rest {
                [(_, Lexeme::Name(name)), (_, Lexeme::Colon | Lexeme::Equal), ..] => {
                    let index = filter.parameters.iter().position(|it| it == name);
                    self.next();
                    self.next();
                    index.ok_or((at, "unknown parameter of this filter"))?
                }
                [] => return Err((self.end, "an argument was expected")),
                _ => arguments.len(),
            };
            let operand = self.parse_operand()?;
            if index >= filter.parameters.len() {
                return Err((at, "wrong number of arguments for this filter"));
            }
            while arguments.len() <= index {
                arguments.push(None);
            }
            match arguments.get_mut(index) {
                Some(slot @ None) => *slot = Some(operand),
                Some(Some(_)) | None => return Err((at, "this argument is given twice")),
            }
            if !self.has_more_arguments(filter) {
                return Ok(arguments);
            }
        }
    }

    /// Whether the comma is followed by another argument and not by a filter.
    fn has_more_arguments(&self, filter: &Filter) -> bool {
        match self.rest {
            [(_, Lexeme::Comma), (_, Lexeme::Name(name)), after @ ..] => {
                let is_named = matches!(after, [(_, Lexeme::Colon | Lexeme::Equal), ..])
                    && filter.parameters.contains(name);
                is_named || filter::find_filter(name).is_none()
            }
            [(_, Lexeme::Comma), ..] => true,
            _ => false,
        }
    }

    pub(crate) fn parse_condition(&mut self) -> ParseResult<Condition> {
        let mut terms = Vec::new();
        loop {
            let left = self.parse_operand()?;
            let right = match self.peek() {
                Some((_, Lexeme::Relation(relation))) => {
                    self.next();
                    Some((relation, self.parse_operand()?))
                }
                Some(_) | None => None,
            };
            let connector = match self.next() {
                None => Connector::End,
                Some((_, Lexeme::Name("and"))) => Connector::And,
                Some((_, Lexeme::Name("or"))) => Connector::Or,
                Some((at, _)) => return Err((at, "and, or, or the end was expected")),
            };
            terms.push((Comparison { left, right }, connector));
            if connector == Connector::End {
                return Ok(Condition { negated: false, terms });
            }
        }
    }

    pub(crate) fn expect(
        &mut self,
        expected: Lexeme<'_>,
        problem: &'static str,
    ) -> ParseResult<()> {
        match self.next() {
            Some((_, found)) if found == expected => Ok(()),
            Some((offset, _)) => Err((offset, problem)),
            None => Err((self.end, problem)),
        }
    }

    pub(crate) fn expect_end(&self, problem: &'static str) -> ParseResult<()> {
        self.peek().map_or(Ok(()), |(offset, _)| Err((offset, problem)))
    }

    pub(crate) fn peek(&self) -> Option<PositionedLexeme<'s>> {
        self.rest.first().copied()
    }

    pub(crate) fn next(&mut self) -> Option<PositionedLexeme<'s>> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }
}

/// The number as written, without leading zeros, which JSON does not allow.
fn parse_number(at: usize, digits: &str) -> ParseResult<Value> {
    let (sign, unsigned) = digits.strip_prefix('-').map_or(("", digits), |it| ("-", it));
    let trimmed = unsigned.trim_start_matches('0');
    let zero = if trimmed.is_empty() || trimmed.starts_with('.') { "0" } else { "" };
    let text = format!("{sign}{zero}{trimmed}");
    let number: Number = text.parse().map_err(|_| (at, "this is not a number"))?;
    Ok(Value::Number(number))
}

#[derive(Debug, Default)]
pub(crate) struct NameTable<'s> {
    variables: Vec<Variable<'s>>,
    /// The variables of the enclosing loops, innermost last.
    loops: Vec<(&'s str, usize)>,
    slots: usize,
    /// If set, only these objects can be named. They are properties of the data. The list is
    /// empty in a detokenization, where only tokens can be named.
    objects: Option<&'static [&'static str]>,
}

#[derive(Debug)]
struct Variable<'s> {
    name: &'s str,
    slot: usize,
    first_use: usize,
    defined: bool,
}

/// Names that variables cannot have.
const RESERVED: &[&str] = &[
    "data", "metadata", "forloop", "true", "false", "nil", "null", "empty", "blank", "and", "or",
    "in", "contains",
];

const UNKNOWN_NAME: &str =
    "unknown name: an expression can read data, a fingerprint expression also metadata";

impl<'s> NameTable<'s> {
    pub(crate) fn without_names() -> Self {
        Self::with_objects(&[])
    }

    pub(crate) fn with_objects(objects: &'static [&'static str]) -> Self {
        Self { objects: Some(objects), ..Self::default() }
    }

    /// Whether the name is an object, and so the first step of a path in the data.
    pub(crate) fn is_object(&self, name: &str) -> bool {
        self.objects.is_some_and(|it| it.contains(&name))
    }

    pub(crate) fn resolve_root(&mut self, name: &'s str, at: usize) -> Result<Root, SyntaxError> {
        match name {
            _ if self.is_object(name) => Ok(Root::Data),
            _ if self.objects.is_some_and(<[_]>::is_empty) => {
                Err((at, "only quoted text and numbers can be used here"))
            }
            _ if self.objects.is_some() => Err((at, "unknown name")),
            "data" => Ok(Root::Data),
            "metadata" => Ok(Root::Metadata),
            _ => {
                let inner = self.loops.iter().rev().find(|(it, _)| *it == name);
                let slot = inner.map(|(_, slot)| *slot);
                Ok(Root::Slot(slot.unwrap_or_else(|| self.slot_for_variable(name, at, false))))
            }
        }
    }

    /// For `assign` and `capture`. In a loop, the definition may follow a use.
    pub(crate) fn define(&mut self, name: &'s str, at: usize) -> Result<usize, SyntaxError> {
        check_name_is_free(name, at)?;
        Ok(self.slot_for_variable(name, at, true))
    }

    pub(crate) fn enter_loop(&mut self, name: &'s str, at: usize) -> Result<usize, SyntaxError> {
        check_name_is_free(name, at)?;
        let slot = self.new_slot();
        self.loops.push((name, slot));
        Ok(slot)
    }

    pub(crate) fn leave_loop(&mut self) {
        self.loops.pop();
    }

    pub(crate) fn is_in_loop(&self) -> bool {
        !self.loops.is_empty()
    }

    /// The number of slots. Fails if a used name was never defined.
    pub(crate) fn slot_count(&self) -> Result<usize, SyntaxError> {
        match self.variables.iter().find(|it| !it.defined) {
            Some(unknown) => Err((unknown.first_use, UNKNOWN_NAME)),
            None => Ok(self.slots),
        }
    }

    fn slot_for_variable(&mut self, name: &'s str, at: usize, defined: bool) -> usize {
        if let Some(variable) = self.variables.iter_mut().find(|it| it.name == name) {
            variable.defined |= defined;
            return variable.slot;
        }
        let slot = self.new_slot();
        self.variables.push(Variable { name, slot, first_use: at, defined });
        slot
    }

    fn new_slot(&mut self) -> usize {
        let slot = self.slots;
        self.slots = self.slots.saturating_add(1);
        slot
    }
}

/// A variable with the name of a filter would make commas ambiguous.
fn check_name_is_free(name: &str, at: usize) -> Result<(), SyntaxError> {
    if RESERVED.contains(&name) {
        return Err((at, "this name is reserved"));
    }
    match filter::find_filter(name) {
        Some(_) => Err((at, "this is the name of a filter")),
        None => Ok(()),
    }
}
