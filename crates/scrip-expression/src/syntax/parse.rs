//! From lexemes to outputs, operands and conditions.
//!
//! ```text
//! output   = operand ( ("|" | ",") filter )*
//! operand  = name step* | text | number | "(" operand ".." operand ")"
//! step     = "." name | "[" operand "]"
//! filter   = name ( ":" argument ( "," argument )* )?
//! argument = ( parameter (":" | "=") )? operand
//! ```
//! # A comma where a pipe was due
//! Samples of client libraries write `{{ data.number, reveal_last: 4 }}`. Liquid itself drops what
//! follows such a comma and would show the whole number. Here a comma before the name of a filter
//! *is* a pipe, and nothing is ever dropped: what stands after any comma is either a filter that is
//! run, an argument that is used, or an error. So a comma can never show more than the pipe. Two
//! rules keep the readings apart: a parameter's name followed by `:` or `=` is that parameter
//! (no filter of that name takes an argument, so the pipe would have been an error), and a
//! variable cannot have the name of a filter.

mod names;

use serde_json::{Number, Value};

pub(crate) use self::names::Names;
use crate::{
    NESTING_MAX,
    filter::{self, Filter, Query},
    syntax::{
        ast::{
            Call, Comparison, Condition, Connector, LoopProperty, Operand, Output, Path, Root, Step,
        },
        lexeme::{Lexeme, Misplaced, Placed},
    },
};

pub(crate) type Parsed<T> = Result<T, Misplaced>;

pub(crate) struct Parser<'p, 's> {
    pub(crate) rest: &'p [Placed<'s>],
    /// Where the lexemes end, for an error about something missing.
    pub(crate) end: usize,
    pub(crate) names: &'p mut Names<'s>,
    pub(crate) random: &'p mut bool,
    depth: usize,
}

impl<'p, 's> Parser<'p, 's> {
    pub(crate) fn new(
        rest: &'p [Placed<'s>],
        end: usize,
        names: &'p mut Names<'s>,
        random: &'p mut bool,
    ) -> Self {
        Self { rest, end, names, random, depth: 0 }
    }

    pub(crate) fn output(&mut self, position: usize) -> Parsed<Output> {
        let operand = self.operand()?;
        let calls = self.calls()?;
        Ok(Output { position, operand, calls })
    }

    pub(crate) fn calls(&mut self) -> Parsed<Vec<Call>> {
        let mut calls = Vec::new();
        while let Some((at, lexeme)) = self.next() {
            if !matches!(lexeme, Lexeme::Pipe | Lexeme::Comma) {
                return Err((at, "a | was expected before a filter"));
            }
            calls.push(self.call()?);
        }
        Ok(calls)
    }

    pub(crate) fn operand(&mut self) -> Parsed<Operand> {
        let Some((at, lexeme)) = self.next() else { return Err((self.end, "there is no value")) };
        match lexeme {
            Lexeme::Name("true") => Ok(Operand::Literal(Value::Bool(true))),
            Lexeme::Name("false") => Ok(Operand::Literal(Value::Bool(false))),
            Lexeme::Name("nil" | "null") => Ok(Operand::Literal(Value::Null)),
            Lexeme::Name("empty") => Ok(Operand::Empty),
            Lexeme::Name("blank") => Ok(Operand::Blank),
            Lexeme::Name("forloop") => self.loop_property(at),
            Lexeme::Name(name) => {
                let root = self.names.root(name, at)?;
                self.path(root)
            }
            Lexeme::Text(text) => Ok(Operand::Literal(Value::String(text.to_owned()))),
            Lexeme::Number(digits) => Ok(Operand::Literal(number(at, digits)?)),
            Lexeme::OpenParen => self.range(at),
            Lexeme::Relation(_)
            | Lexeme::Dot
            | Lexeme::Dots
            | Lexeme::Pipe
            | Lexeme::Colon
            | Lexeme::Comma
            | Lexeme::Equal
            | Lexeme::OpenBracket
            | Lexeme::CloseBracket
            | Lexeme::CloseParen => Err((at, "a value was expected")),
        }
    }

    fn path(&mut self, root: Root) -> Parsed<Operand> {
        let mut steps = Vec::new();
        while let Some((at, lexeme)) = self.peek() {
            match lexeme {
                Lexeme::Dot => {
                    self.next();
                    steps.push(Step::Name(self.property()?.to_owned()));
                }
                Lexeme::OpenBracket => {
                    self.next();
                    steps.push(self.index(at)?);
                }
                Lexeme::Name(_)
                | Lexeme::Text(_)
                | Lexeme::Number(_)
                | Lexeme::Relation(_)
                | Lexeme::Dots
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

    fn property(&mut self) -> Parsed<&'s str> {
        match self.next() {
            Some((_, Lexeme::Name(name) | Lexeme::Number(name))) => Ok(name),
            Some((_, Lexeme::Relation(crate::syntax::ast::Relation::Contains))) => Ok("contains"),
            Some((at, _)) => Err((at, "a property name was expected")),
            None => Err((self.end, "a property name was expected")),
        }
    }

    fn index(&mut self, at: usize) -> Parsed<Step> {
        let operand = self.nested(at, Self::operand)?;
        self.expect(Lexeme::CloseBracket, "a ] was expected")?;
        Ok(match operand {
            Operand::Literal(Value::String(name)) => Step::Name(name),
            Operand::Literal(Value::Number(number)) => match number.as_i64() {
                Some(index) => Step::At(index),
                None => return Err((at, "an index is a whole number")),
            },
            Operand::Literal(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_))
            | Operand::Empty
            | Operand::Blank
            | Operand::Range(_) => return Err((at, "an index is a number or a name")),
            Operand::Path(_) | Operand::Loop(_) => Step::Of(operand),
        })
    }

    fn range(&mut self, at: usize) -> Parsed<Operand> {
        let first = self.nested(at, Self::operand)?;
        self.expect(Lexeme::Dots, ".. was expected")?;
        let last = self.nested(at, Self::operand)?;
        self.expect(Lexeme::CloseParen, "a ) was expected")?;
        Ok(Operand::Range(Box::new((first, last))))
    }

    fn loop_property(&mut self, at: usize) -> Parsed<Operand> {
        if !self.names.in_loop() {
            return Err((at, "there is no loop here"));
        }
        self.expect(Lexeme::Dot, "forloop has only properties")?;
        let at = self.peek().map_or(self.end, |(at, _)| at);
        Ok(Operand::Loop(match self.property()? {
            "index" => LoopProperty::Index,
            "index0" => LoopProperty::Index0,
            "rindex" => LoopProperty::Rindex,
            "rindex0" => LoopProperty::Rindex0,
            "first" => LoopProperty::First,
            "last" => LoopProperty::Last,
            "length" => LoopProperty::Length,
            _ => return Err((at, "forloop has no such property")),
        }))
    }

    fn nested<T>(&mut self, at: usize, parse: fn(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > NESTING_MAX {
            return Err((at, "this is nested too deep"));
        }
        let parsed = parse(self)?;
        self.depth = self.depth.saturating_sub(1);
        Ok(parsed)
    }

    fn call(&mut self) -> Parsed<Call> {
        let at = self.peek().map_or(self.end, |(at, _)| at);
        let Some((_, Lexeme::Name(name))) = self.next() else {
            return Err((at, "a filter name was expected"));
        };
        let filter = filter::find(name).ok_or((at, "there is no such filter"))?;
        let arguments = self.arguments(filter)?;
        let given = arguments.iter().take(filter.required).all(Option::is_some);
        if !given || arguments.len() < filter.required || arguments.len() > filter.parameters.len()
        {
            return Err((at, "this filter takes another number of arguments"));
        }
        *self.random |= filter.random;
        let arguments: Vec<_> =
            arguments.into_iter().map(|it| it.unwrap_or(Operand::Literal(Value::Null))).collect();
        let query = match (filter.name, arguments.as_slice()) {
            ("json", [Operand::Literal(Value::String(path))]) => {
                Some(Box::new(Query::parse(path).map_err(|problem| (at, problem))?))
            }
            ("json", _) => return Err((at, "json takes a path in quotes")),
            ("date", [Operand::Literal(format)]) => {
                filter::check_date_format(format).map_err(|problem| (at, problem))?;
                None
            }
            _ => None,
        };
        Ok(Call { filter, arguments, query })
    }

    /// By the filter's parameters, whether they were named or not.
    fn arguments(&mut self, filter: &Filter) -> Parsed<Vec<Option<Operand>>> {
        let mut arguments: Vec<Option<Operand>> = Vec::new();
        if !matches!(self.peek(), Some((_, Lexeme::Colon))) {
            return Ok(arguments);
        }
        loop {
            self.next();
            let at = self.peek().map_or(self.end, |(at, _)| at);
            let place = match self.rest {
                [(_, Lexeme::Name(name)), (_, Lexeme::Colon | Lexeme::Equal), ..] => {
                    let place = filter.parameters.iter().position(|it| it == name);
                    self.next();
                    self.next();
                    place.ok_or((at, "this filter has no such parameter"))?
                }
                [] => return Err((self.end, "an argument was expected")),
                _ => arguments.len(),
            };
            let operand = self.operand()?;
            if place >= filter.parameters.len() {
                return Err((at, "this filter takes another number of arguments"));
            }
            while arguments.len() <= place {
                arguments.push(None);
            }
            match arguments.get_mut(place) {
                Some(free @ None) => *free = Some(operand),
                Some(Some(_)) | None => return Err((at, "this argument was given already")),
            }
            if !self.goes_on(filter) {
                return Ok(arguments);
            }
        }
    }

    /// Whether a comma brings another argument, and not a filter.
    fn goes_on(&self, filter: &Filter) -> bool {
        match self.rest {
            [(_, Lexeme::Comma), (_, Lexeme::Name(name)), after @ ..] => {
                let named = matches!(after, [(_, Lexeme::Colon | Lexeme::Equal), ..])
                    && filter.parameters.contains(name);
                named || filter::find(name).is_none()
            }
            [(_, Lexeme::Comma), ..] => true,
            _ => false,
        }
    }

    pub(crate) fn condition(&mut self) -> Parsed<Condition> {
        let mut terms = Vec::new();
        loop {
            let left = self.operand()?;
            let right = match self.peek() {
                Some((_, Lexeme::Relation(relation))) => {
                    self.next();
                    Some((relation, self.operand()?))
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

    pub(crate) fn expect(&mut self, expected: Lexeme<'_>, problem: &'static str) -> Parsed<()> {
        match self.next() {
            Some((_, found)) if found == expected => Ok(()),
            Some((at, _)) => Err((at, problem)),
            None => Err((self.end, problem)),
        }
    }

    pub(crate) fn finish(&self, problem: &'static str) -> Parsed<()> {
        self.peek().map_or(Ok(()), |(at, _)| Err((at, problem)))
    }

    pub(crate) fn peek(&self) -> Option<Placed<'s>> {
        self.rest.first().copied()
    }

    pub(crate) fn next(&mut self) -> Option<Placed<'s>> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }
}

/// As it is written, but for zeros in front, which JSON does not have.
fn number(at: usize, digits: &str) -> Parsed<Value> {
    let (sign, unsigned) = digits.strip_prefix('-').map_or(("", digits), |it| ("-", it));
    let trimmed = unsigned.trim_start_matches('0');
    let zero = if trimmed.is_empty() || trimmed.starts_with('.') { "0" } else { "" };
    let text = format!("{sign}{zero}{trimmed}");
    let number: Number = text.parse().map_err(|_| (at, "this is not a number"))?;
    Ok(Value::Number(number))
}
