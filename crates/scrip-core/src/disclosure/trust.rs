//! The writer of a token's expressions, and the trust that follows from it.

use scrip_expression::Expression;
use serde_json::Value;

use crate::{
    Error,
    card::TokenType,
    disclosure::is_last4_index,
    expression::compilation::compile,
    policy::{Caller, has_reveal_right},
    token::{ExpressionProvenance, TokenBody, TokenPatch, TokenRecord},
    types::{DisclosureRule, DisclosureRules, error::Denial},
    work_meter::WorkMeter,
};

/// The flags that a write stores with the digests of a token's expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpressionTrust {
    /// A caller with a reveal right wrote all expressions that differ from the defaults of the
    /// type.
    trusted: bool,
    browser_chose_id: bool,
}

/// A subset of the expressions of a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpressionSet {
    mask: bool,
    search_indexes: bool,
    fingerprint_expression: bool,
}

impl ExpressionSet {
    /// The expressions that a patch names.
    pub(crate) fn patched(patch: &TokenPatch) -> Self {
        Self {
            mask: patch.mask.is_some(),
            search_indexes: patch.search_indexes.is_some(),
            fingerprint_expression: patch.fingerprint_expression.is_some(),
        }
    }

    /// The expressions that reveal no more than the defaults of the type.
    fn equal_to_defaults(work: &WorkMeter, token_type: TokenType, body: &TokenBody) -> Self {
        let default_indexes = token_type.default_indexes();
        let is_harmless_index =
            |it: &String| default_indexes.contains(it) || is_last4_index(token_type, it);
        let is_default = |it: &String| {
            it == token_type.default_fingerprint_expression()
                || canonical_source_text(work, it)
                    == token_type.default_fingerprint().canonical_text()
        };
        Self {
            mask: body.mask.is_none(),
            search_indexes: body.search_indexes.iter().flatten().all(is_harmless_index),
            fingerprint_expression: body.fingerprint_expression.as_ref().is_none_or(is_default),
        }
    }

    /// The expressions that reveal nothing about data of another caller.
    fn harmless(work: &WorkMeter, token_type: TokenType, body: &TokenBody) -> Self {
        let defaults = Self::equal_to_defaults(work, token_type, body);
        Self {
            // The mask of a card sees only BIN and last four.
            mask: defaults.mask || token_type.is_card(),
            ..defaults
        }
    }

    /// Whether the set contains every expression that differs from the defaults of the type. `body`
    /// has the patched expressions.
    pub(crate) fn covers_all_custom(
        self,
        work: &WorkMeter,
        token_type: TokenType,
        body: &TokenBody,
    ) -> bool {
        let defaults = Self::equal_to_defaults(work, token_type, body);
        (defaults.mask || self.mask)
            && (defaults.search_indexes || self.search_indexes)
            && (defaults.fingerprint_expression || self.fingerprint_expression)
    }

    pub(crate) fn is_empty(self) -> bool {
        !self.mask && !self.search_indexes && !self.fingerprint_expression
    }

    fn is_complete(self) -> bool {
        self.mask && self.search_indexes && self.fingerprint_expression
    }
}

impl ExpressionTrust {
    /// The trust after a create request, which sets every expression.
    pub(crate) fn for_created_token(
        caller: &Caller,
        token: &TokenRecord,
        chooses_id: bool,
    ) -> Self {
        Self {
            trusted: has_reveal_right(caller, &token.containers),
            browser_chose_id: chooses_id && caller.is_browser(),
        }
    }

    /// The trust after a patch. `body` has the patched expressions, `after` the new containers.
    pub(crate) fn after_patch(
        caller: &Caller,
        before: &TokenRecord,
        after: &TokenRecord,
        body: &TokenBody,
        patched: ExpressionSet,
    ) -> Self {
        let may_reveal = has_reveal_right(caller, after);
        let sets_all = patched.covers_all_custom(caller.work(), after.token_type, body);
        let is_move = before.containers.sorted_text() != after.containers.sorted_text();
        let trusted = match (may_reveal, sets_all, is_move) {
            (true, true, _) => true,
            (false, _, true) => false,
            (true, false, _) | (false, _, false) => before.expressions.trusted,
        };
        Self { trusted, browser_chose_id: before.expressions.browser_chose_id }
    }

    /// The provenance for the token's row. Call it after the expressions are known to be valid.
    pub(crate) fn to_provenance(
        self,
        caller: &Caller,
        token_type: TokenType,
        body: &TokenBody,
        rules: DisclosureRules,
    ) -> ExpressionProvenance {
        let trusted = self.trusted
            || ExpressionSet::equal_to_defaults(caller.work(), token_type, body).is_complete()
            || !rules.applies(DisclosureRule::MatchingExpressions);
        let provenance = ExpressionProvenance {
            trusted,
            browser_chose_id: self.browser_chose_id,
            ..ExpressionProvenance::default()
        };
        with_expression_digests(provenance, caller, token_type, body)
    }
}

/// Computes the digests of the expressions with the keys of the caller's tenant.
pub(crate) fn with_expression_digests(
    provenance: ExpressionProvenance,
    caller: &Caller,
    token_type: TokenType,
    body: &TokenBody,
) -> ExpressionProvenance {
    let (tenant, work) = (caller.tenant(), caller.work());
    let fingerprint = canonical_fingerprint_expression(work, token_type, body);
    let mask = body.mask.as_ref().map(Value::to_string).unwrap_or_default();
    let indexes = body.search_indexes.as_deref();
    let indexes = indexes.unwrap_or_else(|| token_type.default_indexes());
    let mut sources: Vec<&[u8]> = vec![fingerprint.as_bytes(), mask.as_bytes()];
    sources.extend(indexes.iter().map(String::as_bytes));
    ExpressionProvenance {
        all_digest: tenant.keys.expression_digest(&sources),
        fingerprint_digest: tenant.keys.expression_digest(&[fingerprint.as_bytes()]),
        ..provenance
    }
}

/// The canonical text of the fingerprint expression. It does not depend on whitespace, and an
/// explicit default has the same text as an absent expression.
fn canonical_fingerprint_expression(
    work: &WorkMeter,
    token_type: TokenType,
    body: &TokenBody,
) -> String {
    match &body.fingerprint_expression {
        None => token_type.default_fingerprint().canonical_text(),
        Some(source) => canonical_source_text(work, source),
    }
}

fn canonical_source_text(work: &WorkMeter, source: &str) -> String {
    // An invalid expression was rejected before; its text is good enough for a comparison.
    compile(work, source).map_or_else(|_| source.to_owned(), |it| Expression::canonical_text(&it))
}

/// Whether two tokens with this expression and the same fingerprint have the same secret.
pub(crate) fn has_default_fingerprint_expression(
    work: &WorkMeter,
    token_type: TokenType,
    body: &TokenBody,
) -> bool {
    ExpressionSet::equal_to_defaults(work, token_type, body).fingerprint_expression
}

/// Resets expressions to the defaults of the type when another application than their writer
/// replaces the secret, because an attacker may have planted them under an id that is easy to
/// guess. All browsers share the key of a public application and do not trust each other. Of its
/// expressions, only those remain that are harmless on any data.
pub(crate) fn drop_inherited_expressions(
    caller: &Caller,
    before: &TokenRecord,
    body: &mut TokenBody,
    patched: ExpressionSet,
) {
    let application = caller.application();
    if before.expressions.trusted {
        return;
    }
    let is_writer = body.expressions_writer == Some(application);
    if is_writer && !caller.is_browser() {
        return;
    }
    let harmless = ExpressionSet::harmless(caller.work(), before.token_type, body);
    if !(patched.mask || is_writer && harmless.mask) {
        body.mask = None;
    }
    if !(patched.search_indexes || is_writer && harmless.search_indexes) {
        body.search_indexes = None;
    }
    if !(patched.fingerprint_expression || is_writer && harmless.fingerprint_expression) {
        body.fingerprint_expression = None;
    }
    body.expressions_writer = Some(application);
}

/// Checks the changes of expressions. A new expression over data that the caller may not read would
/// give the caller a way to read it.
///
/// Errors: the patch changes an expression, and the caller has no reveal right on the token.
pub(crate) fn check_expression_change(
    caller: &Caller,
    before: &TokenRecord,
    body: &TokenBody,
    patch: &TokenPatch,
) -> Result<(), Error> {
    if has_reveal_right(caller, before) {
        return Ok(());
    }
    let token_type = before.token_type;
    let mask_changes = patch.mask.as_ref().is_some_and(|it| {
        let mut mask = effective_mask(token_type, body);
        let mask_before = mask.clone();
        json_patch::merge(&mut mask, it);
        mask != mask_before
    });
    let fingerprint_changes = patch.fingerprint_expression.as_ref().is_some_and(|it| {
        let default = token_type.default_fingerprint_expression();
        let current = body.fingerprint_expression.as_deref().unwrap_or(default);
        it.as_deref().unwrap_or(default) != current
    });
    let indexes_change = patch.search_indexes.as_ref().is_some_and(|it| {
        let default = token_type.default_indexes();
        it.as_deref().unwrap_or(default) != body.search_indexes.as_deref().unwrap_or(default)
    });
    let changes = [
        ("mask", mask_changes),
        ("fingerprint_expression", fingerprint_changes),
        ("search_indexes", indexes_change),
    ];
    match changes.into_iter().find(|(_, changed)| *changed) {
        Some((attribute, _)) => Err(Error::Forbidden(Denial::NeedsReveal(attribute))),
        None => Ok(()),
    }
}

/// The mask of the token, or the default mask of its type.
pub(crate) fn effective_mask(token_type: TokenType, body: &TokenBody) -> Value {
    let default_mask = || token_type.default_mask().cloned().unwrap_or_default();
    body.mask.clone().unwrap_or_else(default_mask)
}
