//! The data of a token and the texts of its expressions, in which numbers are counted.

use scrip_expression::value_cost;
use zeroize::Zeroizing;

use crate::{card::TokenType, types::Plaintext};

/// The data of one token, and the texts that its fingerprint expression and search indexes
/// evaluated to.
pub(crate) struct EvaluatedNumbers<'a> {
    pub(crate) token_type: TokenType,
    pub(crate) data: &'a Plaintext,
    pub(crate) texts: &'a EvaluatedTexts,
    /// Whether the caller knows the data and the texts. What is counted of other data must follow
    /// from its mask.
    pub(crate) is_known: bool,
    /// The number of tokens in the request.
    pub(crate) tokens: usize,
}

impl EvaluatedNumbers<'_> {
    /// The length of what [`collect_token_numbers`](super::numbers::collect_token_numbers) reads. Data that the caller does not know has no
    /// part in it: the effect of the work would tell its length.
    pub(super) fn read_bytes(&self) -> usize {
        if !self.is_known {
            return 0;
        }
        let texts = self.texts.iter().map(|it| it.len());
        texts.fold(value_cost(self.data.expose()), usize::saturating_add)
    }
}

/// The texts that the expressions of one token evaluated to. They may contain numbers, so they are
/// wiped when dropped.
#[derive(Default)]
pub(crate) struct EvaluatedTexts {
    pub(crate) fingerprint: Option<FingerprintText>,
    pub(crate) indexes: Vec<Zeroizing<String>>,
    /// The id, if an expression computed it: a taken id confirms an equal value.
    pub(crate) id: Option<Zeroizing<String>>,
}

impl EvaluatedTexts {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Zeroizing<String>> {
        self.fingerprint.iter().map(|it| &it.text).chain(&self.indexes).chain(&self.id)
    }
}

pub(crate) struct FingerprintText {
    pub(crate) text: Zeroizing<String>,
    /// The text is from the expression of the token type, so it contains only the data.
    pub(crate) is_from_type_expression: bool,
}
