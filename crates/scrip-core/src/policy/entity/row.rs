//! The values of a row, in the order of an entity's columns.

use std::{borrow::Cow, fmt};

use scrip_seal::{Mac, Sealed};
use uuid::Uuid;

use crate::{
    Timestamp,
    policy::{
        ChangeStamp,
        entity::{ColumnType, Entity},
    },
    types::id::{ApplicationId, TenantId},
};

/// A value of one column.
#[derive(Clone, PartialEq, Eq)]
pub enum RowValue<'a> {
    Null,
    Id(Uuid),
    Number(i64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

impl RowValue<'_> {
    /// The same value, without a copy of its text or bytes.
    pub fn borrow(&self) -> RowValue<'_> {
        match self {
            Self::Null => RowValue::Null,
            Self::Id(id) => RowValue::Id(*id),
            Self::Number(number) => RowValue::Number(*number),
            Self::Text(text) => RowValue::from(text.as_ref()),
            Self::Bytes(bytes) => RowValue::from(bytes.as_ref()),
        }
    }
}

/// Values must not appear in logs.
impl fmt::Debug for RowValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowValue")
    }
}

impl From<Uuid> for RowValue<'_> {
    fn from(id: Uuid) -> Self {
        Self::Id(id)
    }
}

impl From<i64> for RowValue<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for RowValue<'_> {
    fn from(flag: bool) -> Self {
        Self::Number(flag.into())
    }
}

impl From<Timestamp> for RowValue<'_> {
    fn from(time: Timestamp) -> Self {
        Self::Number(time.unix_ms)
    }
}

impl<'a> From<&'a str> for RowValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for RowValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a [u8]> for RowValue<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a, T: Into<Self>> From<Option<T>> for RowValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// Collects the values of a row. A column that is not written is NULL.
#[derive(Debug)]
pub struct RowWriter<'a> {
    entity: &'static Entity,
    values: Vec<RowValue<'a>>,
}

impl<'a> RowWriter<'a> {
    pub(super) fn new(entity: &'static Entity) -> Self {
        Self { entity, values: vec![RowValue::Null; entity.columns.len()] }
    }

    /// Sets a column of the entity. A test shows that every record writes only its columns.
    pub fn put(&mut self, column: &str, value: impl Into<RowValue<'a>>) {
        let index = self.entity.index_of(column);
        debug_assert!(index.is_some(), "{} has no column {column}", self.entity.table);
        if let Some(place) = index.and_then(|it| self.values.get_mut(it)) {
            *place = value.into();
        }
    }

    /// Sets the columns of the creation.
    pub(crate) fn put_created(&mut self, stamp: ChangeStamp) {
        self.put("created_by", stamp.by.map(|it| it.0));
        self.put("created_at", stamp.at);
    }

    /// Sets the columns of the last change.
    pub(crate) fn put_modified(&mut self, stamp: Option<ChangeStamp>) {
        self.put("modified_by", stamp.and_then(|it| it.by).map(|it| it.0));
        self.put("modified_at", stamp.map(|it| it.at));
    }

    pub(super) fn into_values(self) -> Vec<RowValue<'a>> {
        self.values
    }
}

/// The vault did not write the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the row has unexpected columns")]
pub struct InvalidRow;

/// A stored row of an entity.
pub trait RowSource {
    /// The value of a column, counted from zero, if it has the type of the column.
    /// Errors: the row has no such column, or it has another type.
    fn value(&self, index: usize, column_type: ColumnType) -> Result<RowValue<'_>, InvalidRow>;
}

impl RowSource for Vec<RowValue<'_>> {
    fn value(&self, index: usize, _: ColumnType) -> Result<RowValue<'_>, InvalidRow> {
        self.get(index).map(RowValue::borrow).ok_or(InvalidRow)
    }
}

/// Reads the columns of a row by name.
#[derive(Clone, Copy)]
pub struct RowReader<'a> {
    entity: &'static Entity,
    source: &'a dyn RowSource,
}

impl<'a> RowReader<'a> {
    pub(crate) fn new(entity: &'static Entity, source: &'a dyn RowSource) -> Self {
        Self { entity, source }
    }

    fn value(&self, column: &str) -> Result<RowValue<'a>, InvalidRow> {
        let mut columns = self.entity.columns.iter().enumerate();
        let (index, column) = columns.find(|(_, it)| it.name == column).ok_or(InvalidRow)?;
        self.source.value(index, column.column_type)
    }

    pub(crate) fn optional_id(&self, column: &str) -> Result<Option<Uuid>, InvalidRow> {
        match self.value(column)? {
            RowValue::Null => Ok(None),
            RowValue::Id(id) => Ok(Some(id)),
            RowValue::Number(_) | RowValue::Text(_) | RowValue::Bytes(_) => Err(InvalidRow),
        }
    }

    pub(crate) fn id(&self, column: &str) -> Result<Uuid, InvalidRow> {
        self.optional_id(column)?.ok_or(InvalidRow)
    }

    pub(crate) fn tenant(&self) -> Result<TenantId, InvalidRow> {
        self.id(self.entity.tenant_column()).map(TenantId)
    }

    pub(crate) fn optional_number(&self, column: &str) -> Result<Option<i64>, InvalidRow> {
        match self.value(column)? {
            RowValue::Null => Ok(None),
            RowValue::Number(number) => Ok(Some(number)),
            RowValue::Id(_) | RowValue::Text(_) | RowValue::Bytes(_) => Err(InvalidRow),
        }
    }

    pub(crate) fn number(&self, column: &str) -> Result<i64, InvalidRow> {
        self.optional_number(column)?.ok_or(InvalidRow)
    }

    pub(crate) fn optional_time(&self, column: &str) -> Result<Option<Timestamp>, InvalidRow> {
        Ok(self.optional_number(column)?.map(|unix_ms| Timestamp { unix_ms }))
    }

    pub(crate) fn time(&self, column: &str) -> Result<Timestamp, InvalidRow> {
        self.optional_time(column)?.ok_or(InvalidRow)
    }

    /// Reads only the two numbers that the vault writes.
    pub(crate) fn flag(&self, column: &str) -> Result<bool, InvalidRow> {
        match self.number(column)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(InvalidRow),
        }
    }

    pub(crate) fn optional_text<T>(
        &self,
        column: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, InvalidRow> {
        match self.value(column)? {
            RowValue::Null => Ok(None),
            RowValue::Text(text) => parse(&text).map(Some).ok_or(InvalidRow),
            RowValue::Id(_) | RowValue::Number(_) | RowValue::Bytes(_) => Err(InvalidRow),
        }
    }

    pub(crate) fn text<T>(
        &self,
        column: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, InvalidRow> {
        self.optional_text(column, parse)?.ok_or(InvalidRow)
    }

    fn bytes(&self, column: &str) -> Result<Cow<'a, [u8]>, InvalidRow> {
        if let RowValue::Bytes(bytes) = self.value(column)? { Ok(bytes) } else { Err(InvalidRow) }
    }

    pub(crate) fn digest(&self, column: &str) -> Result<[u8; 32], InvalidRow> {
        self.bytes(column)?.as_ref().try_into().map_err(|_| InvalidRow)
    }

    pub(crate) fn mac(&self, column: &str) -> Result<Mac, InvalidRow> {
        self.digest(column).map(Mac)
    }

    pub(crate) fn sealed(&self, column: &str) -> Result<Sealed, InvalidRow> {
        Ok(Sealed::from_stored(self.bytes(column)?.into_owned()))
    }

    /// Reads the columns of the creation.
    pub(crate) fn created(&self) -> Result<ChangeStamp, InvalidRow> {
        self.stamp("created_by", "created_at")?.ok_or(InvalidRow)
    }

    /// Reads the columns of the last change.
    pub(crate) fn modified(&self) -> Result<Option<ChangeStamp>, InvalidRow> {
        self.stamp("modified_by", "modified_at")
    }

    /// A stamp of an operator has only a time.
    fn stamp(&self, by: &str, at: &str) -> Result<Option<ChangeStamp>, InvalidRow> {
        match (self.optional_id(by)?, self.optional_time(at)?) {
            (None, None) => Ok(None),
            (Some(_), None) => Err(InvalidRow),
            (by, Some(at)) => Ok(Some(ChangeStamp { by: by.map(ApplicationId), at })),
        }
    }
}

/// A row may have values that must not appear in logs.
impl fmt::Debug for RowReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowReader").field("table", &self.entity.table).finish_non_exhaustive()
    }
}
