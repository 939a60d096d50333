//! Who wrote a token's expressions, and what follows from it.

use scrip_expression::Expression;
use serde_json::Value;

use crate::{
    error::{Denial, Error},
    policy::Caller,
    token::{
        ExpressionProvenance, TokenBody, TokenPatch, TokenRecord, TokenType, WorkMeter,
        disclosure::{
            DisclosureRule, DisclosureRules, has_reveal_right, is_harmless_fingerprint,
            is_last4_index,
        },
        expression::compilation::compile,
    },
};

/// The flags that a write stores next to the digests of a token's expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpressionTrust {
    /// A caller with a reveal right wrote all expressions that differ from the type's own.
    trusted: bool,
    browser_chose_id: bool,
}

/// Some of the expressions of a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpressionSet {
    mask: bool,
    search_indexes: bool,
    fingerprint_expression: bool,
}

impl ExpressionSet {
    /// Those that a patch names.
    pub(crate) fn patched(patch: &TokenPatch) -> Self {
        Self {
            mask: patch.mask.is_some(),
            search_indexes: patch.search_indexes.is_some(),
            fingerprint_expression: patch.fingerprint_expression.is_some(),
        }
    }

    /// Those that say no more than the type's own do.
    fn types_own(work: &WorkMeter, token_type: TokenType, body: &TokenBody) -> Self {
        let own = token_type.default_indexes();
        let harmless = |it: &String| own.contains(it) || is_last4_index(token_type, it);
        let is_own = |it: &String| {
            it == token_type.default_fingerprint_expression()
                || canonical(work, it) == token_type.default_fingerprint().canonical_text()
        };
        Self {
            mask: body.mask.is_none(),
            search_indexes: body.search_indexes.iter().flatten().all(harmless),
            fingerprint_expression: body.fingerprint_expression.as_ref().is_none_or(is_own),
        }
    }

    /// Those that tell nothing about data that a stranger sent.
    fn harmless(work: &WorkMeter, token_type: TokenType, body: &TokenBody) -> Self {
        let own = Self::types_own(work, token_type, body);
        let is_harmless = |it: &String| {
            compile(work, it).is_ok_and(|it| is_harmless_fingerprint(token_type, &it))
        };
        Self {
            // The mask of a card sees BIN and last four only.
            mask: own.mask || token_type.is_card(),
            fingerprint_expression: own.fingerprint_expression
                || body.fingerprint_expression.as_ref().is_none_or(is_harmless),
            ..own
        }
    }

    /// Whether every expression that differs from the type's own is one of these. `body` has the
    /// patched expressions.
    pub(crate) fn covers_all_custom(
        self,
        work: &WorkMeter,
        token_type: TokenType,
        body: &TokenBody,
    ) -> bool {
        let own = Self::types_own(work, token_type, body);
        (own.mask || self.mask)
            && (own.search_indexes || self.search_indexes)
            && (own.fingerprint_expression || self.fingerprint_expression)
    }

    pub(crate) fn is_empty(self) -> bool {
        !self.mask && !self.search_indexes && !self.fingerprint_expression
    }

    fn is_complete(self) -> bool {
        self.mask && self.search_indexes && self.fingerprint_expression
    }
}

impl ExpressionTrust {
    /// A create sets every expression.
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

    /// `body` has the patched expressions, `after` the new containers.
    pub(crate) fn after_patch(
        caller: &Caller,
        before: &TokenRecord,
        after: &TokenRecord,
        body: &TokenBody,
        patched: ExpressionSet,
    ) -> Self {
        let may_reveal = has_reveal_right(caller, after);
        let sets_all = patched.covers_all_custom(caller.work(), after.token_type, body);
        let moves = before.containers.sorted_text() != after.containers.sorted_text();
        let trusted = match (may_reveal, sets_all, moves) {
            (true, true, _) => true,
            (false, _, true) => false,
            (true, false, _) | (false, _, false) => before.expressions.trusted,
        };
        Self { trusted, browser_chose_id: before.expressions.browser_chose_id }
    }

    /// What the token's row says of them. Called once they are known to be expressions.
    pub(crate) fn to_provenance(
        self,
        caller: &Caller,
        token_type: TokenType,
        body: &TokenBody,
        rules: DisclosureRules,
    ) -> ExpressionProvenance {
        let trusted = self.trusted
            || ExpressionSet::types_own(caller.work(), token_type, body).is_complete()
            || !rules.applies(DisclosureRule::MatchingExpressions);
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
            trusted,
            browser_chose_id: self.browser_chose_id,
        }
    }
}

/// Spaces do not count, and the type's own is the same whether it is written out or left out.
fn canonical_fingerprint_expression(
    work: &WorkMeter,
    token_type: TokenType,
    body: &TokenBody,
) -> String {
    match &body.fingerprint_expression {
        None => token_type.default_fingerprint().canonical_text(),
        Some(source) => canonical(work, source),
    }
}

fn canonical(work: &WorkMeter, source: &str) -> String {
    // What cannot be parsed was refused before; its text would do for a comparison.
    compile(work, source).map_or_else(|_| source.to_owned(), |it| Expression::canonical_text(&it))
}

/// Whether two tokens with such an expression and one fingerprint have the same secret.
pub(crate) fn has_default_fingerprint_expression(
    work: &WorkMeter,
    token_type: TokenType,
    body: &TokenBody,
) -> bool {
    ExpressionSet::types_own(work, token_type, body).fingerprint_expression
}

/// When an application other than their writer replaces the secret, expressions fall back to the
/// type's own: a stranger may have planted them under an id that is easy to guess. All browsers with
/// the key of one public application are strangers to each other, so of expressions that came from
/// there only those stay that are harmless on anybody's data.
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
    let stays = ExpressionSet::harmless(caller.work(), before.token_type, body);
    if !(patched.mask || is_writer && stays.mask) {
        body.mask = None;
    }
    if !(patched.search_indexes || is_writer && stays.search_indexes) {
        body.search_indexes = None;
    }
    if !(patched.fingerprint_expression || is_writer && stays.fingerprint_expression) {
        body.fingerprint_expression = None;
    }
    body.expressions_writer = Some(application);
}

/// A new expression over data that the caller may not read would be a way to read it.
///
/// # Errors
/// The patch changes an expression, and the caller has no reveal right on the token.
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
        let unchanged = mask.clone();
        json_patch::merge(&mut mask, it);
        mask != unchanged
    });
    let fingerprint_changes = patch.fingerprint_expression.as_ref().is_some_and(|it| {
        let own = token_type.default_fingerprint_expression();
        it.as_deref().unwrap_or(own) != body.fingerprint_expression.as_deref().unwrap_or(own)
    });
    let indexes_change = patch.search_indexes.as_ref().is_some_and(|it| {
        let own = token_type.default_indexes();
        it.as_deref().unwrap_or(own) != body.search_indexes.as_deref().unwrap_or(own)
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

pub(crate) fn effective_mask(token_type: TokenType, body: &TokenBody) -> Value {
    let own = || token_type.default_mask().cloned().unwrap_or_default();
    body.mask.clone().unwrap_or_else(own)
}
