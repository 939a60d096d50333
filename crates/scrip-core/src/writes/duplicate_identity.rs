//! The properties by which a write finds a duplicate, and whether it searches for one.

use scrip_seal::Fingerprint;

use crate::{
    card::TokenType,
    disclosure::{Deduplicate, shows_fingerprint},
    equality::Comparison,
    policy::Caller,
    token::TokenRecord,
};

/// The properties that duplicates have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DuplicateIdentity {
    token_type: TokenType,
    fingerprint: Fingerprint,
    containers: String,
}

impl DuplicateIdentity {
    /// `None` for a token without a fingerprint, which has no duplicate.
    pub(crate) fn of(record: &TokenRecord) -> Option<Self> {
        let (token_type, containers) = (record.token_type, record.containers.sorted_text());
        record.fingerprint.map(|fingerprint| Self { token_type, fingerprint, containers })
    }
}

pub(crate) fn requests_deduplication(
    caller: &Caller,
    requested: Option<bool>,
    token_type: TokenType,
) -> bool {
    let default = caller.tenant().settings.deduplicate_tokens;
    requested.unwrap_or(default) && shows_fingerprint(caller, token_type)
}

pub(crate) fn resolve_deduplication(
    caller: &Caller,
    requested: Option<bool>,
    record: &TokenRecord,
    comparison: Comparison,
) -> Deduplicate {
    if requests_deduplication(caller, requested, record.token_type) && record.fingerprint.is_some()
    {
        Deduplicate::Yes(comparison)
    } else {
        Deduplicate::No
    }
}
