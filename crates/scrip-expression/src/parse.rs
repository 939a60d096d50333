//! From text to a compiled expression.
//!
//! ```text
//! expression = ( text | "{{" value ( ("|" | ",") filter )* "}}" )*
//! value      = name ( "." name )* | text | number
//! filter     = name ( ":" value ( "," value )* )?
//! ```
//! A comma where a pipe was due is read as one: samples of the client libraries write it.

use serde_json::Value;

use crate::{
    ExpressionError, SOURCE_BYTES_MAX,
    filter::{self, Filter},
    lexeme::{Lexeme, Placed, lexemes},
};

/// Compiled once; evaluated against any number of scopes.
#[derive(Debug, Clone)]
pub struct Expression {
    pub(crate) parts: Vec<Part>,
}

#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(String),
    Output(Output),
}

/// One `{{ }}`.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) position: usize,
    pub(crate) operand: Operand,
    pub(crate) filters: Vec<Call>,
}

#[derive(Debug, Clone)]
pub(crate) enum Operand {
    Path(Vec<String>),
    Literal(Value),
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) filter: &'static Filter,
    pub(crate) arguments: Vec<Value>,
}

impl Expression {
    /// # Errors
    /// The text is too long, not well formed, or asks for something the language does not have.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(ExpressionError { position: 1, problem: "the expression is too long" });
        }
        let mut parts = Vec::new();
        let mut at = 0_usize;
        while let Some(rest) = source.get(at..).filter(|it| !it.is_empty()) {
            let fail = |byte, problem| ExpressionError::at(source, byte, problem);
            let opening = rest.find("{{").unwrap_or(rest.len());
            let text = rest.get(..opening).unwrap_or_default();
            if let Some(tag) = text.find("{%") {
                return Err(fail(at.saturating_add(tag), "tags are not available"));
            }
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
            at = at.saturating_add(opening);
            let Some(inner) = source.get(at.saturating_add(2)..) else { break };
            let end = closing(inner).ok_or_else(|| fail(at, "this {{ is never closed"))?;
            let start = at.saturating_add(2);
            let inner = inner.get(..end).unwrap_or_default();
            let found = lexemes(inner, start).map_err(|(byte, problem)| fail(byte, problem))?;
            let position = fail(at, "").position;
            let output = Parser { rest: &found, end: start.saturating_add(end) }
                .output(position)
                .map_err(|(byte, problem)| fail(byte, problem))?;
            parts.push(Part::Output(output));
            at = start.saturating_add(end).saturating_add(2);
        }
        Ok(Self { parts })
    }
}

/// Where `}}` stands, quoted text aside.
fn closing(inner: &str) -> Option<usize> {
    let mut quote = None;
    let mut previous_brace = false;
    for (at, c) in inner.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => (),
            (None, '\'' | '"') => quote = Some(c),
            (None, '}') if previous_brace => return at.checked_sub(1),
            (None, _) => (),
        }
        previous_brace = quote.is_none() && c == '}';
    }
    None
}

struct Parser<'a> {
    rest: &'a [Placed<'a>],
    /// Where the lexemes end, for an error about something missing.
    end: usize,
}

type Parsed<T> = Result<T, (usize, &'static str)>;

impl<'a> Parser<'a> {
    fn output(mut self, position: usize) -> Parsed<Output> {
        let operand = self.operand()?;
        let mut filters = Vec::new();
        while let Some((at, lexeme)) = self.next() {
            match lexeme {
                Lexeme::Pipe | Lexeme::Comma => filters.push(self.call()?),
                Lexeme::Name(_)
                | Lexeme::Text(_)
                | Lexeme::Number(_)
                | Lexeme::Dot
                | Lexeme::Colon => return Err((at, "a | was expected before a filter")),
            }
        }
        Ok(Output { position, operand, filters })
    }

    fn operand(&mut self) -> Parsed<Operand> {
        let Some((at, lexeme)) = self.next() else { return Err((self.end, "there is no value")) };
        match lexeme {
            Lexeme::Name("true") => Ok(Operand::Literal(Value::Bool(true))),
            Lexeme::Name("false") => Ok(Operand::Literal(Value::Bool(false))),
            Lexeme::Name("nil" | "null") => Ok(Operand::Literal(Value::Null)),
            Lexeme::Name(name @ ("data" | "metadata")) => self.path(name),
            Lexeme::Name(_) => Err((at, "only data and metadata can be named here")),
            Lexeme::Text(text) => Ok(Operand::Literal(Value::String(text.to_owned()))),
            Lexeme::Number(digits) => Ok(Operand::Literal(integer(at, digits)?)),
            Lexeme::Dot | Lexeme::Pipe | Lexeme::Colon | Lexeme::Comma => {
                Err((at, "a value was expected"))
            }
        }
    }

    fn path(&mut self, root: &str) -> Parsed<Operand> {
        let mut path = vec![root.to_owned()];
        while let Some((_, Lexeme::Dot)) = self.peek() {
            self.next();
            match self.next() {
                Some((_, Lexeme::Name(name) | Lexeme::Number(name))) => path.push(name.to_owned()),
                Some((at, _)) => return Err((at, "a property name was expected")),
                None => return Err((self.end, "a property name was expected")),
            }
        }
        Ok(Operand::Path(path))
    }

    fn call(&mut self) -> Parsed<Call> {
        let Some((at, Lexeme::Name(name))) = self.next() else {
            return Err((self.end, "a filter name was expected"));
        };
        let filter = filter::find(name).ok_or((at, "there is no such filter"))?;
        let arguments = self.arguments()?;
        if !filter.arguments.contains(&arguments.len()) {
            return Err((at, "this filter takes another number of arguments"));
        }
        Ok(Call { filter, arguments })
    }

    fn arguments(&mut self) -> Parsed<Vec<Value>> {
        let mut arguments = Vec::new();
        if !matches!(self.peek(), Some((_, Lexeme::Colon))) {
            return Ok(arguments);
        }
        loop {
            self.next();
            match self.next() {
                Some((_, Lexeme::Text(text))) => arguments.push(Value::String(text.to_owned())),
                Some((at, Lexeme::Number(digits))) => arguments.push(integer(at, digits)?),
                Some((at, _)) => return Err((at, "an argument is a quoted text or a number")),
                None => return Err((self.end, "an argument was expected")),
            }
            // A comma before a name is a pipe; before anything else it goes on with arguments.
            match self.rest {
                [(_, Lexeme::Comma), (_, Lexeme::Name(_)), ..] => return Ok(arguments),
                [(_, Lexeme::Comma), ..] => (),
                _ => return Ok(arguments),
            }
        }
    }

    fn peek(&self) -> Option<Placed<'a>> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<Placed<'a>> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }
}

fn integer(at: usize, digits: &str) -> Parsed<Value> {
    let number: i64 = digits.parse().map_err(|_| (at, "this number is too large"))?;
    Ok(Value::from(number))
}
