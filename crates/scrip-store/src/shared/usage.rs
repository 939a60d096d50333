//! Usage of a tenant, and counters of guesses.

use scrip_core::{
    card::TokenType,
    equality::{GuessBucket, GuessRecord},
    token::TokenTypeUsage,
    types::StoreError,
};

use crate::sql::{BatchDelete, ColumnReader, delete_batch, read_required};

/// Decodes the columns token type, number of tokens, and creation time of the newest token.
pub(crate) fn decode_type_usage(row: &dyn ColumnReader) -> Result<TokenTypeUsage, StoreError> {
    let unknown_type = StoreError::Corrupt("a usage counter has an unknown token type");
    Ok(TokenTypeUsage {
        token_type: TokenType::parse(read_required(row, 0)?).ok_or(unknown_type)?,
        count: decode_count(row, 1)?,
        last_created_at: read_required(row, 2)?,
    })
}

/// Decodes the columns bucket, digest of the number, time of the last count, and expiry.
pub(crate) fn decode_guess(row: &dyn ColumnReader) -> Result<GuessRecord, StoreError> {
    Ok(GuessRecord {
        bucket: GuessBucket(read_required(row, 0)?),
        number_digest: read_required(row, 1)?,
        counted_at: read_required(row, 2)?,
        expires_at: read_required(row, 3)?,
    })
}

pub(crate) const DELETE_EXPIRED_GUESSES: BatchDelete = delete_batch!(
    "delete_expired_guesses",
    "guesses",
    "expires_at <= $1",
    sqlite: "tenant, bucket, number_digest" up to 128,
    postgres: "tenant, bucket, number_digest" up to 256,
);

pub(crate) const DELETE_OLD_USAGE_MONTHS: BatchDelete = delete_batch!(
    "delete_old_usage_months",
    "usage_months",
    "month < $1",
    sqlite: "month, tenant" up to 128,
    postgres: "tenant, month" up to 128,
);

pub(crate) const DELETE_OLD_ACTIVE_MONTHS: BatchDelete = delete_batch!(
    "delete_old_active_months",
    "active_months",
    "month < $1",
    sqlite: "month, tenant" up to 128,
    postgres: "tenant, month" up to 128,
);

pub(crate) const DELETE_OLD_ACTIVE_TOKENS: BatchDelete = delete_batch!(
    "delete_old_active_tokens",
    "active_tokens",
    "month < $1",
    sqlite: "month, tenant, token" up to 128,
    postgres: "tenant, month, token" up to 128,
);

/// Decodes a count. A negative count, which only an alteration can cause, is read as zero.
pub(crate) fn decode_count(row: &dyn ColumnReader, index: usize) -> Result<u64, StoreError> {
    Ok(u64::try_from(read_required::<i64>(row, index)?).unwrap_or(0))
}
