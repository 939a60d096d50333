//! Tenants, applications and keys are loaded as they were stored, and change atomically.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Error,
    audit::AuditRecord,
    change::{ChangeOutcome, CommitExtras},
    operations::{
        access_sessions::{
            authorize_access_session::{AccessSessionAuthorization, authorize_access_session},
            create_access_session::create_access_session,
            list_access_sessions::list_access_sessions,
            revoke_access_session::revoke_access_session,
        },
        applications::{
            create_api_key::{create_api_key, import_api_key},
            create_application::{
                CreateKey, CreatedApplication, NewApplication, create_application,
            },
            delete_api_key::delete_api_key,
            delete_application::delete_application,
            update_application::{ApplicationUpdate, update_application},
        },
        tenants::{
            delete_tenant::{delete_tenant, destroy_due_tenants},
            purge_tenants::purge_tenants,
            restore_tenant::restore_tenant,
            update_tenant::{set_tenant_quotas, update_tenant},
        },
    },
    policy::{
        AccessPolicy, AccessSessionId, ApiKeyText, CallerRequirement, DeduplicationBehavior,
        DisplayName, Quotas, SignedRow, SystemKeys, Tenant, TenantSettings,
        application::origins::ApplicationOrigins,
    },
    types::{
        ApplicationKind, Operation, Permission, Transform,
        id::{ApiKeyId, ApplicationId},
        time::Clock,
    },
};
use scrip_seal::Sealed;
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules, access_without_rules, operator},
    vault_harness::VaultHarness,
};
use uuid::Uuid;

on_every_engine! {
    VaultHarness;
    directory_is_loaded_as_it_was_stored
    system_keys_cannot_be_inserted_twice
    every_policy_change_raises_the_directory_version
    changing_missing_policy_is_not_found
    api_key_belongs_to_one_application
    api_keys_per_application_are_limited
    deleting_a_tenant_purges_all_its_rows
    tenant_deletion_with_grace_can_be_undone_until_due
    policy_change_with_keys_of_another_tenant_is_rejected
    policy_change_checks_current_permissions_of_the_application
    access_sessions_are_listed_and_revoked_only_within_their_tenant
    authorized_access_session_keeps_its_first_rights
}

async fn create_test_application(
    harness: &VaultHarness,
    tenant: &Arc<Tenant>,
    access: AccessPolicy,
    create_key: CreateKey,
) -> CreatedApplication {
    let (name, kind) = (DisplayName::parse("Ünlü & Söhne").unwrap(), ApplicationKind::Private);
    let new_application =
        NewApplication { name, kind, access, origins: ApplicationOrigins::default(), create_key };
    let directory = harness.directory().await;
    create_application(&harness.vault, operator(tenant), directory.pepper(), new_application, None)
        .await
        .unwrap()
}

async fn reload_tenant(harness: &VaultHarness, tenant: &Arc<Tenant>) -> Arc<Tenant> {
    let directory = harness.directory().await;
    assert_eq!(directory.alterations(), []);
    Arc::clone(directory.tenant(tenant.id).unwrap())
}

async fn directory_is_loaded_as_it_was_stored(harness: VaultHarness) {
    let settings = TenantSettings {
        fingerprint_tokens: false,
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        disable_ephemeral_proxy: true,
    };
    let tenant = harness.tenant(settings.clone()).await;
    assert_eq!(tenant.settings, settings);
    let access_policies = [
        access_without_rules(TOKENS),
        access_with_rules([
            access_rule("/pci/", Transform::Reveal, &[Permission::TokenRead]),
            access_rule("/", Transform::Redact, TOKENS),
        ]),
    ];
    let mut created_applications = Vec::new();
    for (access, create_key) in access_policies.into_iter().zip([CreateKey::Yes, CreateKey::No]) {
        created_applications
            .push(create_test_application(&harness, &tenant, access, create_key).await);
    }
    let loaded = reload_tenant(&harness, &tenant).await;
    for created in created_applications {
        let expected = created.application;
        assert_eq!(loaded.applications[&expected.record.id], expected);
    }

    let name = DisplayName::parse("other").unwrap();
    let default_settings = Box::new(|_| TenantSettings::default());
    update_tenant(&harness.vault, operator(&tenant), name.clone(), default_settings, None)
        .await
        .unwrap();
    let mut quotas = tenant.quotas;
    quotas.set("tokenize_limit", "7").unwrap();
    set_tenant_quotas(&harness.vault, operator(&tenant), Box::new(move |_| quotas)).await.unwrap();
    let loaded = reload_tenant(&harness, &tenant).await;
    assert_eq!((&loaded.name, &loaded.settings), (&name, &TenantSettings::default()));
    assert_eq!(loaded.quotas, quotas);
    assert!(loaded.modified.is_some());
}

async fn system_keys_cannot_be_inserted_twice(harness: VaultHarness) {
    let store = &harness.vault.store;
    let keys_before = store.load_directory().await.unwrap().system_keys;
    let [pepper, audit_key] = [8, 9].map(|it| Sealed::from_stored(vec![it; 40]));
    assert!(store.insert_system_keys(SystemKeys { pepper, audit_key }).await.is_err());
    assert_eq!(store.load_directory().await.unwrap().system_keys, keys_before);
}

async fn set_permissions(
    harness: &VaultHarness,
    tenant: &Arc<Tenant>,
    application: ApplicationId,
    permissions: &[Permission],
) -> Result<(), Error> {
    let (name, access) = (DisplayName::parse("x").unwrap(), access_without_rules(permissions));
    let update = ApplicationUpdate { name, access, origins: None };
    let permit = operator(tenant);
    update_application(&harness.vault, permit, application, update, None).await.map(drop)
}

async fn every_policy_change_raises_the_directory_version(harness: VaultHarness) {
    let store = &harness.vault.store;
    let mut last_version = store.directory_version().await.unwrap();
    let mut assert_version_raised = async || {
        let version = store.directory_version().await.unwrap();
        let directory = harness.directory().await;
        assert_eq!((version > last_version, directory.version()), (true, version));
        last_version = version;
    };
    let tenant = harness.default_tenant().await;
    assert_version_raised().await;
    let created =
        create_test_application(&harness, &tenant, access_without_rules(TOKENS), CreateKey::Yes)
            .await;
    let id = created.application.record.id;
    assert_version_raised().await;
    let tenant = reload_tenant(&harness, &tenant).await;
    let directory = harness.directory().await;
    let key = create_api_key(&harness.vault, operator(&tenant), directory.pepper(), id, None)
        .await
        .unwrap();
    assert_version_raised().await;
    delete_api_key(&harness.vault, operator(&tenant), id, key.record.id).await.unwrap();
    assert_version_raised().await;
    set_permissions(&harness, &tenant, id, &[Permission::TokenRead]).await.unwrap();
    assert_version_raised().await;
    delete_application(&harness.vault, operator(&tenant), id).await.unwrap();
    assert_version_raised().await;
    delete_tenant(&harness.vault, operator(&tenant)).await.unwrap();
    assert_version_raised().await;
}

async fn changing_missing_policy_is_not_found(harness: VaultHarness) {
    let (tenant, other_tenant) = (harness.default_tenant().await, harness.default_tenant().await);
    let other_application = create_test_application(
        &harness,
        &other_tenant,
        access_without_rules(TOKENS),
        CreateKey::Yes,
    )
    .await
    .application;
    let (id, key) = (other_application.record.id, other_application.api_keys[0].id);
    let vault = &harness.vault;
    let assert_not_found =
        |outcome: Result<(), Error>| assert!(matches!(outcome, Err(Error::NotFound)));
    assert_not_found(delete_application(vault, operator(&tenant), id).await);
    assert_not_found(delete_api_key(vault, operator(&tenant), id, key).await);
    let unknown_id = ApplicationId(Uuid::nil());
    assert_not_found(delete_application(vault, operator(&tenant), unknown_id).await);
    assert_not_found(
        delete_api_key(vault, operator(&other_tenant), id, ApiKeyId(Uuid::nil())).await,
    );
    assert_not_found(set_permissions(&harness, &tenant, id, TOKENS).await);
    assert_eq!(reload_tenant(&harness, &other_tenant).await.applications[&id], other_application);
}

async fn api_key_belongs_to_one_application(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let first =
        create_test_application(&harness, &tenant, access_without_rules(TOKENS), CreateKey::No)
            .await
            .application;
    let second =
        create_test_application(&harness, &tenant, access_without_rules(TOKENS), CreateKey::No)
            .await
            .application;
    let directory = harness.directory().await;
    let key_text = || ApiKeyText::parse("key_pvt_0123456789abcdef").unwrap();
    let import =
        |id| import_api_key(&harness.vault, operator(&tenant), directory.pepper(), id, key_text());
    import(first.record.id).await.unwrap();
    for id in [first.record.id, second.record.id] {
        let rejected = import(id).await;
        assert!(matches!(rejected, Err(Error::Conflict { .. })), "{rejected:?}");
    }
    assert_eq!(harness.authenticate(key_text().expose()).await.application(), first.record.id);
    assert!(
        reload_tenant(&harness, &tenant).await.applications[&second.record.id].api_keys.is_empty()
    );
}

async fn api_keys_per_application_are_limited(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let created =
        create_test_application(&harness, &tenant, access_without_rules(TOKENS), CreateKey::Yes)
            .await;
    let id = created.application.record.id;
    let tenant = reload_tenant(&harness, &tenant).await;
    let directory = harness.directory().await;
    for count in 1..=100 {
        let pepper = directory.pepper();
        let outcome = create_api_key(&harness.vault, operator(&tenant), pepper, id, None).await;
        assert_eq!(outcome.is_ok(), count < 100, "{outcome:?}");
    }
}

async fn deleting_a_tenant_purges_all_its_rows(harness: VaultHarness) {
    let (tenant, other_tenant) = (harness.default_tenant().await, harness.default_tenant().await);
    let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    let other_caller = harness.caller(&other_tenant, access_without_rules(TOKENS)).await;
    let create = async |caller| {
        let token = scrip_testing::requests::card(scrip_testing::requests::VISA);
        scrip_testing::requests::create(&harness.vault, caller, token).await.unwrap().token.id
    };
    let (_, other_token) = (create(&caller).await, create(&other_caller).await);
    delete_tenant(&harness.vault, operator(&tenant)).await.unwrap();
    let second_delete = delete_tenant(&harness.vault, operator(&tenant)).await;
    assert!(matches!(second_delete, Err(Error::NotFound)));
    let directory = harness.directory().await;
    assert!(directory.tenant(tenant.id).is_none());
    assert_eq!(directory.alterations(), []);

    assert!(purge_tenants(&harness.vault, &[]).await.unwrap() > 0);
    assert_eq!(purge_tenants(&harness.vault, &[]).await.unwrap(), 0);
    // A write that was in flight when the tenant was deleted fails.
    let token = scrip_testing::requests::card(scrip_testing::requests::VISA);
    let late_create = scrip_testing::requests::create(&harness.vault, &caller, token).await;
    assert!(matches!(late_create, Err(Error::Unavailable(_))), "{late_create:?}");
    scrip_testing::requests::get(&harness.vault, &other_caller, &other_token).await;
}

async fn tenant_deletion_with_grace_can_be_undone_until_due(harness: VaultHarness) {
    let vault = &harness.vault;
    let tenant = harness.default_tenant().await;
    let key = harness
        .create_api_key(&tenant, ApplicationKind::Private, access_without_rules(TOKENS))
        .await;
    let set_grace = |quotas: Quotas| Quotas { deletion_grace_seconds: 3600, ..quotas };
    let tenant = reload_tenant(&harness, &tenant).await;
    set_tenant_quotas(vault, operator(&tenant), Box::new(set_grace)).await.unwrap();
    let tenant = reload_tenant(&harness, &tenant).await;
    let due_at = vault.clock.now().plus(Duration::from_secs(3600));
    assert_eq!(delete_tenant(vault, operator(&tenant)).await.unwrap(), Some(due_at));
    let directory = harness.directory().await;
    assert!(directory.tenant(tenant.id).is_none() && directory.authenticate(&key).is_none());
    assert_eq!(directory.alterations(), []);
    let [deleted] = directory.pending_deletion() else {
        panic!("not one deleted tenant: {:?}", directory.pending_deletion())
    };
    assert_eq!((deleted.id, deleted.deletes_at), (tenant.id, Some(due_at)));
    harness.clock.advance(Duration::from_secs(3599));
    assert_eq!(destroy_due_tenants(vault, &directory).await.unwrap(), 0);
    restore_tenant(vault, operator(deleted)).await.unwrap();
    // A node with an old directory must not delete restored rows.
    harness.clock.advance(Duration::from_secs(1));
    assert_eq!(destroy_due_tenants(vault, &directory).await.unwrap(), 0);
    let restored = reload_tenant(&harness, &tenant).await;
    assert!(harness.directory().await.authenticate(&key).is_some());
    delete_tenant(vault, operator(&restored)).await.unwrap();
    let directory = harness.directory().await;
    harness.clock.advance(Duration::from_secs(3600));
    assert_eq!(destroy_due_tenants(vault, &directory).await.unwrap(), 1);
    assert_eq!(destroy_due_tenants(vault, &directory).await.unwrap(), 0);
    let directory = harness.directory().await;
    assert!(directory.pending_deletion().is_empty() && directory.authenticate(&key).is_none());
}

/// A permit with the keys of one tenant cannot change the rows of another tenant.
async fn policy_change_with_keys_of_another_tenant_is_rejected(harness: VaultHarness) {
    let (tenant, other_tenant) = (harness.default_tenant().await, harness.default_tenant().await);
    let forged = Tenant {
        id: other_tenant.id,
        name: other_tenant.name.clone(),
        kind: other_tenant.kind,
        settings: other_tenant.settings.clone(),
        quotas: other_tenant.quotas,
        created: other_tenant.created,
        modified: None,
        deletes_at: None,
        keys: Arc::clone(&tenant.keys),
        audit_key: Arc::clone(&other_tenant.audit_key),
        applications: std::collections::BTreeMap::new(),
        proxies: std::collections::BTreeMap::new(),
        webhooks: std::collections::BTreeMap::new(),
        client_keys: std::collections::BTreeMap::new(),
        subscribed_events: Default::default(),
        seal: other_tenant.seal,
    };
    let rejected = set_tenant_quotas(
        &harness.vault,
        operator(&Arc::new(forged)),
        Box::new(move |_| other_tenant.quotas),
    )
    .await;
    assert!(matches!(rejected, Err(Error::Unavailable(_))), "{rejected:?}");
    assert_eq!(harness.directory().await.alterations(), []);
}

/// Rights may change between the authentication of a request and its policy change.
async fn policy_change_checks_current_permissions_of_the_application(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let (kind, permission) = (ApplicationKind::Management, Permission::ApplicationCreate);
    let caller = harness.caller_of_kind(&tenant, kind, access_without_rules(&[permission])).await;
    let directory = harness.directory().await;
    let try_create = async || {
        let permit = caller.permit_policy(CallerRequirement::Permission(permission)).unwrap();
        let (name, access) = (DisplayName::parse("late").unwrap(), access_without_rules(TOKENS));
        let kind = ApplicationKind::Private;
        let new_application = NewApplication {
            name,
            kind,
            access,
            origins: ApplicationOrigins::default(),
            create_key: CreateKey::Yes,
        };
        create_application(&harness.vault, permit, directory.pepper(), new_application, None).await
    };
    try_create().await.unwrap();
    let id = caller.application();
    set_permissions(&harness, &tenant, id, &[Permission::TenantRead]).await.unwrap();
    assert!(matches!(try_create().await, Err(Error::Forbidden(_))));
    delete_application(&harness.vault, operator(&tenant), id).await.unwrap();
    assert!(matches!(try_create().await, Err(Error::NotFound)));
    let late_delete =
        delete_tenant(&harness.vault, caller.permit_policy(CallerRequirement::AnyKey).unwrap())
            .await;
    assert!(
        matches!(late_delete, Err(Error::NotFound)),
        "the late request must not delete the tenant"
    );
    assert_eq!(reload_tenant(&harness, &tenant).await.applications.len(), 1);
}

/// Creates and authorizes an access session. Returns the text of its key.
async fn create_authorized_session(harness: &VaultHarness, tenant: &Arc<Tenant>) -> String {
    let public = harness
        .create_api_key(
            tenant,
            ApplicationKind::Public,
            access_without_rules(&[Permission::TokenCreate]),
        )
        .await;
    let private = harness
        .create_api_key(tenant, ApplicationKind::Private, access_without_rules(TOKENS))
        .await;
    let directory = harness.directory().await;
    let create_permit = async |key: &str, kind| {
        harness.authenticate(key).await.permit_policy(CallerRequirement::Kind(kind)).unwrap()
    };
    let (vault, pepper) = (&harness.vault, directory.pepper());
    let public_permit = create_permit(&public, ApplicationKind::Public).await;
    let session = create_access_session(vault, public_permit, pepper).await.unwrap();
    let access = access_without_rules(&[Permission::TokenRead]);
    let authorization =
        AccessSessionAuthorization { nonce: session.nonce.clone(), access, expires_at: None };
    let private_permit = create_permit(&private, ApplicationKind::Private).await;
    authorize_access_session(vault, private_permit, pepper, authorization, None).await.unwrap();
    session.key.expose().to_owned()
}

async fn access_sessions_are_listed_and_revoked_only_within_their_tenant(harness: VaultHarness) {
    let (tenant, other_tenant) = (harness.default_tenant().await, harness.default_tenant().await);
    let key = create_authorized_session(&harness, &tenant).await;
    create_authorized_session(&harness, &other_tenant).await;
    let (tenant, other_tenant) =
        (reload_tenant(&harness, &tenant).await, reload_tenant(&harness, &other_tenant).await);
    let vault = &harness.vault;
    let list = async |tenant| list_access_sessions(vault, &operator(tenant)).await.unwrap();
    let (sessions, other_sessions) = (list(&tenant).await, list(&other_tenant).await);
    assert_eq!((sessions.len(), other_sessions.len()), (1, 1));
    assert_eq!(sessions[0].id.0, harness.directory().await.digest(&key));
    assert!(sessions[0].grant.is_some());

    let (own_id, other_id) = (sessions[0].id, other_sessions[0].id);
    let revoke = async |id| revoke_access_session(vault, operator(&tenant), id).await;
    assert!(matches!(revoke(other_id).await, Err(Error::NotFound)));
    revoke(own_id).await.unwrap();
    assert!(matches!(revoke(own_id).await, Err(Error::NotFound)));
    assert!(vault.store.find_access_session(own_id).await.unwrap().is_none());
    assert_eq!((list(&tenant).await.len(), list(&other_tenant).await.len()), (0, 1));
}

/// Two requests may both load the session before its authorization. The store accepts only the
/// first authorization.
async fn authorized_access_session_keeps_its_first_rights(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let key = create_authorized_session(&harness, &tenant).await;
    let id = AccessSessionId(harness.directory().await.digest(&key));
    let store = &harness.vault.store;
    let first = store.find_access_session(id).await.unwrap().unwrap();
    let mut record = first.record.clone();
    record.grant.as_mut().unwrap().access = access_without_rules(TOKENS);
    let permit = operator(&tenant);
    let audit =
        AuditRecord::for_policy(Operation::AuthorizeAccessSession, &permit, harness.clock.now());
    let (entity, deliveries) = (record.application.to_string(), Vec::new());
    let extras = CommitExtras { audit, entity, idempotency: None, deliveries };
    let second = SignedRow::new(&tenant.keys, record);
    let outcome = store.authorize_access_session(permit, second, extras).await.unwrap();
    assert_eq!(outcome, ChangeOutcome::Stale);
    assert_eq!(store.find_access_session(id).await.unwrap(), Some(first));
}
