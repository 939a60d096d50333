//! A token's row, to and from its record.

use rusqlite::{Row, types::ValueRef};
use scrip_core::{
    container::Containers,
    cvc::CvcRecord,
    disclosure::ExpressionMarks,
    id::{ApplicationId, TokenId},
    store::{Modified, StoreError, StoredToken, TokenRecord},
    time::Timestamp,
    token_type::TokenType,
};
use scrip_seal::{Fingerprint, IndexDigest, Sealed};
use uuid::Uuid;

use crate::sqlite::fault;

/// In the order that [`stored_token`] reads them.
macro_rules! token_columns {
    () => {
        "tokens.seq, tokens.id, tokens.type, tokens.fingerprint, tokens.containers, \
         tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at, \
         tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, cvcs.expires_at, cvcs.sealed, \
         tokens.expressions \
         FROM tokens LEFT JOIN cvcs ON cvcs.token = tokens.seq"
    };
}
pub(super) use token_columns;

/// The row's number and the token. Any row gives a value or an error.
pub(super) fn stored_token(row: &Row<'_>) -> Result<(i64, StoredToken), StoreError> {
    let corrupt = || StoreError::Corrupt("a token's row is not one of ours");
    let text = |at: usize| -> Result<&str, StoreError> {
        row.get_ref(at).map_err(fault)?.as_str().map_err(|_| corrupt())
    };
    let modified = match (row.get(7).map_err(fault)?, row.get(8).map_err(fault)?) {
        (Some(by), Some(at)) => {
            Some(Modified { by: ApplicationId(uuid(by)), at: Timestamp { unix_ms: at } })
        }
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(corrupt()),
    };
    let fingerprint: Option<[u8; 32]> = row.get(3).map_err(fault)?;
    let expires_at: Option<i64> = row.get(9).map_err(fault)?;
    let record = TokenRecord {
        id: TokenId::parse(text(1)?).map_err(|_| corrupt())?,
        token_type: TokenType::parse(text(2)?).ok_or_else(corrupt)?,
        fingerprint: fingerprint.map(Fingerprint),
        expressions: expressions(row.get_ref(15).map_err(fault)?).ok_or_else(corrupt)?,
        containers: Containers::parse(text(4)?.split(',')).map_err(|_| corrupt())?,
        created_by: ApplicationId(uuid(row.get(5).map_err(fault)?)),
        created_at: Timestamp { unix_ms: row.get(6).map_err(fault)? },
        modified,
        expires_at: expires_at.map(|unix_ms| Timestamp { unix_ms }),
        revision: row.get(10).map_err(fault)?,
        indexes: indexes(row.get_ref(11).map_err(fault)?).ok_or_else(corrupt)?,
        body: Sealed::from_stored(row.get(12).map_err(fault)?),
    };
    let cvc = match (row.get(13).map_err(fault)?, row.get(14).map_err(fault)?) {
        (Some(unix_ms), Some(sealed)) => Some(CvcRecord {
            expires_at: Timestamp { unix_ms },
            sealed: Sealed::from_stored(sealed),
        }),
        (_, _) => None,
    };
    Ok((row.get(0).map_err(fault)?, StoredToken { record, cvc }))
}

pub(super) fn indexes(column: ValueRef<'_>) -> Option<Vec<IndexDigest>> {
    let (digests, rest) = column.as_blob().ok()?.as_chunks::<16>();
    rest.is_empty().then(|| digests.iter().copied().map(IndexDigest).collect())
}

pub(super) fn expressions(column: ValueRef<'_>) -> Option<ExpressionMarks> {
    ExpressionMarks::from_bytes(column.as_blob().ok()?)
}

/// As the column keeps them.
pub(super) fn index_bytes(indexes: &[IndexDigest]) -> Vec<u8> {
    indexes.iter().flat_map(|it| it.0).collect()
}

pub(super) fn uuid(bytes: [u8; 16]) -> Uuid {
    Uuid::from_bytes(bytes)
}
