//! Conversion between a token's row and its record.

use scrip_core::{
    disclosure::{DuplicateKey, DuplicateKeys},
    token::{CvcRecord, StoredToken, TokenModification, TokenRecord},
    types::{StoreError, id::TenantId},
};
use scrip_seal::IndexDigest;

use crate::sql::{
    ColumnReader, MISSING_COLUMNS, Parameter, parameters, read_optional, read_required,
};

pub(crate) const NO_TOKEN: StoreError = StoreError::Corrupt("a token's row is invalid");

/// A token and the number of its row.
#[derive(Debug, Clone)]
pub(crate) struct NumberedToken {
    pub(crate) number: i64,
    pub(crate) token: StoredToken,
}

/// The columns in the order in which [`decode_numbered_token`] reads them. Each engine has its own
/// number column.
macro_rules! token_columns {
    ($number:literal) => {
        concat!(
            "tokens.",
            $number,
            ", tokens.id, tokens.type, tokens.fingerprint, tokens.containers, \
             tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at, \
             tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, \
             tokens.expressions, cvcs.expires_at, cvcs.sealed"
        )
    };
}
pub(crate) use token_columns;

/// Decodes a token. Never panics: a malformed row is an error.
pub(crate) fn decode_numbered_token(row: &dyn ColumnReader) -> Result<NumberedToken, StoreError> {
    let token = StoredToken { record: decode_token_record(row)?, cvc: decode_cvc(row, 14)? };
    Ok(NumberedToken { number: read_required(row, 0)?, token })
}

/// Decodes a token from the second column on.
pub(crate) fn decode_token_record(row: &dyn ColumnReader) -> Result<TokenRecord, StoreError> {
    decode_columns(row).map_err(|_| NO_TOKEN)
}

fn decode_columns(row: &dyn ColumnReader) -> Result<TokenRecord, StoreError> {
    let modified = match (read_optional(row, 7)?, read_optional(row, 8)?) {
        (Some(by), Some(at)) => Some(TokenModification { by, at }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(MISSING_COLUMNS),
    };
    Ok(TokenRecord {
        id: read_required(row, 1)?,
        token_type: read_required(row, 2)?,
        fingerprint: read_optional(row, 3)?,
        containers: read_required(row, 4)?,
        created_by: read_required(row, 5)?,
        created_at: read_required(row, 6)?,
        modified,
        expires_at: read_optional(row, 9)?,
        revision: read_required(row, 10)?,
        indexes: read_required(row, 11)?,
        body: read_required(row, 12)?,
        expressions: read_required(row, 13)?,
    })
}

/// Decodes two columns, which are NULL if there is no CVC.
pub(crate) fn decode_cvc(
    row: &dyn ColumnReader,
    first_column: usize,
) -> Result<Option<CvcRecord>, StoreError> {
    let columns =
        read_optional(row, first_column)?.zip(read_optional(row, first_column.saturating_add(1))?);
    Ok(columns.map(|(expires_at, sealed)| CvcRecord { expires_at, sealed }))
}

/// The columns in the order of [`insert_token_parameters`].
macro_rules! insert_token_columns {
    () => {
        "tenant, id, type, fingerprint, containers, created_by, created_at, expires_at, \
         revision, indexes, body, expressions, duplicate_key, duplicate_read_key"
    };
}
pub(crate) use insert_token_columns;

/// The columns of a new token.
pub(crate) fn insert_token_parameters(
    tenant: TenantId,
    token: &TokenRecord,
) -> [Parameter<'_>; 14] {
    let DuplicateKeys { key, read_key } = DuplicateKeys::from_record(token);
    parameters![
        tenant,
        &token.id,
        token.token_type,
        token.fingerprint.as_ref(),
        token.containers.to_text(),
        token.created_by,
        token.created_at,
        token.expires_at,
        token.revision,
        encode_indexes(&token.indexes),
        &token.body,
        token.expressions.to_bytes().to_vec(),
        key.map(encode_duplicate_key),
        read_key.map(encode_duplicate_key),
    ]
}

/// Statement that updates the columns that may change.
macro_rules! update_token {
    ($number:literal) => {
        concat!(
            "\
-- update_token
UPDATE tokens SET fingerprint = $1, containers = $2, modified_by = $3, modified_at = $4,
    expires_at = $5, revision = $6, indexes = $7, body = $8, expressions = $9,
    duplicate_key = $10, duplicate_read_key = $11
WHERE tenant = $12 AND ",
            $number,
            " = $13"
        )
    };
}
pub(crate) use update_token;

/// The parameters of `update_token!`.
pub(crate) fn update_token_parameters(
    tenant: TenantId,
    number: i64,
    token: &TokenRecord,
) -> [Parameter<'_>; 13] {
    let DuplicateKeys { key, read_key } = DuplicateKeys::from_record(token);
    parameters![
        token.fingerprint.as_ref(),
        token.containers.to_text(),
        token.modified.map(|it| it.by),
        token.modified.map(|it| it.at),
        token.expires_at,
        token.revision,
        encode_indexes(&token.indexes),
        &token.body,
        token.expressions.to_bytes().to_vec(),
        key.map(encode_duplicate_key),
        read_key.map(encode_duplicate_key),
        tenant,
        number,
    ]
}

fn encode_duplicate_key(key: DuplicateKey) -> Vec<u8> {
    key.0.to_vec()
}

/// Encodes index digests as the column stores them.
pub(crate) fn encode_indexes(indexes: &[IndexDigest]) -> Vec<u8> {
    indexes.iter().flat_map(|it| it.0).collect()
}
