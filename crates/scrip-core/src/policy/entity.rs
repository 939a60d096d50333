//! The description of a policy entity: its table, columns, and what each column is for.
//!
//! Both engines, export and import, restoration, rights, key rotation and tests derive what they
//! need from the description. A record writes and reads the columns by name; see [`EntityRecord`].

pub mod record;
pub mod row;

pub use self::{
    record::EntityRecord,
    row::{InvalidRow, RowReader, RowSource, RowValue, RowWriter},
};

/// The type of a column, in both engines and in the export file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    Id,
    Number,
    Text,
    Bytes,
}

/// What a column of a policy entity is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnRole {
    /// A part of the primary key, which is in clear. The keys are the first columns of a table.
    Key,
    Clear,
    /// Sealed by the tenant's sealing key, at the place of this kind.
    Sealed(&'static str),
    /// The MAC of the row.
    Mac,
    /// Rows of earlier versions lack the column, and their MAC must stay valid: an absent value
    /// adds nothing to the MAC, and no sealed value depends on it.
    Added,
    /// The MAC of the row does not cover the column. Also every column of a table that has no
    /// policy entity.
    Unsigned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub column_type: ColumnType,
    /// May be NULL.
    pub is_optional: bool,
    pub role: ColumnRole,
    /// A change of the row does not write the column.
    pub is_constant: bool,
    /// No two rows of any tenants have the same value.
    pub is_unique: bool,
}

impl Column {
    /// A column that is in clear, and never NULL.
    pub const fn new(name: &'static str, column_type: ColumnType) -> Self {
        Self {
            name,
            column_type,
            is_optional: false,
            role: ColumnRole::Clear,
            is_constant: false,
            is_unique: false,
        }
    }

    pub const fn id(name: &'static str) -> Self {
        Self::new(name, ColumnType::Id)
    }

    pub const fn number(name: &'static str) -> Self {
        Self::new(name, ColumnType::Number)
    }

    pub const fn text(name: &'static str) -> Self {
        Self::new(name, ColumnType::Text)
    }

    pub const fn bytes(name: &'static str) -> Self {
        Self::new(name, ColumnType::Bytes)
    }

    pub const fn sealed(name: &'static str, kind: &'static str) -> Self {
        Self { role: ColumnRole::Sealed(kind), ..Self::bytes(name) }
    }

    pub const fn mac(name: &'static str) -> Self {
        Self { role: ColumnRole::Mac, ..Self::bytes(name) }
    }

    #[must_use]
    pub const fn key(self) -> Self {
        Self { role: ColumnRole::Key, is_constant: true, ..self }
    }

    #[must_use]
    pub const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// See [`ColumnRole::Added`].
    #[must_use]
    pub const fn added(self) -> Self {
        Self { role: ColumnRole::Added, is_optional: true, ..self }
    }

    /// See [`ColumnRole::Unsigned`].
    #[must_use]
    pub const fn unsigned(self) -> Self {
        Self { role: ColumnRole::Unsigned, is_constant: true, ..self }
    }

    #[must_use]
    pub const fn constant(self) -> Self {
        Self { is_constant: true, ..self }
    }

    #[must_use]
    pub const fn unique(self) -> Self {
        Self { is_unique: true, ..self }
    }

    /// The kind of the sealed place, for a sealed column.
    pub(crate) const fn sealed_kind(&self) -> Option<&'static str> {
        match self.role {
            ColumnRole::Sealed(kind) => Some(kind),
            ColumnRole::Key
            | ColumnRole::Clear
            | ColumnRole::Mac
            | ColumnRole::Added
            | ColumnRole::Unsigned => None,
        }
    }
}

/// How the rows of an entity are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntityWrites {
    /// A row never changes: it is inserted and deleted.
    Insert,
    /// A row is inserted, and another statement changes some of its columns later.
    InsertAndUpdate,
    /// A row is inserted, and replaced later.
    Upsert,
}

/// What the restoration of a policy from a backup does with a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreEffect {
    /// The backup has the row, the vault does not.
    ComesBack,
    /// The vault has the row, the backup does not.
    GoesAway,
    /// Both have the row, with different content.
    Changes,
}

/// What an operator must know before a restoration changes rows in these ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreWarning {
    pub changes: &'static [RestoreEffect],
    pub text: &'static str,
}

/// A policy entity: one table with signed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entity {
    pub table: &'static str,
    /// The singular, for names of statements.
    pub name: &'static str,
    /// The singular, for messages.
    pub kind: &'static str,
    /// The kind of the place of the row's MAC.
    pub mac_kind: &'static str,
    /// In the order of the table and of the export file. The first column names the tenant.
    pub columns: &'static [Column],
    pub writes: EntityWrites,
    /// For rows that get effective again with a restoration.
    pub restore_warning: Option<RestoreWarning>,
}

impl Entity {
    /// The columns of the primary key, which come first.
    pub fn key(&self) -> &'static [Column] {
        let is_other = |it: &Column| it.role != ColumnRole::Key;
        let length = self.columns.iter().position(is_other).unwrap_or(self.columns.len());
        self.columns.split_at_checked(length).map_or(self.columns, |(key, _)| key)
    }

    /// The column that names the tenant.
    pub fn tenant_column(&self) -> &'static str {
        self.columns.first().map_or("", |it| it.name)
    }

    /// The last column of the key, which identifies a row of a tenant.
    pub fn id_column(&self) -> &'static str {
        self.key().last().map_or("", |it| it.name)
    }

    /// The columns with values that no other row may have.
    pub fn unique_columns(&self) -> impl Iterator<Item = &'static Column> + use<> {
        self.columns.iter().filter(|it| it.is_unique)
    }

    /// The columns that the tenant's sealing key seals.
    pub fn sealed_columns(&self) -> impl Iterator<Item = &'static Column> + use<> {
        self.columns.iter().filter(|it| it.sealed_kind().is_some())
    }

    pub(crate) fn index_of(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|it| it.name == column)
    }
}
