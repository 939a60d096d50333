//! JSON with detokenization expressions in its strings.
//!
//! ```text
//! {{ <id> | filters }}                a token's data
//! {{ token: <id> | filters }}         the whole token
//! {{ token_intent: <id> | filters }}  a token intent
//! ```
//! An id may contain spaces, dots, colons, quotes and commas, but neither `|` nor `}`: it ends at
//! the first of these. A comma before the name of a filter acts as a pipe here too; any other comma
//! belongs to the id. If an id is split wrongly, it is unknown, so no data is revealed by mistake.
//! There are no tags and no whitespace control: a dash after `{{` belongs to the id.

mod leaf;
pub(crate) mod reader;
pub(crate) mod reference;

use serde_json::Value;

pub use self::reference::{Reference, ReferenceKind};
use self::{
    leaf::{Leaf, ReferenceOutput, TextPart},
    reader::DetokenizationReader,
};
use crate::{
    ExpressionError, JSON_DEPTH_MAX, LeafError, OUTPUT_BYTES_MAX, Scope,
    evaluation::evaluate::{BoundedText, Evaluator},
    json_tree::{JsonTree, root_error},
};

/// JSON with its detokenization expressions compiled.
#[derive(Debug, Clone)]
pub struct Detokenization {
    root: JsonTree<Leaf>,
    references: Vec<Reference>,
}

impl Detokenization {
    /// Errors: a string contains an invalid expression, or the JSON is nested too deep.
    pub fn parse(source: &Value) -> Result<Self, LeafError> {
        let mut reader = DetokenizationReader::default();
        let mut leaf = |text: &str| text.contains("{{").then(|| reader.read_text(text));
        let root = JsonTree::compile(source, &mut leaf, JSON_DEPTH_MAX)?;
        Ok(Self { root, references: reader.references })
    }

    /// The distinct references, in the order of their first use.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The number of distinct tokens and token intents. A token that is referenced in two ways
    /// counts once.
    pub fn token_count(&self) -> usize {
        let is_intent = |it: &Reference| it.kind == ReferenceKind::TokenIntent;
        let mut tokens: Vec<_> =
            self.references.iter().map(|it| (is_intent(it), it.id.as_str())).collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens.len()
    }

    /// `resolve` returns the value of each reference. All leaves share the budget of the scope; the
    /// data of the scope is not accessible.
    ///
    /// Errors: a reference is unknown, a filter rejects its value, or a limit is exceeded.
    pub fn evaluate<'v>(
        &'v self,
        resolve: &dyn Fn(&Reference) -> Option<&'v Value>,
        scope: &Scope<'_>,
    ) -> Result<Value, LeafError> {
        let values: Vec<_> = self.references.iter().map(resolve).collect();
        let evaluation = DetokenizationEvaluator { scope, values: &values };
        self.root.evaluate(&scope.budget, &|leaf| evaluation.leaf(leaf))
    }
}

struct DetokenizationEvaluator<'e, 's> {
    scope: &'e Scope<'s>,
    values: &'e [Option<&'e Value>],
}

impl<'e> DetokenizationEvaluator<'e, '_> {
    fn leaf(&self, leaf: &'e Leaf) -> Result<Value, ExpressionError> {
        match leaf {
            Leaf::Expression(piece) => self.evaluator_for(piece)?.evaluate_to_value(&piece.output),
            Leaf::Text(parts) => self.evaluate_text(parts).map(Value::String),
        }
    }

    /// Only the output of the expressions is limited; the text between them comes from the request.
    fn evaluate_text(&self, parts: &'e [TextPart]) -> Result<String, ExpressionError> {
        let mut rendered = BoundedText { text: String::new(), bytes_max: OUTPUT_BYTES_MAX };
        for part in parts {
            match part {
                TextPart::Text(text) => {
                    rendered.bytes_max = rendered.bytes_max.saturating_add(text.len());
                    rendered.push(text, &self.scope.budget).map_err(root_error)?;
                }
                TextPart::Expression(piece) => {
                    self.evaluator_for(piece)?.render_output(&piece.output, &mut rendered)?
                }
            }
        }
        Ok(rendered.text)
    }

    fn evaluator_for(
        &self,
        expression: &ReferenceOutput,
    ) -> Result<Evaluator<'e>, ExpressionError> {
        let value = self.values.get(expression.reference).copied().flatten();
        let position = expression.output.position;
        let problem = "no token has this id";
        Ok(Evaluator::new(self.scope, value.ok_or(ExpressionError { position, problem })?, 0))
    }
}
