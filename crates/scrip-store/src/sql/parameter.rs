//! Parameter values of a statement.

use std::borrow::Cow;

use rusqlite::types::{ToSqlOutput, ValueRef};
use scrip_core::{
    Timestamp,
    card::TokenType,
    disclosure::DuplicateKey,
    policy::{AccessSessionId, entity::RowValue},
    types::{id::TokenId, time::Month},
};
use scrip_seal::{Fingerprint, Mac, Sealed};
use tokio_postgres::types::{IsNull, ToSql, Type, private::BytesMut, to_sql_checked};
use uuid::Uuid;

/// A value of a parameter.
#[derive(Debug)]
pub(crate) struct Parameter<'a>(RowValue<'a>);

/// The parameters of a statement, in order.
macro_rules! parameters {
    ($($value:expr),* $(,)?) => { [$($crate::sql::Parameter::from($value)),*] };
}
pub(crate) use parameters;

impl rusqlite::ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match &self.0 {
            RowValue::Null => ValueRef::Null,
            RowValue::Id(id) => ValueRef::Blob(id.as_bytes()),
            RowValue::Number(number) => ValueRef::Integer(*number),
            RowValue::Text(text) => ValueRef::Text(text.as_bytes()),
            RowValue::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl ToSql for Parameter<'_> {
    fn to_sql(
        &self,
        sql_type: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match &self.0 {
            RowValue::Null => Ok(IsNull::Yes),
            RowValue::Id(id) => id.to_sql_checked(sql_type, out),
            RowValue::Number(number) => number.to_sql_checked(sql_type, out),
            RowValue::Text(text) => text.to_sql_checked(sql_type, out),
            RowValue::Bytes(bytes) => bytes.as_ref().to_sql_checked(sql_type, out),
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
        value.map_or(Self(RowValue::Null), Into::into)
    }
}

impl<'a> From<RowValue<'a>> for Parameter<'a> {
    fn from(value: RowValue<'a>) -> Self {
        Self(value)
    }
}

impl<'a> From<&'a RowValue<'_>> for Parameter<'a> {
    fn from(value: &'a RowValue<'_>) -> Self {
        Self(value.borrow())
    }
}

macro_rules! parameter_types {
    ($($type:ty => $value:expr,)*) => {
        $(impl<'a> From<$type> for Parameter<'a> {
            fn from(value: $type) -> Self {
                Self($value(value))
            }
        })*
    };
}

parameter_types! {
    Uuid => RowValue::Id,
    bool => |it: bool| RowValue::Number(it.into()),
    i64 => RowValue::Number,
    u16 => |it: u16| RowValue::Number(it.into()),
    u32 => |it: u32| RowValue::Number(it.into()),
    // Values above the column's maximum are stored as the maximum.
    usize => |it: usize| RowValue::Number(i64::try_from(it).unwrap_or(i64::MAX)),
    u64 => |it: u64| RowValue::Number(i64::try_from(it).unwrap_or(i64::MAX)),
    Timestamp => |it: Timestamp| RowValue::Number(it.unix_ms),
    Month => |it: Month| RowValue::Number(it.0),
    &'a str => |it| RowValue::Text(Cow::Borrowed(it)),
    String => |it| RowValue::Text(Cow::Owned(it)),
    &'a String => |it: &'a String| RowValue::Text(Cow::Borrowed(it)),
    &'a TokenId => |it: &'a TokenId| RowValue::Text(Cow::Borrowed(it.as_str())),
    TokenType => |it: TokenType| RowValue::Text(Cow::Borrowed(it.as_str())),
    &'a [u8] => |it| RowValue::Bytes(Cow::Borrowed(it)),
    Vec<u8> => |it| RowValue::Bytes(Cow::Owned(it)),
    &'a Vec<u8> => |it: &'a Vec<u8>| RowValue::Bytes(Cow::Borrowed(it)),
    &'a Sealed => |it: &'a Sealed| RowValue::Bytes(Cow::Borrowed(it.as_bytes())),
    &'a Mac => |it: &'a Mac| RowValue::Bytes(Cow::Borrowed(&it.0)),
    &'a Fingerprint => |it: &'a Fingerprint| RowValue::Bytes(Cow::Borrowed(&it.0)),
    &'a DuplicateKey => |it: &'a DuplicateKey| RowValue::Bytes(Cow::Borrowed(&it.0)),
    &'a AccessSessionId => |it: &'a AccessSessionId| RowValue::Bytes(Cow::Borrowed(&it.0)),
}

impl<'a, const N: usize> From<&'a [u8; N]> for Parameter<'a> {
    fn from(value: &'a [u8; N]) -> Self {
        Self(RowValue::Bytes(Cow::Borrowed(value)))
    }
}
