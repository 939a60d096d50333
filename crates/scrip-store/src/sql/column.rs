//! Columns of a row, to the values that they hold. Any row gives a value or an error.

use scrip_core::{
    id::{
        ApiKeyId, ApplicationId, CardNumberVersion, TenantId, ThreeDsSessionId, TokenId,
        TokenIntentId,
    },
    policy::{
        AccessPolicy, AccessSessionId, ApplicationKind, DisplayName, Quotas, TenantKind,
        TenantSettings,
    },
    store::StoreError,
    time::Timestamp,
    token::{Container, Containers, ExpressionProvenance, TokenType},
};
use scrip_seal::{Fingerprint, IndexDigest, Mac, Sealed};
use uuid::Uuid;

pub(crate) const MISSING_COLUMNS: StoreError =
    StoreError::Corrupt("a row does not have the columns we wrote");

/// A row of either engine. Columns are counted from zero; an empty one is nothing.
pub(crate) trait ColumnReader {
    fn uuid(&self, at: usize) -> Result<Option<Uuid>, StoreError>;
    fn number(&self, at: usize) -> Result<Option<i64>, StoreError>;
    fn text(&self, at: usize) -> Result<Option<&str>, StoreError>;
    fn bytes(&self, at: usize) -> Result<Option<&[u8]>, StoreError>;
}

/// A value that one column holds.
pub(crate) trait ColumnValue<'a>: Sized {
    /// Nothing for an empty column.
    fn read(row: &'a dyn ColumnReader, at: usize) -> Result<Option<Self>, StoreError>;
}

/// A column that is never empty.
pub(crate) fn required<'a, T: ColumnValue<'a>>(
    row: &'a dyn ColumnReader,
    at: usize,
) -> Result<T, StoreError> {
    T::read(row, at)?.ok_or(MISSING_COLUMNS)
}

/// A column that may be empty.
pub(crate) fn optional<'a, T: ColumnValue<'a>>(
    row: &'a dyn ColumnReader,
    at: usize,
) -> Result<Option<T>, StoreError> {
    T::read(row, at)
}

macro_rules! base_columns {
    ($($type:ty: $read:ident,)*) => {
        $(impl<'a> ColumnValue<'a> for $type {
            fn read(row: &'a dyn ColumnReader, at: usize) -> Result<Option<Self>, StoreError> {
                row.$read(at)
            }
        })*
    };
}

base_columns! {
    Uuid: uuid,
    i64: number,
    &'a str: text,
    &'a [u8]: bytes,
}

/// Types that are made of a simpler one, where any value of that is right.
macro_rules! wrapped_columns {
    ($($type:ty: $base:ty => $wrap:expr,)*) => {
        $(impl<'a> ColumnValue<'a> for $type {
            fn read(row: &'a dyn ColumnReader, at: usize) -> Result<Option<Self>, StoreError> {
                Ok(<$base as ColumnValue<'a>>::read(row, at)?.map($wrap))
            }
        })*
    };
}

wrapped_columns! {
    TenantId: Uuid => TenantId,
    ApplicationId: Uuid => ApplicationId,
    ApiKeyId: Uuid => ApiKeyId,
    TokenIntentId: Uuid => TokenIntentId,
    ThreeDsSessionId: Uuid => ThreeDsSessionId,
    CardNumberVersion: Uuid => CardNumberVersion,
    AccessSessionId: [u8; 32] => AccessSessionId,
    Mac: [u8; 32] => Mac,
    Fingerprint: [u8; 32] => Fingerprint,
    Timestamp: i64 => |unix_ms| Timestamp { unix_ms },
    Sealed: &'a [u8] => |it| Sealed::from_stored(it.to_vec()),
    String: &'a str => str::to_owned,
    Vec<u8>: &'a [u8] => <[u8]>::to_vec,
}

/// Types that only some values of a simpler one make.
macro_rules! parsed_columns {
    ($($type:ty: $base:ty => $parse:expr,)*) => {
        $(impl<'a> ColumnValue<'a> for $type {
            fn read(row: &'a dyn ColumnReader, at: usize) -> Result<Option<Self>, StoreError> {
                let parse = |it| $parse(it).ok_or(MISSING_COLUMNS);
                <$base as ColumnValue<'a>>::read(row, at)?.map(parse).transpose()
            }
        })*
    };
}

parsed_columns! {
    u32: i64 => |it| u32::try_from(it).ok(),
    usize: i64 => |it| usize::try_from(it).ok(),
    TokenId: &str => |it| TokenId::parse(it).ok(),
    TokenType: &str => TokenType::parse,
    Container: &str => |it| Container::parse(it).ok(),
    Containers: &str => |it: &str| Containers::parse(it.split(',')).ok(),
    ExpressionProvenance: &[u8] => ExpressionProvenance::from_bytes,
    Vec<IndexDigest>: &[u8] => parse_indexes,
    AccessPolicy: &str => AccessPolicy::from_text,
    DisplayName: &str => DisplayName::from_stored,
    TenantKind: &str => TenantKind::parse,
    TenantSettings: &str => TenantSettings::from_text,
    Quotas: &str => Quotas::from_text,
    ApplicationKind: &str => ApplicationKind::parse,
}

/// A digest or a mac.
impl<'a, const N: usize> ColumnValue<'a> for [u8; N] {
    fn read(row: &'a dyn ColumnReader, at: usize) -> Result<Option<Self>, StoreError> {
        let array = |it: &[u8]| it.try_into().map_err(|_| MISSING_COLUMNS);
        row.bytes(at)?.map(array).transpose()
    }
}

fn parse_indexes(column: &[u8]) -> Option<Vec<IndexDigest>> {
    let (digests, rest) = column.as_chunks::<16>();
    rest.is_empty().then(|| digests.iter().copied().map(IndexDigest).collect())
}
