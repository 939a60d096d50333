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

use serde_json::Value;

use crate::{
    ExpressionError, LeafError, OUTPUT_BYTES_MAX, Scope,
    evaluation::evaluate::{Rendered, Run},
    json_tree::{JsonTree, whole},
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

/// JSON with its detokenization expressions compiled.
#[derive(Debug, Clone)]
pub struct Detokenization {
    form: JsonTree<Leaf>,
    references: Vec<Reference>,
}

#[derive(Debug, Clone)]
enum Leaf {
    /// A text that is one expression: it becomes the value itself.
    Lone(Piece),
    Text(Vec<Part>),
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
        read::read(source)
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

    /// `resolve` gives what each reference stands for. All leaves share the budget of the scope, whose
    /// data nothing sees.
    ///
    /// # Errors
    /// There is nothing behind a reference, a filter cannot take its value, or a bound is passed.
    pub fn evaluate<'v>(
        &'v self,
        resolve: &dyn Fn(&Reference) -> Option<&'v Value>,
        scope: &Scope<'_>,
    ) -> Result<Value, LeafError> {
        let values: Vec<_> = self.references.iter().map(resolve).collect();
        let evaluation = Evaluation { scope, values: &values };
        self.form.evaluate(&scope.budget, &|leaf| evaluation.leaf(leaf))
    }
}

struct Evaluation<'e, 's> {
    scope: &'e Scope<'s>,
    values: &'e [Option<&'e Value>],
}

impl<'e> Evaluation<'e, '_> {
    fn leaf(&self, leaf: &'e Leaf) -> Result<Value, ExpressionError> {
        match leaf {
            Leaf::Lone(piece) => self.run(piece)?.lone(&piece.output),
            Leaf::Text(parts) => self.text(parts).map(Value::String),
        }
    }

    /// The text around is the request's own; what the tokens add is bounded.
    fn text(&self, parts: &'e [Part]) -> Result<String, ExpressionError> {
        let mut rendered = Rendered { text: String::new(), bytes_max: OUTPUT_BYTES_MAX };
        for part in parts {
            match part {
                Part::Text(text) => {
                    rendered.bytes_max = rendered.bytes_max.saturating_add(text.len());
                    rendered.push(text, &self.scope.budget).map_err(whole)?;
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
