//! What a tenant uses, and what is counted of guesses.

use scrip_core::{
    policy::guessing_budget::{GuessBucket, GuessRecord},
    store::StoreError,
    token::{TokenType, TokenTypeUsage},
};

use crate::sql::{ColumnReader, DeleteSome, delete_some, required};

/// Columns: the type, how many there are, and when the last was made.
pub(crate) fn decode_type_usage(row: &dyn ColumnReader) -> Result<TokenTypeUsage, StoreError> {
    let unknown = StoreError::Corrupt("a count is of no type of token");
    Ok(TokenTypeUsage {
        token_type: TokenType::parse(required(row, 0)?).ok_or(unknown)?,
        count: decode_count(row, 1)?,
        last_created_at: required(row, 2)?,
    })
}

/// Columns: bucket, number, when it was last counted, and when that ends.
pub(crate) fn decode_guess(row: &dyn ColumnReader) -> Result<GuessRecord, StoreError> {
    Ok(GuessRecord {
        bucket: GuessBucket(required(row, 0)?),
        number_digest: required(row, 1)?,
        counted_at: required(row, 2)?,
        expires_at: required(row, 3)?,
    })
}

pub(crate) const DELETE_EXPIRED_GUESSES: DeleteSome = delete_some!(
    "sweep_guesses",
    "guesses",
    "expires_at <= $1",
    sqlite: "tenant, bucket, number" up to 128,
    postgres: "tenant, bucket, number" up to 256,
);

pub(crate) const DELETE_OLD_USAGE_MONTHS: DeleteSome = delete_some!(
    "sweep_created",
    "usage_months",
    "month < $1",
    sqlite: "month, tenant" up to 128,
    postgres: "tenant, month" up to 128,
);

pub(crate) const DELETE_OLD_ACTIVE_MONTHS: DeleteSome = delete_some!(
    "sweep_months",
    "active_months",
    "month < $1",
    sqlite: "month, tenant" up to 128,
    postgres: "tenant, month" up to 128,
);

pub(crate) const DELETE_OLD_ACTIVE_TOKENS: DeleteSome = delete_some!(
    "sweep_active",
    "active_tokens",
    "month < $1",
    sqlite: "month, tenant, token" up to 128,
    postgres: "tenant, month, token" up to 128,
);

/// A count that somebody made negative is none.
pub(crate) fn decode_count(row: &dyn ColumnReader, at: usize) -> Result<u64, StoreError> {
    Ok(u64::try_from(required::<i64>(row, at)?).unwrap_or(0))
}
