//! Decodes the columns of a row. Never panics: a malformed row is an error.

use scrip_core::{
    Timestamp,
    approval::{ActionText, ApprovalId},
    card::TokenType,
    events::DeliveryState,
    policy::{
        AccessPolicy, AccessSessionId, DisplayName, Quotas, TenantSettings,
        application::origins::ApplicationOrigins,
        destination::HostName,
        entity::{ColumnType, InvalidRow, RowSource, RowValue},
        webhook::{EventList, WebhookStatus},
    },
    token::ExpressionProvenance,
    types::{
        ApplicationKind, Container, Containers, StoreError, TenantKind,
        id::{
            ApiKeyId, ApplicationId, CardNumberVersion, ClientKeyId, EventId, ProxyId, TenantId,
            ThreeDsSessionId, TokenId, TokenIntentId, UnlockId, VaultId, WebhookId,
        },
    },
    unlock::{UnlockKind, UnlockState},
};
use scrip_seal::{Fingerprint, IndexDigest, Mac, Sealed};
use uuid::Uuid;

use crate::sql::parameter::Parameter;

pub(crate) const MISSING_COLUMNS: StoreError = StoreError::Corrupt("a row has unexpected columns");
pub(crate) const NO_TOKEN: StoreError = StoreError::Corrupt("a token's row is invalid");

/// A row of either engine. Columns are counted from zero; NULL is `None`.
pub(crate) trait ColumnReader {
    fn uuid(&self, index: usize) -> Result<Option<Uuid>, StoreError>;
    fn number(&self, index: usize) -> Result<Option<i64>, StoreError>;
    fn text(&self, index: usize) -> Result<Option<&str>, StoreError>;
    fn bytes(&self, index: usize) -> Result<Option<&[u8]>, StoreError>;
}

/// The row of a policy entity, whose columns have the order of the entity.
pub(crate) struct EntityColumns<'a>(pub(crate) &'a dyn ColumnReader);

impl RowSource for EntityColumns<'_> {
    fn value(&self, index: usize, column_type: ColumnType) -> Result<RowValue<'_>, InvalidRow> {
        let value = match column_type {
            ColumnType::Id => self.0.uuid(index).map(RowValue::from),
            ColumnType::Number => self.0.number(index).map(RowValue::from),
            ColumnType::Text => self.0.text(index).map(RowValue::from),
            ColumnType::Bytes => self.0.bytes(index).map(RowValue::from),
        };
        value.map_err(|_| InvalidRow)
    }
}

/// A value of one column.
pub(crate) trait ColumnValue<'a>: Sized {
    /// Reads a column; `None` for NULL.
    fn read(row: &'a dyn ColumnReader, index: usize) -> Result<Option<Self>, StoreError>;
}

/// Reads a column that is never NULL.
pub(crate) fn read_required<'a, T: ColumnValue<'a>>(
    row: &'a dyn ColumnReader,
    index: usize,
) -> Result<T, StoreError> {
    T::read(row, index)?.ok_or(MISSING_COLUMNS)
}

/// Reads a column that may be NULL.
pub(crate) fn read_optional<'a, T: ColumnValue<'a>>(
    row: &'a dyn ColumnReader,
    index: usize,
) -> Result<Option<T>, StoreError> {
    T::read(row, index)
}

/// Types that a [`ColumnReader`] reads directly.
macro_rules! base_columns {
    ($($type:ty: $read:ident,)*) => {
        $(impl<'a> ColumnValue<'a> for $type {
            fn read(row: &'a dyn ColumnReader, index: usize) -> Result<Option<Self>, StoreError> {
                row.$read(index)
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

/// Types that wrap an id.
macro_rules! id_columns {
    ($($id:ident),* $(,)?) => {
        $(impl<'a> ColumnValue<'a> for $id {
            fn read(row: &'a dyn ColumnReader, index: usize) -> Result<Option<Self>, StoreError> {
                Ok(row.uuid(index)?.map($id))
            }
        }

        impl From<$id> for Parameter<'_> {
            fn from(id: $id) -> Self {
                id.0.into()
            }
        })*
    };
}

id_columns! {
    TenantId, ApplicationId, ApiKeyId, ProxyId, WebhookId, ClientKeyId, EventId, UnlockId, VaultId,
    TokenIntentId, ThreeDsSessionId, CardNumberVersion,
}

/// Types that are made from a simpler type. Some accept only some of its values.
macro_rules! parsed_columns {
    ($($type:ty: $base:ty => $parse:expr,)*) => {
        $(impl<'a> ColumnValue<'a> for $type {
            fn read(row: &'a dyn ColumnReader, index: usize) -> Result<Option<Self>, StoreError> {
                let parse = |it| $parse(it).ok_or(MISSING_COLUMNS);
                <$base as ColumnValue<'a>>::read(row, index)?.map(parse).transpose()
            }
        })*
    };
}

parsed_columns! {
    AccessSessionId: [u8; 32] => |it| Some(AccessSessionId(it)),
    Mac: [u8; 32] => |it| Some(Mac(it)),
    Fingerprint: [u8; 32] => |it| Some(Fingerprint(it)),
    Timestamp: i64 => |unix_ms| Some(Timestamp { unix_ms }),
    Sealed: &'a [u8] => |it: &[u8]| Some(Sealed::from_stored(it.to_vec())),
    String: &'a str => |it: &str| Some(it.to_owned()),
    Vec<u8>: &'a [u8] => |it: &[u8]| Some(it.to_vec()),
    bool: i64 => parse_flag,
    u16: i64 => |it| u16::try_from(it).ok(),
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
    ApplicationOrigins: &str => ApplicationOrigins::from_stored,
    HostName: &str => HostName::from_stored,
    TenantKind: &str => TenantKind::parse,
    TenantSettings: &str => TenantSettings::from_text,
    Quotas: &str => Quotas::from_text,
    ApplicationKind: &str => ApplicationKind::parse,
    EventList: &str => EventList::from_text,
    WebhookStatus: &str => WebhookStatus::parse,
    DeliveryState: &str => DeliveryState::parse,
    UnlockKind: &str => UnlockKind::parse,
    UnlockState: &str => UnlockState::parse,
    ApprovalId: &str => ApprovalId::parse,
    ActionText: &str => ActionText::parse,
}

/// A digest or a MAC.
impl<'a, const N: usize> ColumnValue<'a> for [u8; N] {
    fn read(row: &'a dyn ColumnReader, index: usize) -> Result<Option<Self>, StoreError> {
        let to_array = |it: &[u8]| it.try_into().map_err(|_| MISSING_COLUMNS);
        row.bytes(index)?.map(to_array).transpose()
    }
}

/// Only the two numbers that the vault writes.
fn parse_flag(column: i64) -> Option<bool> {
    match column {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn parse_indexes(column: &[u8]) -> Option<Vec<IndexDigest>> {
    let (digests, remainder) = column.as_chunks::<16>();
    remainder.is_empty().then(|| digests.iter().copied().map(IndexDigest).collect())
}
