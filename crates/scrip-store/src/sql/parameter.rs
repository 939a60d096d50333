//! Parameter values of a statement.

use std::borrow::Cow;

use rusqlite::types::{ToSqlOutput, ValueRef};
use scrip_core::{
    Timestamp,
    card::TokenType,
    disclosure::DuplicateKey,
    policy::{AccessSessionId, entity::RowValue},
    types::{
        id::{
            ApiKeyId, ApplicationId, CardNumberVersion, ClientKeyId, EventId, ProxyId, TenantId,
            ThreeDsSessionId, TokenId, TokenIntentId, UnlockId, VaultId, WebhookId,
        },
        time::Month,
    },
};
use scrip_seal::{Fingerprint, Mac, Sealed};
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use uuid::Uuid;

pub(crate) enum Parameter<'a> {
    Null,
    Uuid(Uuid),
    Number(i64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

/// The parameters of a statement, in order.
macro_rules! parameters {
    ($($value:expr),* $(,)?) => { [$($crate::sql::Parameter::from($value)),*] };
}
pub(crate) use parameters;

impl rusqlite::ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Uuid(id) => ValueRef::Blob(id.as_bytes()),
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl std::fmt::Debug for Parameter<'_> {
    /// Values must not appear in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parameter")
    }
}

impl ToSql for Parameter<'_> {
    fn to_sql(
        &self,
        sql_type: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Uuid(id) => id.to_sql_checked(sql_type, out),
            Self::Number(number) => number.to_sql_checked(sql_type, out),
            Self::Text(text) => text.to_sql_checked(sql_type, out),
            Self::Bytes(bytes) => bytes.as_ref().to_sql_checked(sql_type, out),
        }
    }

    /// Each value checks its own type.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a, T: Into<Self>> From<Option<T>> for Parameter<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Parameter::Null, Into::into)
    }
}

impl<'a> From<RowValue<'a>> for Parameter<'a> {
    fn from(value: RowValue<'a>) -> Self {
        match value {
            RowValue::Null => Self::Null,
            RowValue::Id(id) => Self::Uuid(id),
            RowValue::Number(number) => Self::Number(number),
            RowValue::Text(text) => Self::Text(text),
            RowValue::Bytes(bytes) => Self::Bytes(bytes),
        }
    }
}

macro_rules! parameter_types {
    ($($type:ty => $value:expr,)*) => {
        $(impl<'a> From<$type> for Parameter<'a> {
            fn from(value: $type) -> Self {
                $value(value)
            }
        })*
    };
}

parameter_types! {
    Uuid => Parameter::Uuid,
    TenantId => |it: TenantId| Parameter::Uuid(it.0),
    ApplicationId => |it: ApplicationId| Parameter::Uuid(it.0),
    ApiKeyId => |it: ApiKeyId| Parameter::Uuid(it.0),
    ProxyId => |it: ProxyId| Parameter::Uuid(it.0),
    WebhookId => |it: WebhookId| Parameter::Uuid(it.0),
    ClientKeyId => |it: ClientKeyId| Parameter::Uuid(it.0),
    EventId => |it: EventId| Parameter::Uuid(it.0),
    UnlockId => |it: UnlockId| Parameter::Uuid(it.0),
    VaultId => |it: VaultId| Parameter::Uuid(it.0),
    bool => |it: bool| Parameter::Number(it.into()),
    TokenIntentId => |it: TokenIntentId| Parameter::Uuid(it.0),
    ThreeDsSessionId => |it: ThreeDsSessionId| Parameter::Uuid(it.0),
    CardNumberVersion => |it: CardNumberVersion| Parameter::Uuid(it.0),
    i64 => Parameter::Number,
    u16 => |it: u16| Parameter::Number(it.into()),
    u32 => |it: u32| Parameter::Number(it.into()),
    // Values above the column's maximum are stored as the maximum.
    usize => |it: usize| Parameter::Number(i64::try_from(it).unwrap_or(i64::MAX)),
    u64 => |it: u64| Parameter::Number(i64::try_from(it).unwrap_or(i64::MAX)),
    Timestamp => |it: Timestamp| Parameter::Number(it.unix_ms),
    Month => |it: Month| Parameter::Number(it.0),
    &'a str => |it| Parameter::Text(Cow::Borrowed(it)),
    String => |it| Parameter::Text(Cow::Owned(it)),
    &'a String => |it: &'a String| Parameter::Text(Cow::Borrowed(it)),
    &'a TokenId => |it: &'a TokenId| Parameter::Text(Cow::Borrowed(it.as_str())),
    TokenType => |it: TokenType| Parameter::Text(Cow::Borrowed(it.as_str())),
    &'a [u8] => |it| Parameter::Bytes(Cow::Borrowed(it)),
    Vec<u8> => |it| Parameter::Bytes(Cow::Owned(it)),
    &'a Vec<u8> => |it: &'a Vec<u8>| Parameter::Bytes(Cow::Borrowed(it)),
    &'a Sealed => |it: &'a Sealed| Parameter::Bytes(Cow::Borrowed(it.as_bytes())),
    &'a Mac => |it: &'a Mac| Parameter::Bytes(Cow::Borrowed(&it.0)),
    &'a Fingerprint => |it: &'a Fingerprint| Parameter::Bytes(Cow::Borrowed(&it.0)),
    &'a DuplicateKey => |it: &'a DuplicateKey| Parameter::Bytes(Cow::Borrowed(&it.0)),
    &'a AccessSessionId => |it: &'a AccessSessionId| Parameter::Bytes(Cow::Borrowed(&it.0)),
}

impl<'a, const N: usize> From<&'a [u8; N]> for Parameter<'a> {
    fn from(value: &'a [u8; N]) -> Self {
        Parameter::Bytes(Cow::Borrowed(value))
    }
}
