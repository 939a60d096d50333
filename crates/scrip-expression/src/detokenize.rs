//! JSON whose texts name tokens, and what becomes of it.
//!
//! ```text
//! {{ <id> | filters }}                a token's data
//! {{ token: <id> | filters }}         the whole token
//! {{ token_intent: <id> | filters }}  a token intent
//! ```
//! An id may have spaces, dots, colons, quotes and commas, but neither `|` nor `}`: it is everything
//! up to the first of these. A comma before the name of a filter is a pipe here as well; any other
//! belongs to the id. Read the wrong way, an id is unknown, so nothing shows that should not.
//! There are no tags and no whitespace control: a dash after `{{` is the id's own.

mod read;

use serde_json::{Map, Value};

use crate::{
    ExpressionError, OUTPUT_BYTES_MAX, Scope,
    evaluation::evaluate::{Rendered, Run},
    inner_steps::{count, count_value},
    outside::Outside,
    syntax::ast::Output,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReferenceKind {
    /// Only the data of a token.
    Data,
    /// A token with all its attributes.
    Token,
    TokenIntent,
}

/// A token or a token intent that an expression names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    pub kind: ReferenceKind,
    pub id: String,
}

/// Which text of the JSON cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafError {
    /// The names and places on the way to it, outermost first.
    pub path: Vec<PathStep>,
    pub cause: ExpressionError,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    Name(String),
    Index(usize),
}

/// A failure on its way out: the innermost step comes first.
type Outward<T> = Result<T, LeafError>;

impl From<ExpressionError> for LeafError {
    fn from(cause: ExpressionError) -> Self {
        Self { path: Vec::new(), cause }
    }
}

impl LeafError {
    fn within(mut self, step: PathStep) -> Self {
        self.path.push(step);
        self
    }

    fn outermost_first(mut self) -> Self {
        self.path.reverse();
        self
    }
}

/// JSON with its detokenization expressions compiled.
#[derive(Debug, Clone)]
pub struct Detokenization {
    form: Form,
    references: Vec<Reference>,
}

#[derive(Debug, Clone)]
enum Form {
    Literal(Value),
    /// A text that is one expression: it becomes the value itself.
    Lone(Piece),
    Text(Vec<Part>),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Piece(Piece),
}

#[derive(Debug, Clone)]
struct Piece {
    /// Which of the references.
    reference: usize,
    output: Output,
}

impl Detokenization {
    /// # Errors
    /// A text has an expression that is not well formed, or the JSON is too deep.
    pub fn parse(source: &Value) -> Result<Self, LeafError> {
        read::read(source).map_err(LeafError::outermost_first)
    }

    /// Each once, in the order of their first use.
    #[must_use]
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// How many tokens and token intents these are: one named in two ways counts once.
    #[must_use]
    pub fn token_count(&self) -> usize {
        let is_intent = |it: &Reference| it.kind == ReferenceKind::TokenIntent;
        let mut tokens: Vec<_> =
            self.references.iter().map(|it| (is_intent(it), it.id.as_str())).collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens.len()
    }

    /// `resolve` gives what each reference stands for. All leaves share one budget.
    ///
    /// # Errors
    /// There is nothing behind a reference, a filter cannot take its value, or a bound is passed.
    pub fn evaluate<'v>(
        &'v self,
        resolve: &dyn Fn(&Reference) -> Option<&'v Value>,
        outside: Option<&dyn Outside>,
    ) -> Result<Value, LeafError> {
        let mut scope = Scope::new(&Value::Null, None);
        scope.outside = outside;
        self.evaluate_in(resolve, &scope)
    }

    /// The same with the budget of a scope, whose data nothing sees.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn evaluate_in<'v>(
        &'v self,
        resolve: &dyn Fn(&Reference) -> Option<&'v Value>,
        scope: &Scope<'_>,
    ) -> Result<Value, LeafError> {
        let values: Vec<_> = self.references.iter().map(resolve).collect();
        let evaluation = Evaluation { scope, values: &values };
        evaluation.form(&self.form).map_err(LeafError::outermost_first)
    }
}

struct Evaluation<'e, 's> {
    scope: &'e Scope<'s>,
    values: &'e [Option<&'e Value>],
}

impl<'e> Evaluation<'e, '_> {
    fn form(&self, form: &'e Form) -> Outward<Value> {
        match form {
            Form::Literal(value) => {
                self.scope.budget.value(value).map_err(over)?;
                count_value(value);
                Ok(value.clone())
            }
            Form::Lone(piece) => Ok(self.run(piece)?.lone(&piece.output)?),
            Form::Text(parts) => Ok(Value::String(self.text(parts)?)),
            Form::Array(items) => {
                let item =
                    |(at, it)| self.form(it).map_err(|error| error.within(PathStep::Index(at)));
                Ok(Value::Array(items.iter().enumerate().map(item).collect::<Result<_, _>>()?))
            }
            Form::Object(properties) => {
                let mut object = Map::new();
                for (name, value) in properties {
                    self.scope.budget.bytes(name.len()).map_err(over)?;
                    count(name.len());
                    let within = |error: LeafError| error.within(PathStep::Name(name.clone()));
                    object.insert(name.clone(), self.form(value).map_err(within)?);
                }
                Ok(Value::Object(object))
            }
        }
    }

    /// The text around is the request's own; what the tokens add is bounded.
    fn text(&self, parts: &'e [Part]) -> Result<String, ExpressionError> {
        let mut rendered = Rendered { text: String::new(), bytes_max: OUTPUT_BYTES_MAX };
        for part in parts {
            match part {
                Part::Text(text) => {
                    rendered.bytes_max = rendered.bytes_max.saturating_add(text.len());
                    rendered.push(text, &self.scope.budget).map_err(over)?;
                }
                Part::Piece(piece) => self.run(piece)?.render(&piece.output, &mut rendered)?,
            }
        }
        Ok(rendered.text)
    }

    fn run(&self, piece: &Piece) -> Result<Run<'e>, ExpressionError> {
        let value = self.values.get(piece.reference).copied().flatten();
        let position = piece.output.position;
        let problem = "nothing has this id";
        Ok(Run::new(self.scope, value.ok_or(ExpressionError { position, problem })?, 0))
    }
}

fn over(problem: &'static str) -> ExpressionError {
    ExpressionError { position: 1, problem }
}
