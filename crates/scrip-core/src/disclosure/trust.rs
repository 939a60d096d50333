//! The writer of a token's expressions, the trust that follows from it, and the keys by which a new token
//! finds an existing duplicate. Also who sees marked data.

use scrip_expression::Expression;
use scrip_seal::Checksum;
use serde_json::Value;

use crate::{
    Error, FieldError,
    card::TokenType,
    equality::Comparison,
    expression::compilation::compile,
    policy::{AccessTarget, Caller, has_reveal_right},
    token::{ExpressionProvenance, TokenBody, TokenPatch, TokenRecord},
    types::{DisclosureRule, DisclosureRules, Plaintext, error::Denial},
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
    /// The expressions that a patch sets. Without a reveal right, the caller can name an expression
    /// only unchanged ([`check_expression_change`]), which does not make it the author.
    pub(crate) fn patched(caller: &Caller, before: &TokenRecord, patch: &TokenPatch) -> Self {
        if !has_reveal_right(caller, before) {
            return Self { mask: false, search_indexes: false, fingerprint_expression: false };
        }
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

pub(super) fn is_type_fingerprint(token_type: TokenType, expression: &Expression) -> bool {
    expression.canonical_text() == token_type.default_fingerprint().canonical_text()
}

/// Whether a search index is over the last four digits, which every response about a card contains.
pub(crate) fn is_last4_index(token_type: TokenType, source: &str) -> bool {
    match token_type.secret_property() {
        _ if !token_type.is_card() => false,
        Some(_) => source == "{{ data.number | last4 }}",
        None => source == "{{ data | last4 }}",
    }
}

/// Whether responses show the fingerprint of this type to the caller. Data of type `token` is any
/// text, and a page could store each prefix of a text that a payer types.
pub(crate) fn shows_fingerprint(caller: &Caller, token_type: TokenType) -> bool {
    token_type != TokenType::Token || !caller.is_browser()
}

/// Whether a marked token or intent is hidden from the caller.
pub(crate) fn hides_marked(caller: &Caller, is_marked: bool) -> bool {
    is_marked && caller.is_browser()
}

/// Checks the data of a new or changed token or intent. If marked data is hidden from the caller, the
/// error has one text: otherwise each text that a payer types would have an answer of its own.
///
/// Errors: the data does not fit its type.
pub(crate) fn check_data(
    caller: &Caller,
    token_type: TokenType,
    data: &mut Plaintext,
    is_marked: bool,
) -> Result<(), Error> {
    let result = token_type.check(data.expose_mut(), caller.tenant().kind);
    result.map_err(|errors| match hides_marked(caller, is_marked) {
        true => FieldError::new("data", "does not fit its type").into(),
        false => Error::Invalid(errors),
    })
}

/// Whether a token or intent with encrypted data is marked. The caller chooses the type: as `token`, a
/// social security number would have a fingerprint that can be compared with uncounted guesses.
pub(crate) fn marks_encrypted(caller: &Caller, token_type: TokenType) -> bool {
    caller.is_browser() || token_type == TokenType::Token
}

/// Whether a write of a marked token or intent computes its fingerprint and its index entries.
pub(crate) fn may_digest_marked<'a>(caller: &Caller, target: impl Into<AccessTarget<'a>>) -> bool {
    !caller.is_browser() && has_reveal_right(caller, target)
}

/// A digest of type, fingerprint, container set and the expression properties that must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DuplicateKey(pub [u8; 16]);

/// The duplicate keys of a stored token.
///
/// A duplicate has the same type, fingerprint and container set. It must also have expressions that
/// the request could have had. Otherwise a planted token with a constant fingerprint expression
/// would be returned for data of other callers, or would receive their data with planted search
/// indexes.
///
/// Each stored token has at most two keys. They are digests of clear columns only, so they need no
/// secret. An engine finds a duplicate with at most two index lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DuplicateKeys {
    /// A write that may update finds the token by this key; if the expressions of the token are
    /// trusted, every write does.
    pub key: Option<DuplicateKey>,
    /// A write that only reads finds the token by this key. `None` if the expressions are trusted.
    pub read_key: Option<DuplicateKey>,
}

/// The keys that a write searches for. Of several matches, the one that expires
/// last wins; then the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateLookup {
    /// Compared with [`DuplicateKeys::key`].
    pub keys: [DuplicateKey; 2],
    /// Compared with [`DuplicateKeys::read_key`].
    pub read_key: Option<DuplicateKey>,
}

impl DuplicateKeys {
    /// The keys of a stored token.
    pub fn from_record(record: &TokenRecord) -> Self {
        if record.fingerprint.is_none() {
            return Self::default();
        }
        if record.expressions.trusted {
            return Self { key: Some(trusted_key(record)), read_key: None };
        }
        let key = Some(same_expressions_key(record));
        Self { key, read_key: Some(same_fingerprint_expression_key(record)) }
    }
}

impl DuplicateLookup {
    /// `None` when the write does not deduplicate.
    pub fn for_write(record: &TokenRecord, deduplicate: Deduplicate) -> Option<Self> {
        record.fingerprint?;
        let trusted = trusted_key(record);
        match deduplicate {
            Deduplicate::No => None,
            Deduplicate::Yes(_) => {
                let read_key = Some(same_fingerprint_expression_key(record));
                Some(Self { keys: [trusted, trusted], read_key })
            }
            Deduplicate::ReportExisting(_) => {
                let keys = [trusted, same_expressions_key(record)];
                Some(Self { keys, read_key: None })
            }
        }
    }

    pub fn matches(&self, record: &TokenRecord) -> bool {
        let DuplicateKeys { key, read_key } = DuplicateKeys::from_record(record);
        let has_matching_key = key.is_some_and(|it| self.keys.contains(&it));
        has_matching_key || (read_key.is_some() && read_key == self.read_key)
    }
}

/// The key of a token with trusted expressions. Data of type `token` has any shape, so planted text
/// with the default expressions could equal the result of another expression on other data. For
/// this type, the fingerprint expression must always be the same.
fn trusted_key(record: &TokenRecord) -> DuplicateKey {
    if record.token_type == TokenType::Token {
        return duplicate_key(record, b"trusted", &record.expressions.fingerprint_digest.0);
    }
    duplicate_key(record, b"trusted", &[])
}

fn same_expressions_key(record: &TokenRecord) -> DuplicateKey {
    duplicate_key(record, b"all", &record.expressions.all_digest.0)
}

fn same_fingerprint_expression_key(record: &TokenRecord) -> DuplicateKey {
    duplicate_key(record, b"fingerprint", &record.expressions.fingerprint_digest.0)
}

fn duplicate_key(record: &TokenRecord, kind: &[u8], expressions: &[u8]) -> DuplicateKey {
    let mut checksum = Checksum::new();
    let containers = record.containers.sorted_text();
    let fingerprint = record.fingerprint.map(|it| it.0).unwrap_or_default();
    let parts: [&[u8]; 5] = [
        record.token_type.as_str().as_bytes(),
        &fingerprint,
        containers.as_bytes(),
        kind,
        expressions,
    ];
    for part in parts {
        checksum.add(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        checksum.add(part);
    }
    let mut key = [0; 16];
    for (target, byte) in key.iter_mut().zip(checksum.finish()) {
        *target = byte;
    }
    DuplicateKey(key)
}

/// The action of a write if an equal token exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deduplicate {
    /// Does not search for duplicates.
    No,
    /// Uses the existing token instead.
    Yes(Comparison),
    /// Rejects the batch and reports the existing token; the caller decides.
    ReportExisting(Comparison),
}
