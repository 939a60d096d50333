//! The description of each entity agrees with what its records write and read.

use super::{
    place_bytes::{access_session, filled_application, filled_proxy, filled_webhook, tenant},
    *,
};
use crate::policy::entity::{ColumnRole, ColumnType, EntityRecord, RowValue};

#[test]
fn entities_start_with_their_keys_and_have_one_mac() {
    for entity in ENTITIES {
        let key_columns = entity.columns.iter().filter(|it| it.role == ColumnRole::Key);
        assert_eq!(key_columns.count(), entity.key().len(), "{}", entity.table);
        assert!(["id", "tenant"].contains(&entity.tenant_column()), "{}", entity.table);
        let macs = entity.columns.iter().filter(|it| it.role == ColumnRole::Mac);
        assert_eq!(macs.count(), 1, "{}", entity.table);
        for column in entity.columns.iter().filter(|it| it.role == ColumnRole::Added) {
            assert!(column.is_optional, "{}.{}", entity.table, column.name);
        }
        let same_table = ENTITIES.iter().filter(|it| it.table == entity.table);
        assert_eq!(same_table.count(), 1, "{}", entity.table);
    }
    let tables = POLICY_ENTITIES.iter().map(|it| it.entity.table).collect::<Vec<_>>();
    let not_a_policy = ["tenants", "access_sessions"];
    let expected = ENTITIES.map(|it| it.table).into_iter().filter(|it| !not_a_policy.contains(it));
    assert_eq!(tables, expected.collect::<Vec<_>>());
}

/// Checks the values of a row, and reads them.
fn read_again<T: EntityRecord + Clone>(record: &T) -> T {
    let row = SignedRow::new(&keys().0, record.clone());
    let values = row.values();
    for (column, value) in T::ENTITY.columns.iter().zip(&values) {
        let is_expected = match (value, column.column_type) {
            (RowValue::Null, _) => column.is_optional,
            (RowValue::Id(_), ColumnType::Id)
            | (RowValue::Number(_), ColumnType::Number)
            | (RowValue::Text(_), ColumnType::Text)
            | (RowValue::Bytes(_), ColumnType::Bytes) => true,
            (_, _) => false,
        };
        assert!(is_expected, "{}.{} is {value:?}", T::ENTITY.table, column.name);
    }
    let read = SignedRow::<T>::read(&values).unwrap();
    assert_eq!(read.mac, row.mac);
    read.record
}

#[test]
fn record_of_each_entity_is_read_as_it_was_written() {
    for is_filled in [false, true] {
        let tenant = tenant(is_filled);
        let read = read_again(&tenant);
        assert_eq!(read.keys.promoted, tenant.keys.promoted);
        assert_eq!(TenantRecord { keys: tenant.keys.clone(), ..read }, tenant);
        let application = filled_application(is_filled);
        assert_eq!(read_again(&application), application);
        let proxy = filled_proxy(is_filled);
        assert_eq!(read_again(&proxy), proxy);
        let webhook = filled_webhook(is_filled);
        assert_eq!(read_again(&webhook), webhook);
        let session = access_session(is_filled);
        assert_eq!(read_again(&session), session);
    }
    assert_eq!(read_again(&api_key(3, 4)), api_key(3, 4));
    assert_eq!(read_again(&client_key(7)), client_key(7));
}

/// The place of a sealed value has the clear columns that the MAC covers.
#[test]
fn sealed_place_is_the_place_of_the_mac_without_sealed_columns() {
    let proxy = filled_proxy(true);
    let expected = proxy.mac_place();
    let sealed = ProxyRecord::sealed_place(&proxy, ProxyRecord::ENTITY.mac_kind);
    let sealed = sealed.bytes(proxy.settings.as_bytes()).bytes(proxy.secrets.as_bytes());
    assert_eq!(format!("{sealed:?}"), format!("{expected:?}"));
    let application = filled_application(true);
    let sealed = application.sealed_place(ApplicationRecord::ENTITY.mac_kind);
    let origins = application.origins.to_text().unwrap();
    assert_eq!(format!("{:?}", sealed.text(&origins)), format!("{:?}", application.mac_place()));
}
