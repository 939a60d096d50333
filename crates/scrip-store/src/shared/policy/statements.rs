//! The statements of each policy entity, built once from its columns.
//!
//! `crates/scrip-store/statements/both_engines.sql` has their text.

use std::sync::LazyLock;

use scrip_core::{
    policy::{
        ENTITIES, StoredRow,
        entity::{Column, Entity, EntityWrites, RowValue},
    },
    types::StoreError,
};

use crate::sql::{Execute, Parameter};

/// The first line of each statement is its name.
pub(crate) struct EntityStatements {
    entity: &'static Entity,
    pub(crate) list: String,
    pub(crate) list_of_tenant: String,
    pub(crate) put: String,
    /// Parameters: the tenant, and the id of the row if it is not the tenant's.
    pub(crate) delete: String,
    pub(crate) delete_of_tenant: String,
    pub(crate) delete_leftovers: String,
    /// Finds another row of any tenant with a value that must be unique, or this row in another
    /// tenant. Empty for an entity without such values.
    pub(crate) find_taken: String,
}

static STATEMENTS: LazyLock<Vec<EntityStatements>> =
    LazyLock::new(|| ENTITIES.into_iter().map(EntityStatements::new).collect());

const UNKNOWN_ENTITY: StoreError = StoreError::Corrupt("an entity has no statements");

/// The statements of an entity. Fails only if [`ENTITIES`] does not have it.
pub(crate) fn statements(entity: &Entity) -> Result<&'static EntityStatements, StoreError> {
    STATEMENTS.iter().find(|it| it.entity.table == entity.table).ok_or(UNKNOWN_ENTITY)
}

/// Inserts a row, or replaces it if the entity permits that.
pub(crate) async fn put_row(client: &impl Execute, row: &dyn StoredRow) -> Result<(), StoreError> {
    put_values(client, row.entity(), row.values()).await
}

pub(crate) async fn put_values(
    client: &impl Execute,
    entity: &Entity,
    values: Vec<RowValue<'_>>,
) -> Result<(), StoreError> {
    let parameters: Vec<_> = values.into_iter().map(Parameter::from).collect();
    client.execute(&statements(entity)?.put, &parameters).await.map(drop)
}

/// The parameters of [`EntityStatements::find_taken`].
pub(crate) fn taken_parameters(row: &dyn StoredRow) -> Vec<Parameter<'_>> {
    let entity = row.entity();
    let mut unique = Vec::new();
    let (mut id, mut tenant) = (Parameter::from(RowValue::Null), Parameter::from(RowValue::Null));
    for (column, value) in entity.columns.iter().zip(row.values()) {
        if column.is_unique {
            unique.push(Parameter::from(value));
        } else if column.name == entity.id_column() {
            id = Parameter::from(value);
        } else if column.name == entity.tenant_column() {
            tenant = Parameter::from(value);
        }
    }
    unique.extend([id, tenant]);
    unique
}

impl EntityStatements {
    fn new(entity: &'static Entity) -> Self {
        let Entity { table, name, .. } = entity;
        let select = list_columns(entity);
        let (tenant, id) = (entity.tenant_column(), entity.id_column());
        let row_condition = if tenant == id {
            format!("{tenant} = $1")
        } else {
            format!("{tenant} = $1 AND {id} = $2")
        };
        Self {
            entity,
            list: format!("-- list_{table}\n{select}"),
            list_of_tenant: format!("-- list_{table}\n{select}\nWHERE {tenant} = $1"),
            put: put_statement(entity),
            delete: format!("-- delete_{name}\nDELETE FROM {table} WHERE {row_condition}"),
            delete_of_tenant: format!("-- delete_{table}\nDELETE FROM {table} WHERE {tenant} = $1"),
            delete_leftovers: format!(
                "-- delete_leftover_{table}\nDELETE FROM {table} WHERE {tenant} = $1"
            ),
            find_taken: find_taken_statement(entity),
        }
    }
}

fn column_list(columns: &[Column]) -> String {
    join(columns.iter().map(|it| it.name.to_owned()), ", ")
}

/// The start of a statement that reads all columns of an entity, in their order.
pub(crate) fn list_columns(entity: &Entity) -> String {
    format!("SELECT {}\nFROM {}", column_list(entity.columns), entity.table)
}

fn join(texts: impl Iterator<Item = String>, separator: &str) -> String {
    texts.collect::<Vec<_>>().join(separator)
}

/// Each column with the number of its parameter.
fn numbered(entity: &Entity) -> impl Iterator<Item = (usize, &'static Column)> {
    (1..).zip(entity.columns)
}

fn put_statement(entity: &Entity) -> String {
    let Entity { table, name, .. } = entity;
    let columns = column_list(entity.columns);
    let values = join(numbered(entity).map(|(number, _)| format!("${number}")), ", ");
    let insert = format!("-- put_{name}\nINSERT INTO {table} ({columns})\nVALUES ({values})");
    match entity.writes {
        EntityWrites::Insert | EntityWrites::InsertAndUpdate => insert,
        EntityWrites::Upsert => {
            let key = column_list(entity.key());
            let changed = numbered(entity).filter(|(_, column)| !column.is_constant);
            let changed = changed.map(|(number, column)| format!("{} = ${number}", column.name));
            format!("{insert}\nON CONFLICT ({key}) DO UPDATE SET {}", join(changed, ", "))
        }
    }
}

fn find_taken_statement(entity: &Entity) -> String {
    let Entity { table, name, .. } = entity;
    let unique: Vec<_> = (1..).zip(entity.unique_columns()).collect();
    if unique.is_empty() {
        return String::new();
    }
    let same = unique.iter().map(|(number, column)| format!("{} = ${number}", column.name));
    let same = join(same, " OR ");
    let (tenant, id) = (entity.tenant_column(), entity.id_column());
    let id_number = unique.len().saturating_add(1);
    let tenant_number = id_number.saturating_add(1);
    format!(
        "-- find_{name}\nSELECT 1 FROM {table} WHERE ({same}) \
         AND ({id} <> ${id_number} OR {tenant} <> ${tenant_number})"
    )
}

#[cfg(test)]
pub(crate) fn list_statements() -> Vec<String> {
    let texts = STATEMENTS.iter().flat_map(|it| {
        let of_tenant = [&it.list_of_tenant, &it.put, &it.delete, &it.delete_of_tenant];
        [&it.list].into_iter().chain(of_tenant).chain([&it.delete_leftovers, &it.find_taken])
    });
    texts.cloned().collect()
}
