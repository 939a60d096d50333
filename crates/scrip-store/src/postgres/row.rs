//! Rows, to and from records. Any row gives a value or an error.

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
use tokio_postgres::{Row, types::FromSql};
use uuid::Uuid;

use crate::sql::ColumnReader;

const UNKNOWN: StoreError = StoreError::Corrupt("a row does not have the columns we wrote");
pub(super) const NO_TOKEN: StoreError = StoreError::Corrupt("a token's row is not one of ours");

impl ColumnReader for Row {
    fn uuid(&self, at: usize) -> Result<Option<Uuid>, StoreError> {
        column(self, at)
    }

    fn number(&self, at: usize) -> Result<Option<i64>, StoreError> {
        column(self, at)
    }

    fn text(&self, at: usize) -> Result<Option<&str>, StoreError> {
        column(self, at)
    }

    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, StoreError> {
        column(self, at)
    }
}

pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, StoreError> {
    row.try_get(at).map_err(|_| UNKNOWN)
}

/// A digest or a mac.
pub(super) fn array<const N: usize>(row: &Row, at: usize) -> Result<[u8; N], StoreError> {
    column::<&[u8]>(row, at)?.try_into().map_err(|_| UNKNOWN)
}

pub(super) fn optional_array<const N: usize>(
    row: &Row,
    at: usize,
) -> Result<Option<[u8; N]>, StoreError> {
    let bytes: Option<&[u8]> = column(row, at)?;
    bytes.map(|it| it.try_into().map_err(|_| UNKNOWN)).transpose()
}

pub(super) fn time(row: &Row, at: usize) -> Result<Timestamp, StoreError> {
    column(row, at).map(|unix_ms| Timestamp { unix_ms })
}

pub(super) fn optional_time(row: &Row, at: usize) -> Result<Option<Timestamp>, StoreError> {
    let unix_ms: Option<i64> = column(row, at)?;
    Ok(unix_ms.map(|unix_ms| Timestamp { unix_ms }))
}

pub(super) fn sealed(row: &Row, at: usize) -> Result<Sealed, StoreError> {
    column(row, at).map(Sealed::from_stored)
}

/// In the order that [`stored_token`] reads them.
macro_rules! token_columns {
    () => {
        "tokens.number, tokens.id, tokens.type, tokens.fingerprint, tokens.containers, \
         tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at, \
         tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, cvcs.expires_at, \
         cvcs.sealed, tokens.expressions"
    };
}
pub(super) use token_columns;

/// Its number and the token.
pub(super) fn stored_token(row: &Row) -> Result<(i64, StoredToken), StoreError> {
    let modified = match (column(row, 7)?, optional_time(row, 8)?) {
        (Some(by), Some(at)) => Some(Modified { by: ApplicationId(by), at }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(NO_TOKEN),
    };
    let record = TokenRecord {
        id: TokenId::parse(column(row, 1)?).map_err(|_| NO_TOKEN)?,
        token_type: TokenType::parse(column(row, 2)?).ok_or(NO_TOKEN)?,
        fingerprint: optional_array(row, 3)?.map(Fingerprint),
        expressions: ExpressionMarks::from_bytes(column(row, 15)?).ok_or(NO_TOKEN)?,
        containers: containers(row, 4)?,
        created_by: ApplicationId(column(row, 5)?),
        created_at: time(row, 6)?,
        modified,
        expires_at: optional_time(row, 9)?,
        revision: column(row, 10)?,
        indexes: indexes(column(row, 11)?).ok_or(NO_TOKEN)?,
        body: sealed(row, 12)?,
    };
    Ok((column(row, 0)?, StoredToken { record, cvc: cvc(row, 13)? }))
}

/// Two columns, which are empty where there is no code.
pub(super) fn cvc(row: &Row, at: usize) -> Result<Option<CvcRecord>, StoreError> {
    let code: Option<Vec<u8>> = column(row, at.saturating_add(1))?;
    let code = optional_time(row, at)?.zip(code);
    Ok(code.map(|(expires_at, it)| CvcRecord { expires_at, sealed: Sealed::from_stored(it) }))
}

pub(super) fn containers(row: &Row, at: usize) -> Result<Containers, StoreError> {
    let text: &str = column(row, at)?;
    Containers::parse(text.split(',')).map_err(|_| NO_TOKEN)
}

pub(super) fn indexes(column: &[u8]) -> Option<Vec<IndexDigest>> {
    let (digests, rest) = column.as_chunks::<16>();
    rest.is_empty().then(|| digests.iter().copied().map(IndexDigest).collect())
}

/// As the column keeps them.
pub(super) fn index_bytes(indexes: &[IndexDigest]) -> Vec<u8> {
    indexes.iter().flat_map(|it| it.0).collect()
}
