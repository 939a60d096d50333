//! Usage of a tenant, and counters of guesses.

use scrip_core::{
    card::TokenType,
    equality::{GuessBucket, GuessRecord},
    store::TokenTypeUsage,
    types::StoreError,
};

use crate::sql::{BatchDelete, ColumnReader, read_required};

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

pub(crate) const DELETE_EXPIRED_GUESSES: BatchDelete = BatchDelete {
    sqlite: "
-- delete_expired_guesses
DELETE FROM guesses WHERE (tenant, bucket, number_digest) IN (
    SELECT tenant, bucket, number_digest FROM guesses WHERE expires_at <= $1 LIMIT $2)",
    postgres: "
-- delete_expired_guesses
DELETE FROM guesses WHERE (tenant, bucket, number_digest) IN (
    SELECT tenant, bucket, number_digest FROM guesses WHERE expires_at <= $1
    LIMIT $2 FOR UPDATE SKIP LOCKED)",
    sqlite_rows_max: 128,
    postgres_rows_max: 256,
};

pub(crate) const DELETE_OLD_USAGE_MONTHS: BatchDelete = BatchDelete {
    sqlite: "
-- delete_old_usage_months
DELETE FROM usage_months WHERE (month, tenant) IN (
    SELECT month, tenant FROM usage_months WHERE month < $1 LIMIT $2)",
    postgres: "
-- delete_old_usage_months
DELETE FROM usage_months WHERE (tenant, month) IN (
    SELECT tenant, month FROM usage_months WHERE month < $1
    LIMIT $2 FOR UPDATE SKIP LOCKED)",
    sqlite_rows_max: 128,
    postgres_rows_max: 128,
};

pub(crate) const DELETE_OLD_ACTIVE_MONTHS: BatchDelete = BatchDelete {
    sqlite: "
-- delete_old_active_months
DELETE FROM active_months WHERE (month, tenant) IN (
    SELECT month, tenant FROM active_months WHERE month < $1 LIMIT $2)",
    postgres: "
-- delete_old_active_months
DELETE FROM active_months WHERE (tenant, month) IN (
    SELECT tenant, month FROM active_months WHERE month < $1
    LIMIT $2 FOR UPDATE SKIP LOCKED)",
    sqlite_rows_max: 128,
    postgres_rows_max: 128,
};

pub(crate) const DELETE_OLD_ACTIVE_TOKENS: BatchDelete = BatchDelete {
    sqlite: "
-- delete_old_active_tokens
DELETE FROM active_tokens WHERE (month, tenant, token) IN (
    SELECT month, tenant, token FROM active_tokens WHERE month < $1 LIMIT $2)",
    postgres: "
-- delete_old_active_tokens
DELETE FROM active_tokens WHERE (tenant, month, token) IN (
    SELECT tenant, month, token FROM active_tokens WHERE month < $1
    LIMIT $2 FOR UPDATE SKIP LOCKED)",
    sqlite_rows_max: 128,
    postgres_rows_max: 128,
};

/// Decodes a count. A negative count, which only an alteration can cause, is read as zero.
pub(crate) fn decode_count(row: &dyn ColumnReader, index: usize) -> Result<u64, StoreError> {
    Ok(u64::try_from(read_required::<i64>(row, index)?).unwrap_or(0))
}
