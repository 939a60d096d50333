//! Alterations of every column of every policy entity. A new entity or column needs no new case.

use scrip_core::policy::{
    ENTITIES,
    entity::{Column, ColumnType, Entity},
};
use scrip_testing::vault_harness::{Engine, VaultHarness};

use crate::{policy::harness::create_actor, postgres::column_alterations::Attacker};

/// The entities whose rows decide the rights of a tenant. An access session decides only its own
/// rights; `access_sessions.rs` and `postgres/policy.rs` alter its columns with
/// [`entity_alterations`].
pub(crate) fn policy_entities() -> impl Iterator<Item = &'static Entity> {
    ENTITIES.into_iter().filter(|it| it.table != "access_sessions")
}

/// Values that alter a column, as SQL of an engine. A value may equal the stored one.
pub(crate) fn altered_values(engine: Engine, column: &Column) -> Vec<String> {
    let values: &[&str] = match (column.column_type, engine) {
        (ColumnType::Id, Engine::Sqlite) => {
            &["{fresh}", "zeroblob(16)", "zeroblob(32)", "x'00'", "x''"]
        }
        (ColumnType::Id, Engine::Postgres) => {
            &["CAST('5c5c5c5c-5c5c-5c5c-5c5c-5c5c5c5c5c5c' AS uuid)"]
        }
        (ColumnType::Number, Engine::Sqlite | Engine::Postgres) => {
            &["{column} + 1", "{column} - 1", "0", "1", "-1", "2", "4102444800000"]
        }
        // Another spelling of the same value is also an alteration.
        (ColumnType::Text, Engine::Sqlite | Engine::Postgres) => {
            &["' ' || {column}", "{column} || ' '", "upper({column})", "'another'", "''"]
        }
        (ColumnType::Bytes, Engine::Sqlite) => &[
            "zeroblob(length({column}))",
            "substr({column}, 2)",
            "substr({column}, 1, length({column}) - 1)",
            "x''",
        ],
        (_, Engine::Memory) => &[],
        (ColumnType::Bytes, Engine::Postgres) => &[
            "decode(repeat('00', length({column})), 'hex')",
            "substr({column}, 2)",
            "substr({column}, 1, length({column}) - 1)",
            "CAST('' AS bytea)",
        ],
    };
    let null = column.is_optional.then_some("NULL");
    let values = values.iter().copied().chain(null);
    values.map(|it| it.replace("{column}", column.name)).collect()
}

/// Each column of an entity with its altered values: those of its type, then the special ones.
pub(crate) fn entity_alterations(
    engine: Engine,
    entity: &Entity,
    special: &[(&str, &[&str])],
) -> Vec<(&'static str, Vec<String>)> {
    let with_values = |column: &Column| {
        let mut values = altered_values(engine, column);
        let special = special.iter().filter(|(name, _)| *name == column.name);
        values.extend(special.flat_map(|(_, values)| *values).map(|it| (*it).to_owned()));
        (column.name, values)
    };
    entity.columns.iter().map(with_values).collect()
}

#[tokio::test]
async fn altered_policy_column_is_detected_on_postgres() {
    let harness = VaultHarness::open(Engine::Postgres).await;
    let victim = create_actor(&harness, "victim").await.tenant.id;
    let witness = create_actor(&harness, "witness").await.tenant.id;
    let attacker = Attacker::connect(&harness).await;
    for entity in policy_entities() {
        for column in entity.columns {
            let mut detected = 0;
            for value in altered_values(Engine::Postgres, column) {
                let sql = alteration(entity, column, &value, &victim.0.to_string());
                attacker.save_table(entity.table).await;
                // The types of the schema reject some values.
                if attacker.0.execute(&sql, &[]).await.is_ok_and(|it| it > 0) {
                    let directory = harness.reload(None).await.unwrap();
                    assert!(directory.tenant(victim).is_none(), "{sql}");
                    assert!(directory.tenant(witness).is_some(), "{sql}");
                    assert!(!directory.alterations().is_empty(), "{sql}");
                    detected += 1;
                }
                attacker.restore_table(entity.table).await;
            }
            assert!(detected > 0, "no value alters {}.{}", entity.table, column.name);
            let directory = harness.reload(None).await.unwrap();
            assert_eq!(directory.alterations(), [], "{}", entity.table);
        }
    }
}

/// Alters one row of the tenant, unless it has the value already.
fn alteration(entity: &Entity, column: &Column, value: &str, tenant: &str) -> String {
    let (table, name) = (entity.table, column.name);
    let (tenant_column, id) = (entity.tenant_column(), entity.id_column());
    format!(
        "UPDATE {table} SET {name} = {value} WHERE {name} IS DISTINCT FROM {value} AND ctid =
            (SELECT ctid FROM {table} WHERE {tenant_column} = '{tenant}' ORDER BY {id} LIMIT 1)"
    )
}
