//! The entities of a policy, and a row or an id of any of them.

use std::fmt;

use scrip_seal::{Mac, TenantKeys};
use uuid::Uuid;

use crate::{
    Error,
    policy::{
        SignedRow, TenantRecord,
        entity::{Entity, EntityRecord, InvalidRow, RowSource, RowValue},
        entity_list::for_each_policy_entity,
    },
};

/// An entity whose rows are parts of a policy, and how they are read.
#[derive(Debug, Clone, Copy)]
pub struct PolicyEntity {
    pub entity: &'static Entity,
    /// Reads a stored row. Its MAC is not checked yet.
    pub read: fn(&dyn RowSource) -> Result<EntityRow, InvalidRow>,
}

const fn policy_entity<T: EntityRecord>() -> PolicyEntity
where
    SignedRow<T>: Into<EntityRow>,
{
    PolicyEntity { entity: T::ENTITY, read: read_row::<T> }
}

fn read_row<T: EntityRecord>(source: &dyn RowSource) -> Result<EntityRow, InvalidRow>
where
    SignedRow<T>: Into<EntityRow>,
{
    SignedRow::<T>::read(source).map(Into::into)
}

/// Defines the rows and ids of all entities.
macro_rules! define_rows {
    ($($rows:ident: $Variant:ident, $Record:ty, $Id:ty;)*) => {
        /// The entities of a policy besides the tenant, in the order of
        /// [`ENTITIES`](crate::policy::ENTITIES).
        pub const POLICY_ENTITIES: [PolicyEntity; [$(stringify!($rows)),*].len()] =
            [$(policy_entity::<$Record>()),*];

        /// A signed row of any entity of a policy.
        #[derive(Debug, Clone)]
        pub enum EntityRow {
            Tenant(Box<SignedRow<TenantRecord>>),
            $($Variant(Box<SignedRow<$Record>>),)*
        }

        /// The id of a row that a change can remove.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum EntityId {
            $($Variant($Id),)*
        }

        $(impl From<SignedRow<$Record>> for EntityRow {
            fn from(row: SignedRow<$Record>) -> Self {
                Self::$Variant(Box::new(row))
            }
        }

        impl From<$Id> for EntityId {
            fn from(id: $Id) -> Self {
                Self::$Variant(id)
            }
        })*

        impl EntityRow {
            pub fn as_row(&self) -> &dyn StoredRow {
                match self {
                    Self::Tenant(row) => row.as_ref(),
                    $(Self::$Variant(row) => row.as_ref(),)*
                }
            }

            /// `None` for a tenant, which a change of its policy cannot remove.
            pub fn id(&self) -> Option<EntityId> {
                match self {
                    Self::Tenant(_) => None,
                    $(Self::$Variant(row) => Some(EntityId::$Variant(row.record.id)),)*
                }
            }
        }

        impl EntityId {
            pub fn entity(self) -> &'static Entity {
                match self {
                    $(Self::$Variant(_) => <$Record>::ENTITY,)*
                }
            }

            pub fn uuid(self) -> Uuid {
                match self {
                    $(Self::$Variant(id) => id.0,)*
                }
            }
        }
    };
}

for_each_policy_entity!(define_rows);

impl From<SignedRow<TenantRecord>> for EntityRow {
    fn from(row: SignedRow<TenantRecord>) -> Self {
        Self::Tenant(Box::new(row))
    }
}

/// A signed row, without its type.
pub trait StoredRow: fmt::Debug + Send + Sync {
    fn entity(&self) -> &'static Entity;

    /// The id, for messages.
    fn id_text(&self) -> String;

    fn mac(&self) -> Mac;

    fn has_valid_mac(&self, keys: &TenantKeys) -> bool;

    /// The values of all columns, in their order.
    fn values(&self) -> Vec<RowValue<'_>>;

    /// How an operator recognizes the row, besides its id.
    fn description(&self) -> String;

    /// The number of sealed bytes, which grow with the requests of a client.
    fn sealed_length(&self) -> usize;

    /// The row with its sealed columns sealed by this version of the sealing key, and a new MAC.
    /// `None` if this version sealed them all.
    /// Errors: the row was altered.
    fn reseal(&self, keys: &TenantKeys, version: u32) -> Result<Option<EntityRow>, Error>;

    /// As [`StoredRow::reseal`], and with a new MAC in any case: the key of the MAC is new.
    fn renew(&self, keys: &TenantKeys, version: u32) -> Result<EntityRow, Error>;
}

impl<T: EntityRecord + Clone + fmt::Debug + Send + Sync> StoredRow for SignedRow<T>
where
    Self: Into<EntityRow>,
{
    fn entity(&self) -> &'static Entity {
        T::ENTITY
    }

    fn id_text(&self) -> String {
        let values = self.record.values();
        let id = T::ENTITY.index_of(T::ENTITY.id_column()).and_then(|it| values.get(it));
        if let Some(RowValue::Id(id)) = id { id.to_string() } else { String::new() }
    }

    fn mac(&self) -> Mac {
        self.mac
    }

    fn has_valid_mac(&self, keys: &TenantKeys) -> bool {
        SignedRow::has_valid_mac(self, keys)
    }

    fn values(&self) -> Vec<RowValue<'_>> {
        SignedRow::values(self)
    }

    fn description(&self) -> String {
        self.record.description()
    }

    fn sealed_length(&self) -> usize {
        if T::ENTITY.sealed_columns().next().is_none() {
            return 0;
        }
        let values = self.record.values();
        let lengths = T::ENTITY.columns.iter().zip(&values).map(|(column, value)| {
            match (column.sealed_kind(), value) {
                (Some(_), RowValue::Bytes(bytes)) => bytes.len(),
                (_, _) => 0,
            }
        });
        lengths.fold(0, usize::saturating_add)
    }

    fn reseal(&self, keys: &TenantKeys, version: u32) -> Result<Option<EntityRow>, Error> {
        Ok(SignedRow::reseal(self, keys, version)?.map(Into::into))
    }

    fn renew(&self, keys: &TenantKeys, version: u32) -> Result<EntityRow, Error> {
        let resealed = SignedRow::reseal(self, keys, version)?;
        Ok(resealed.unwrap_or_else(|| Self::new(keys, self.record.clone())).into())
    }
}

/// Removes the types of rows.
pub(super) fn as_stored<T: EntityRecord + Clone + fmt::Debug + Send + Sync>(
    rows: &[SignedRow<T>],
) -> impl Iterator<Item = &dyn StoredRow>
where
    SignedRow<T>: Into<EntityRow>,
{
    rows.iter().map(|it| -> &dyn StoredRow { it })
}
