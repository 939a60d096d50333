//! By which keys a new token finds one that is there already.
//!
//! A duplicate has the same type, fingerprint and container set. It must also have expressions that
//! the request could have had: otherwise a planted token with a constant fingerprint expression
//! would answer for other people's data, or absorb it under planted search indexes.
//!
//! Each stored token has at most two keys, which only repeat what its clear columns say, so they
//! need no secret. An engine finds a duplicate by at most two seeks.

use scrip_seal::Checksum;

use crate::token::{Deduplicate, TokenRecord, TokenType};

/// A digest of type, fingerprint, container set and what must be the same of the expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DuplicateKey(pub [u8; 16]);

/// The keys of a stored token, or those that a write looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DuplicateKeys {
    /// Of a stored token: by which a write that updates finds it, and every write if its
    /// expressions are trusted.
    pub key: Option<DuplicateKey>,
    /// Of a stored token: by which a write that only reads finds it. None if its expressions are
    /// trusted.
    pub read_key: Option<DuplicateKey>,
}

/// What a write looks for: the longest-lived match wins, then the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateLookup {
    /// Found in [`DuplicateKeys::key`].
    pub keys: [DuplicateKey; 2],
    /// Found in [`DuplicateKeys::read_key`].
    pub read_key: Option<DuplicateKey>,
}

impl DuplicateKeys {
    /// Of a token as it is stored.
    #[must_use]
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
    /// Nothing when the write does not deduplicate.
    #[must_use]
    pub fn for_write(record: &TokenRecord, deduplicate: Deduplicate) -> Option<Self> {
        record.fingerprint?;
        let trusted = trusted_key(record);
        match deduplicate {
            Deduplicate::No => None,
            Deduplicate::Yes => {
                let read_key = Some(same_fingerprint_expression_key(record));
                Some(Self { keys: [trusted, trusted], read_key })
            }
            Deduplicate::ReportExisting => {
                let keys = [trusted, same_expressions_key(record)];
                Some(Self { keys, read_key: None })
            }
        }
    }

    #[must_use]
    pub fn matches(&self, record: &TokenRecord) -> bool {
        let DuplicateKeys { key, read_key } = DuplicateKeys::from_record(record);
        let by_key = key.is_some_and(|it| self.keys.contains(&it));
        by_key || (read_key.is_some() && read_key == self.read_key)
    }
}

/// Data of type `token` has any form, so a planted text with the type's own expressions could be
/// equal to what another expression gives for other data. There the fingerprint expression must be
/// the same in any case.
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
    let mut sum = Checksum::new();
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
        sum.add(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        sum.add(part);
    }
    let mut key = [0; 16];
    for (to, from) in key.iter_mut().zip(sum.finish()) {
        *to = from;
    }
    DuplicateKey(key)
}
