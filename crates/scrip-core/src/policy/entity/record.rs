//! A record of an entity: its associated data, MAC and sealed columns.

use std::borrow::Cow;

use scrip_seal::{OpenError, Place, Purpose, Sealed, Secret, TenantKeys};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Error,
    policy::{
        PolicyRow, SignedRow,
        entity::{
            Column, ColumnRole, Entity, InvalidRow, RowReader, RowSource, RowValue, RowWriter,
        },
    },
};

/// A record that is stored as a row of its entity.
pub trait EntityRecord: Sized {
    const ENTITY: &'static Entity;

    /// Writes every column except the MAC.
    fn write<'a>(&'a self, row: &mut RowWriter<'a>);

    /// Reads what [`EntityRecord::write`] wrote.
    fn read(row: &RowReader<'_>) -> Result<Self, InvalidRow>;

    /// How an operator recognizes a row, besides its id: the name, unless the record says more.
    fn description(&self) -> String {
        let values = self.values();
        let name = Self::ENTITY.index_of("name").and_then(|it| values.get(it));
        if let Some(RowValue::Text(name)) = name { name.to_string() } else { String::new() }
    }

    /// Adds the values of other tables that the MAC covers after this column.
    fn add_other_values(&self, _after: &Column, place: Place) -> Place {
        place
    }

    /// The input of the MAC: the clear and the sealed columns, then those that earlier versions
    /// lack.
    fn mac_place(&self) -> Place {
        let values = self.values();
        let mut place = clear_place(self, Self::ENTITY.mac_kind, &values);
        for (_, value) in columns_with(Self::ENTITY, &values, |it| it.sealed_kind().is_some()) {
            place = add_value(place, value);
        }
        let is_added = |it: &Column| it.role == ColumnRole::Added;
        for (_, value) in columns_with(Self::ENTITY, &values, is_added) {
            if *value != RowValue::Null {
                place = add_value(place, value);
            }
        }
        place
    }

    /// The associated data of a sealed column: every clear column.
    fn sealed_place(&self, kind: &'static str) -> Place {
        clear_place(self, kind, &self.values())
    }

    /// Seals a column at the place of this kind. Every clear column must be final.
    fn seal_column(&self, keys: &TenantKeys, kind: &'static str, plaintext: &Secret) -> Sealed {
        keys.seal(Purpose::Data, &self.sealed_place(kind), plaintext)
    }

    /// Errors: the row was altered, or belongs to another tenant.
    fn open_column(
        &self,
        keys: &TenantKeys,
        kind: &'static str,
        sealed: &Sealed,
    ) -> Result<Secret, OpenError> {
        keys.open(Purpose::Data, &self.sealed_place(kind), sealed)
    }

    /// Writes the JSON document that the sealed column of this kind contains.
    fn write_document(kind: &'static str, document: &impl Serialize) -> Result<Secret, Error> {
        // Reserve space for most documents: a buffer that grows leaves copies of itself in memory.
        let mut bytes = Vec::with_capacity(1024);
        let written = serde_json::to_writer(&mut bytes, document);
        let document = Secret::new(bytes);
        written.map(|()| document).map_err(|_| Self::invalid_document(kind))
    }

    /// Opens a sealed column, and parses its JSON document.
    /// Errors: the row was altered, or belongs to another tenant.
    fn open_document<T: DeserializeOwned>(
        &self,
        keys: &TenantKeys,
        kind: &'static str,
        sealed: &Sealed,
    ) -> Result<T, Error> {
        let document = self.open_column(keys, kind, sealed)?;
        serde_json::from_slice(document.expose()).map_err(|_| Self::invalid_document(kind))
    }

    fn invalid_document(kind: &'static str) -> Error {
        let column = Self::ENTITY.sealed_columns().find(|it| it.sealed_kind() == Some(kind));
        let (column, entity) = (column.map_or("document", |it| it.name), Self::ENTITY.kind);
        Error::Internal(format!("the {column} of a {entity} cannot be parsed").into())
    }

    /// The values of all columns, without the MAC.
    fn values(&self) -> Vec<RowValue<'_>> {
        let mut row = RowWriter::new(Self::ENTITY);
        self.write(&mut row);
        row.into_values()
    }
}

fn columns_with<'a, 'v>(
    entity: &'static Entity,
    values: &'a [RowValue<'v>],
    is_included: impl Fn(&Column) -> bool,
) -> impl Iterator<Item = (&'static Column, &'a RowValue<'v>)> {
    entity.columns.iter().zip(values).filter(move |(column, _)| is_included(column))
}

/// The id of the row, then its other clear columns in their order.
fn clear_place<T: EntityRecord>(record: &T, kind: &'static str, values: &[RowValue<'_>]) -> Place {
    let is_clear = |it: &Column| matches!(it.role, ColumnRole::Key | ColumnRole::Clear);
    let is_id = |it: &Column| it.name == T::ENTITY.id_column();
    let ids = columns_with(T::ENTITY, values, is_id);
    let others = columns_with(T::ENTITY, values, |it| is_clear(it) && !is_id(it));
    ids.chain(others).fold(Place::new(kind), |place, (column, value)| {
        record.add_other_values(column, add_value(place, value))
    })
}

fn add_value(place: Place, value: &RowValue<'_>) -> Place {
    match value {
        RowValue::Null => place.optional_bytes(None),
        RowValue::Id(id) => place.bytes(id.as_bytes()),
        RowValue::Number(number) => place.number(*number),
        RowValue::Text(text) => place.text(text),
        RowValue::Bytes(bytes) => place.bytes(bytes),
    }
}

impl<T: EntityRecord> PolicyRow for T {
    fn place(&self) -> Place {
        self.mac_place()
    }
}

impl<T: EntityRecord> SignedRow<T> {
    /// The values of all columns.
    pub fn values(&self) -> Vec<RowValue<'_>> {
        let mut values = self.record.values();
        for (column, value) in T::ENTITY.columns.iter().zip(&mut values) {
            if column.role == ColumnRole::Mac {
                *value = RowValue::from(self.mac.0.as_slice());
            }
        }
        values
    }

    /// Reads a stored row. Its MAC is not checked yet.
    pub fn read(source: &dyn RowSource) -> Result<Self, InvalidRow> {
        let row = RowReader::new(T::ENTITY, source);
        let mut columns = T::ENTITY.columns.iter();
        let mac = columns.find(|it| it.role == ColumnRole::Mac).ok_or(InvalidRow)?;
        Ok(Self { mac: row.mac(mac.name)?, record: T::read(&row)? })
    }

    /// Seals the sealed columns again with this version of the sealing key, and signs the row.
    /// `None` if this version sealed them all.
    pub(crate) fn reseal(&self, keys: &TenantKeys, version: u32) -> Result<Option<Self>, Error> {
        if T::ENTITY.sealed_columns().next().is_none() {
            return Ok(None);
        }
        let mut values = self.record.values();
        let mut is_resealed = false;
        for (column, value) in T::ENTITY.columns.iter().zip(&mut values) {
            let (Some(kind), RowValue::Bytes(bytes)) = (column.sealed_kind(), &*value) else {
                continue;
            };
            let sealed = Sealed::from_stored(bytes.to_vec());
            let place = self.record.sealed_place(kind);
            if let Some(resealed) = keys.reseal(version, Purpose::Data, &place, &sealed)? {
                *value = RowValue::Bytes(Cow::Owned(resealed.as_bytes().to_vec()));
                is_resealed = true;
            }
        }
        if !is_resealed {
            return Ok(None);
        }
        let record = T::read(&RowReader::new(T::ENTITY, &values));
        let record = record.map_err(|error| Error::Internal(error.into()))?;
        Ok(Some(Self::new(keys, record)))
    }
}
