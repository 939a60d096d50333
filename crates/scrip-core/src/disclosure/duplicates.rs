//! The keys by which a new token finds an existing duplicate.
//!
//! A duplicate has the same type, fingerprint and container set. It must also have expressions that
//! the request could have had. Otherwise a planted token with a constant fingerprint expression
//! would be returned for data of other callers, or would receive their data with planted search
//! indexes.
//!
//! Each stored token has at most two keys. The keys are digests of clear columns only, so they need
//! no secret. An engine finds a duplicate with at most two index lookups.

use scrip_seal::Checksum;

use crate::{card::TokenType, equality::Comparison, token::TokenRecord};

/// A digest of type, fingerprint, container set and the expression properties that must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DuplicateKey(pub [u8; 16]);

/// The duplicate keys of a stored token.
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
