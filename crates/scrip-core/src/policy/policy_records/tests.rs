//! Every alteration of a policy outside of the vault is detected.

use std::sync::Arc;

use scrip_seal::{AuditKey, RootKey, Sealed, WrappedTenantKeys};
use uuid::Uuid;

mod entities;
mod place_bytes;

use super::*;
use crate::{
    Timestamp,
    policy::{
        AccessPolicy, ApiKeyRecord, ApplicationRecord, ChangeStamp, ClientKeyRecord, DisplayName,
        ENTITIES, POLICY_ENTITIES, PolicyRow, Quotas, Tenant, TenantSettings,
        application::origins::ApplicationOrigins,
        destination::HostName,
        proxy::ProxyRecord,
        webhook::{EventList, WebhookRecord, WebhookStatus},
    },
    types::{
        ApplicationKind, EventType, Permission, Permissions, TenantKind,
        id::{ApiKeyId, ApplicationId, ClientKeyId, ProxyId, WebhookId},
    },
};

fn stamp(unix_ms: i64) -> ChangeStamp {
    ChangeStamp { by: Some(ApplicationId(Uuid::from_bytes([9; 16]))), at: Timestamp { unix_ms } }
}

fn keys() -> (TenantKeys, WrappedTenantKeys) {
    let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    let wrapped = TenantKeys::create(&root, "acme").unwrap();
    (TenantKeys::unwrap(&root, "acme", &wrapped).unwrap(), wrapped)
}

fn application(byte: u8) -> ApplicationRecord {
    ApplicationRecord {
        id: ApplicationId(Uuid::from_bytes([byte; 16])),
        tenant: TenantId(Uuid::nil()),
        name: DisplayName::parse("app").unwrap(),
        kind: ApplicationKind::Private,
        access: AccessPolicy {
            permissions: Permissions::from_list(&[Permission::TokenRead]),
            rules: Vec::new(),
        },
        origins: ApplicationOrigins::default(),
        created: stamp(1),
        modified: None,
    }
}

fn api_key(byte: u8, application: u8) -> ApiKeyRecord {
    ApiKeyRecord {
        id: ApiKeyId(Uuid::from_bytes([byte; 16])),
        tenant: TenantId(Uuid::nil()),
        application: ApplicationId(Uuid::from_bytes([application; 16])),
        digest: [byte; 32],
        created: stamp(1),
    }
}

fn proxy(byte: u8) -> ProxyRecord {
    ProxyRecord {
        id: ProxyId(Uuid::from_bytes([byte; 16])),
        tenant: TenantId(Uuid::nil()),
        digest: [byte; 32],
        name: DisplayName::parse("proxy").unwrap(),
        application: Some(ApplicationId(Uuid::from_bytes([1; 16]))),
        require_auth: true,
        disable_detokenization: false,
        host: None,
        settings: Sealed::from_stored(vec![1]),
        secrets: Sealed::from_stored(vec![2]),
        created: stamp(1),
        modified: None,
    }
}

fn webhook(byte: u8) -> WebhookRecord {
    WebhookRecord {
        id: WebhookId(Uuid::from_bytes([byte; 16])),
        tenant: TenantId(Uuid::nil()),
        name: DisplayName::parse("webhook").unwrap(),
        status: WebhookStatus::Enabled,
        events: EventList::from_text("token.created").unwrap(),
        settings: Sealed::from_stored(vec![1]),
        secrets: Sealed::from_stored(vec![2]),
        created: stamp(1),
        modified: None,
    }
}

fn client_key(byte: u8) -> ClientKeyRecord {
    ClientKeyRecord {
        id: ClientKeyId(Uuid::from_bytes([byte; 16])),
        tenant: TenantId(Uuid::nil()),
        expires_at: Timestamp { unix_ms: 9 },
        private_key: Sealed::from_stored(vec![1]),
        created: stamp(1),
    }
}

fn records() -> (TenantKeys, PolicyRecords) {
    let (keys, wrapped) = keys();
    let tenant = TenantRecord {
        id: TenantId(Uuid::nil()),
        name: DisplayName::parse("acme").unwrap(),
        kind: TenantKind::Test,
        settings: TenantSettings::default(),
        quotas: Quotas::default_for(TenantKind::Test),
        keys: wrapped,
        created: stamp(1),
        modified: None,
        deletes_at: None,
    };
    let mut records = PolicyRecords::new(&keys, tenant);
    for byte in [1, 2] {
        let signed_row = SignedRow::new(&keys, application(byte));
        records.apply(&PolicyWrite::put(signed_row));
        let signed_row = SignedRow::new(&keys, api_key(byte + 10, byte));
        records.apply(&PolicyWrite::put(signed_row));
        let signed_row = SignedRow::new(&keys, proxy(byte + 20));
        records.apply(&PolicyWrite::put(signed_row));
        let signed_row = SignedRow::new(&keys, webhook(byte + 30));
        records.apply(&PolicyWrite::put(signed_row));
        let signed_row = SignedRow::new(&keys, client_key(byte + 40));
        records.apply(&PolicyWrite::put(signed_row));
    }
    records.seal = records.next_seal(&keys);
    (keys, records)
}

/// Alters the records and checks whether the alteration is detected.
#[track_caller]
fn check(alter: impl FnOnce(&mut PolicyRecords, &TenantKeys), is_detected: bool) {
    let (keys, mut records) = records();
    assert_eq!(records.find_alterations(&keys), []);
    alter(&mut records, &keys);
    assert_eq!(!records.find_alterations(&keys).is_empty(), is_detected);
}

#[test]
fn altered_policy_column_is_detected() {
    check(|_, _| (), false);
    check(|it, _| it.tenant.record.name = DisplayName::parse("x").unwrap(), true);
    check(|it, _| it.tenant.record.kind = TenantKind::Production, true);
    check(|it, _| it.tenant.record.settings.deduplicate_tokens = true, true);
    check(|it, _| it.tenant.record.quotas.tokenize_limit = 6, true);
    check(|it, _| it.tenant.record.keys.sealing.push((2, Sealed::from_stored(vec![]))), true);
    check(|it, _| it.tenant.record.created.at.unix_ms = 2, true);
    check(|it, _| it.tenant.record.modified = Some(stamp(3)), true);
    check(|it, _| it.applications[0].record.name = DisplayName::parse("x").unwrap(), true);
    check(|it, _| it.applications[0].record.kind = ApplicationKind::Management, true);
    let permissions = Permissions::from_list(&[Permission::TokenRead, Permission::TokenDelete]);
    check(|it, _| it.applications[0].record.access.permissions = permissions, true);
    check(|it, _| it.applications[0].record.created.by = None, true);
    check(|it, _| it.api_keys[0].record.digest = [0; 32], true);
    check(|it, _| it.api_keys[0].record.application = it.applications[1].record.id, true);
    check(|it, _| it.seal.counter += 1, true);
}

#[test]
fn altered_column_of_a_proxy_is_detected() {
    check(|it, _| it.proxies[0].record.digest = [0; 32], true);
    check(|it, _| it.proxies[0].record.name = DisplayName::parse("x").unwrap(), true);
    check(|it, _| it.proxies[0].record.application = None, true);
    check(|it, _| it.proxies[0].record.require_auth = false, true);
    check(|it, _| it.proxies[0].record.disable_detokenization = true, true);
    check(|it, _| it.proxies[0].record.host = HostName::parse("a.example").ok(), true);
    check(|it, _| it.proxies[0].record.settings = Sealed::from_stored(vec![2]), true);
    check(|it, _| it.proxies[0].record.secrets = Sealed::from_stored(vec![1]), true);
    check(|it, _| it.proxies[0].record.created.at.unix_ms = 2, true);
    check(|it, _| it.proxies[0].record.modified = Some(stamp(3)), true);
    check(|it, _| it.proxies[0].record.settings = it.proxies[0].record.secrets.clone(), true);
}

#[test]
fn altered_column_of_a_webhook_is_detected() {
    check(|it, _| it.webhooks[0].record.name = DisplayName::parse("x").unwrap(), true);
    check(|it, _| it.webhooks[0].record.status = WebhookStatus::Disabled, true);
    let events = EventList::from_text("token.created,token.read").unwrap();
    check(|it, _| it.webhooks[0].record.events = events, true);
    check(|it, _| it.webhooks[0].record.settings = Sealed::from_stored(vec![2]), true);
    check(|it, _| it.webhooks[0].record.secrets = Sealed::from_stored(vec![1]), true);
    check(|it, _| it.webhooks[0].record.created.at.unix_ms = 2, true);
    check(|it, _| it.webhooks[0].record.modified = Some(stamp(3)), true);
    check(|it, _| it.webhooks[0].record.id = it.webhooks[1].record.id, true);
}

#[test]
fn altered_column_of_a_client_key_is_detected() {
    check(|it, _| it.client_keys[0].record.expires_at.unix_ms = 10, true);
    check(|it, _| it.client_keys[0].record.private_key = Sealed::from_stored(vec![2]), true);
    check(|it, _| it.client_keys[0].record.created.at.unix_ms = 2, true);
    check(|it, _| it.client_keys[0].record.tenant = TenantId(Uuid::from_bytes([9; 16])), true);
    check(|it, _| it.client_keys[0].record.id = it.client_keys[1].record.id, true);
}

#[test]
fn tenant_wants_the_events_of_its_enabled_webhooks() {
    let (keys, mut records) = records();
    records.webhooks[1].record.events = EventList::from_text("token.read,token.deleted").unwrap();
    let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    let audit_key = Arc::new(AuditKey::create(&root).unwrap().0);
    let keys = Arc::new(keys);
    let load = |records: &PolicyRecords| {
        let tenant = Tenant::new(keys.clone(), audit_key.clone(), records.clone());
        EventType::ALL.into_iter().filter(|it| tenant.wants_event(*it)).collect::<Vec<_>>()
    };
    let all = [EventType::TokenCreated, EventType::TokenDeleted, EventType::TokenRead];
    assert_eq!(load(&records), all);
    records.webhooks[1].record.status = WebhookStatus::Disabled;
    assert_eq!(load(&records), [EventType::TokenCreated]);
    records.webhooks.clear();
    assert_eq!(load(&records), []);
}

#[test]
fn added_or_removed_policy_row_is_detected() {
    check(|it, _| it.applications.truncate(1), true);
    check(|it, _| it.api_keys.truncate(1), true);
    check(|it, keys| it.api_keys.push(SignedRow::new(keys, api_key(99, 1))), true);
    check(|it, _| it.api_keys.push(it.api_keys[0].clone()), true);
    check(|it, _| it.proxies.truncate(1), true);
    check(|it, keys| it.proxies.push(SignedRow::new(keys, proxy(99))), true);
    check(|it, _| it.webhooks.truncate(1), true);
    check(|it, keys| it.webhooks.push(SignedRow::new(keys, webhook(99))), true);
    check(|it, _| it.client_keys.truncate(1), true);
    check(|it, keys| it.client_keys.push(SignedRow::new(keys, client_key(99))), true);
    check(|it, _| it.client_keys.reverse(), false);
    check(|it, _| it.applications.reverse(), false);
    check(|it, _| it.proxies.reverse(), false);
    check(|it, _| it.webhooks.reverse(), false);
}

#[test]
fn restored_old_policy_row_is_detected() {
    let (keys, mut records) = records();
    let removed = records.api_keys[0].clone();
    records.apply(&PolicyWrite::remove(removed.record.id));
    records.seal = records.next_seal(&keys);
    assert_eq!(records.find_alterations(&keys), []);
    assert!(removed.has_valid_mac(&keys), "the MAC of the row alone is still valid");
    records.api_keys.push(removed);
    assert_eq!(records.find_alterations(&keys).len(), 1);
}

#[test]
fn policy_macs_do_not_verify_with_another_tenants_keys() {
    let (_, records) = records();
    let (other_keys, _) = keys();
    assert_eq!(records.find_alterations(&other_keys).len(), 12);
}

#[test]
fn removing_an_application_removes_its_api_keys() {
    let (keys, mut records) = records();
    records.apply(&PolicyWrite::remove(application(1).id));
    assert_eq!(records.applications.len(), 1);
    assert_eq!(records.api_keys.len(), 1);
    records.seal = records.next_seal(&keys);
    assert_eq!(records.find_alterations(&keys), []);
}
