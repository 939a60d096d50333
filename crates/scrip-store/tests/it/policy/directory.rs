//! Tenants, applications and keys come back as they were put, and change as one.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::{AuditRecord, Operation},
    error::Error,
    id::{ApiKeyId, ApplicationId},
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
            update_application::update_application,
        },
        tenants::{
            delete_tenant::{delete_tenant, destroy_due_tenants},
            purge_tenants::purge_tenants,
            restore_tenant::restore_tenant,
            update_tenant::{set_tenant_quotas, update_tenant},
        },
    },
    policy::{
        AccessPolicy, AccessSessionId, ApiKeyText, ApplicationKind, CallerRequirement,
        DeduplicationBehavior, DisplayName, Permission, PolicyPermit, Quotas, SignedRow,
        SystemKeys, Tenant, TenantSettings, Transform,
    },
    store::{ChangeOutcome, CommitExtras},
    time::Clock,
};
use scrip_seal::Sealed;
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules, access_without_rules},
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

fn operator(tenant: &Arc<Tenant>) -> PolicyPermit {
    PolicyPermit::for_operator(Arc::clone(tenant))
}

async fn application(
    harness: &VaultHarness,
    tenant: &Arc<Tenant>,
    access: AccessPolicy,
    create_key: CreateKey,
) -> CreatedApplication {
    let (name, kind) = (DisplayName::parse("Ünlü & Söhne").unwrap(), ApplicationKind::Private);
    let new = NewApplication { name, kind, access, create_key };
    let pepper = harness.directory().await;
    create_application(&harness.vault, operator(tenant), pepper.pepper(), new, None).await.unwrap()
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
    let rights = [
        access_without_rules(TOKENS),
        access_with_rules([
            access_rule("/pci/", Transform::Reveal, &[Permission::TokenRead]),
            access_rule("/", Transform::Redact, TOKENS),
        ]),
    ];
    let mut put = Vec::new();
    for (access, create_key) in rights.into_iter().zip([CreateKey::Yes, CreateKey::No]) {
        put.push(application(&harness, &tenant, access, create_key).await);
    }
    let after = reload_tenant(&harness, &tenant).await;
    for created in put {
        let expected = created.application;
        assert_eq!(after.applications[&expected.record.id], expected);
    }

    let name = DisplayName::parse("other").unwrap();
    let edit = Box::new(|_| TenantSettings::default());
    update_tenant(&harness.vault, operator(&tenant), name.clone(), edit, None).await.unwrap();
    let mut quotas = tenant.quotas;
    quotas.set("tokenize_limit", "7").unwrap();
    set_tenant_quotas(&harness.vault, operator(&tenant), Box::new(move |_| quotas)).await.unwrap();
    let after = reload_tenant(&harness, &tenant).await;
    assert_eq!((&after.name, &after.settings), (&name, &TenantSettings::default()));
    assert_eq!(after.quotas, quotas);
    assert!(after.modified.is_some());
}

async fn system_keys_cannot_be_inserted_twice(harness: VaultHarness) {
    let store = &harness.vault.store;
    let before = store.load_directory().await.unwrap().system_keys;
    let [pepper, audit_key] = [8, 9].map(|it| Sealed::from_stored(vec![it; 40]));
    assert!(store.insert_system_keys(SystemKeys { pepper, audit_key }).await.is_err());
    assert_eq!(store.load_directory().await.unwrap().system_keys, before);
}

async fn every_policy_change_raises_the_directory_version(harness: VaultHarness) {
    let store = &harness.vault.store;
    let mut seen = store.directory_version().await.unwrap();
    let mut raised = async || {
        let version = store.directory_version().await.unwrap();
        let directory = harness.directory().await;
        assert_eq!((version > seen, directory.version()), (true, version));
        seen = version;
    };
    let tenant = harness.tenant(TenantSettings::default()).await;
    raised().await;
    let created =
        application(&harness, &tenant, access_without_rules(TOKENS), CreateKey::Yes).await;
    let id = created.application.record.id;
    raised().await;
    let tenant = reload_tenant(&harness, &tenant).await;
    let pepper = harness.directory().await;
    let key =
        create_api_key(&harness.vault, operator(&tenant), pepper.pepper(), id, None).await.unwrap();
    raised().await;
    delete_api_key(&harness.vault, operator(&tenant), id, key.record.id).await.unwrap();
    raised().await;
    let (name, access) =
        (DisplayName::parse("x").unwrap(), access_without_rules(&[Permission::TokenRead]));
    update_application(&harness.vault, operator(&tenant), id, name, access, None).await.unwrap();
    raised().await;
    delete_application(&harness.vault, operator(&tenant), id).await.unwrap();
    raised().await;
    delete_tenant(&harness.vault, operator(&tenant)).await.unwrap();
    raised().await;
}

async fn changing_missing_policy_is_not_found(harness: VaultHarness) {
    let (tenant, other) = (
        harness.tenant(TenantSettings::default()).await,
        harness.tenant(TenantSettings::default()).await,
    );
    let theirs = application(&harness, &other, access_without_rules(TOKENS), CreateKey::Yes)
        .await
        .application;
    let (id, key) = (theirs.record.id, theirs.api_keys[0].id);
    let vault = &harness.vault;
    let not_found = |outcome: Result<(), Error>| assert!(matches!(outcome, Err(Error::NotFound)));
    not_found(delete_application(vault, operator(&tenant), id).await);
    not_found(delete_api_key(vault, operator(&tenant), id, key).await);
    let nobody = ApplicationId(Uuid::nil());
    not_found(delete_application(vault, operator(&tenant), nobody).await);
    not_found(delete_api_key(vault, operator(&other), id, ApiKeyId(Uuid::nil())).await);
    let (name, access) = (DisplayName::parse("x").unwrap(), access_without_rules(TOKENS));
    let updated = update_application(vault, operator(&tenant), id, name, access, None).await;
    not_found(updated.map(drop));
    assert_eq!(reload_tenant(&harness, &other).await.applications[&id], theirs);
}

async fn api_key_belongs_to_one_application(harness: VaultHarness) {
    let tenant = harness.tenant(TenantSettings::default()).await;
    let one = application(&harness, &tenant, access_without_rules(TOKENS), CreateKey::No)
        .await
        .application;
    let two = application(&harness, &tenant, access_without_rules(TOKENS), CreateKey::No)
        .await
        .application;
    let directory = harness.directory().await;
    let key = || ApiKeyText::parse("key_pvt_0123456789abcdef").unwrap();
    let import =
        |id| import_api_key(&harness.vault, operator(&tenant), directory.pepper(), id, key());
    import(one.record.id).await.unwrap();
    for id in [one.record.id, two.record.id] {
        let rejected = import(id).await;
        assert!(matches!(rejected, Err(Error::Conflict { .. })), "{rejected:?}");
    }
    assert_eq!(harness.authenticate(key().expose()).await.application(), one.record.id);
    assert!(
        reload_tenant(&harness, &tenant).await.applications[&two.record.id].api_keys.is_empty()
    );
}

async fn api_keys_per_application_are_limited(harness: VaultHarness) {
    let tenant = harness.tenant(TenantSettings::default()).await;
    let created =
        application(&harness, &tenant, access_without_rules(TOKENS), CreateKey::Yes).await;
    let id = created.application.record.id;
    let tenant = reload_tenant(&harness, &tenant).await;
    let directory = harness.directory().await;
    for at in 1..=100 {
        let pepper = directory.pepper();
        let outcome = create_api_key(&harness.vault, operator(&tenant), pepper, id, None).await;
        assert_eq!(outcome.is_ok(), at < 100, "{outcome:?}");
    }
}

async fn deleting_a_tenant_purges_all_its_rows(harness: VaultHarness) {
    let (tenant, other) = (
        harness.tenant(TenantSettings::default()).await,
        harness.tenant(TenantSettings::default()).await,
    );
    let caller = harness.caller(&tenant, access_without_rules(TOKENS)).await;
    let neighbour = harness.caller(&other, access_without_rules(TOKENS)).await;
    let create = async |caller| {
        let new = scrip_testing::requests::card(scrip_testing::requests::VISA);
        scrip_testing::requests::create(&harness.vault, caller, new).await.unwrap().token.id
    };
    let (_, kept) = (create(&caller).await, create(&neighbour).await);
    delete_tenant(&harness.vault, operator(&tenant)).await.unwrap();
    let again = delete_tenant(&harness.vault, operator(&tenant)).await;
    assert!(matches!(again, Err(Error::NotFound)));
    let directory = harness.directory().await;
    assert!(directory.tenant(tenant.id).is_none());
    assert_eq!(directory.alterations(), []);

    assert!(purge_tenants(&harness.vault, &[]).await.unwrap() > 0);
    assert_eq!(purge_tenants(&harness.vault, &[]).await.unwrap(), 0);
    // One that was on its way when the tenant went.
    let new = scrip_testing::requests::card(scrip_testing::requests::VISA);
    let late = scrip_testing::requests::create(&harness.vault, &caller, new).await;
    assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
    scrip_testing::requests::get(&harness.vault, &neighbour, &kept).await;
}

async fn tenant_deletion_with_grace_can_be_undone_until_due(harness: VaultHarness) {
    let vault = &harness.vault;
    let tenant = harness.tenant(TenantSettings::default()).await;
    let key = harness
        .create_api_key(&tenant, ApplicationKind::Private, access_without_rules(TOKENS))
        .await;
    let grace = |quotas: Quotas| Quotas { deletion_grace_seconds: 3600, ..quotas };
    let tenant = reload_tenant(&harness, &tenant).await;
    set_tenant_quotas(vault, operator(&tenant), Box::new(grace)).await.unwrap();
    let tenant = reload_tenant(&harness, &tenant).await;
    let due = vault.clock.now().plus(Duration::from_secs(3600));
    assert_eq!(delete_tenant(vault, operator(&tenant)).await.unwrap(), Some(due));
    let directory = harness.directory().await;
    assert!(directory.tenant(tenant.id).is_none() && directory.authenticate(&key).is_none());
    assert_eq!(directory.alterations(), []);
    let [deleted] = directory.pending_deletion() else {
        panic!("{:?}", directory.pending_deletion())
    };
    assert_eq!((deleted.id, deleted.deletes_at), (tenant.id, Some(due)));
    harness.clock.advance(Duration::from_secs(3599));
    assert_eq!(destroy_due_tenants(vault, &directory).await.unwrap(), 0);
    restore_tenant(vault, operator(deleted)).await.unwrap();
    // A node that has not heard of it yet must not destroy what was restored.
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

/// The operator's own mandate for one tenant, used on the rows of another, opens nothing.
async fn policy_change_with_keys_of_another_tenant_is_rejected(harness: VaultHarness) {
    let (tenant, other) = (
        harness.tenant(TenantSettings::default()).await,
        harness.tenant(TenantSettings::default()).await,
    );
    let forged = Tenant {
        id: other.id,
        name: other.name.clone(),
        kind: other.kind,
        settings: other.settings.clone(),
        quotas: other.quotas,
        created: other.created,
        modified: None,
        deletes_at: None,
        keys: Arc::clone(&tenant.keys),
        audit_key: Arc::clone(&other.audit_key),
        applications: std::collections::BTreeMap::new(),
        seal: other.seal,
    };
    let rejected = set_tenant_quotas(
        &harness.vault,
        operator(&Arc::new(forged)),
        Box::new(move |_| other.quotas),
    )
    .await;
    assert!(matches!(rejected, Err(Error::Unavailable(_))), "{rejected:?}");
    assert_eq!(harness.directory().await.alterations(), []);
}

/// A request may have been let in long before its change is made.
async fn policy_change_checks_current_permissions_of_the_application(harness: VaultHarness) {
    let tenant = harness.tenant(TenantSettings::default()).await;
    let (kind, needed) = (ApplicationKind::Management, Permission::ApplicationCreate);
    let caller = harness.caller_of_kind(&tenant, kind, access_without_rules(&[needed])).await;
    let directory = harness.directory().await;
    let create = async || {
        let permit = caller.permit_policy(CallerRequirement::Permission(needed)).unwrap();
        let (name, access) = (DisplayName::parse("late").unwrap(), access_without_rules(TOKENS));
        let kind = ApplicationKind::Private;
        let new = NewApplication { name, kind, access, create_key: CreateKey::Yes };
        create_application(&harness.vault, permit, directory.pepper(), new, None).await
    };
    create().await.unwrap();
    let id = caller.application();
    let (name, access) =
        (DisplayName::parse("x").unwrap(), access_without_rules(&[Permission::TenantRead]));
    update_application(&harness.vault, operator(&tenant), id, name, access, None).await.unwrap();
    assert!(matches!(create().await, Err(Error::Forbidden(_))));
    delete_application(&harness.vault, operator(&tenant), id).await.unwrap();
    assert!(matches!(create().await, Err(Error::NotFound)));
    let late =
        delete_tenant(&harness.vault, caller.permit_policy(CallerRequirement::AnyKey).unwrap())
            .await;
    assert!(matches!(late, Err(Error::NotFound)), "nor can it take everything with it");
    assert_eq!(reload_tenant(&harness, &tenant).await.applications.len(), 1);
}

/// Starts a session, and has it authorized; gives the text of its key.
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
    let permit = async |key: &str, kind| {
        harness.authenticate(key).await.permit_policy(CallerRequirement::Kind(kind)).unwrap()
    };
    let (vault, pepper) = (&harness.vault, directory.pepper());
    let begun = permit(&public, ApplicationKind::Public).await;
    let session = create_access_session(vault, begun, pepper).await.unwrap();
    let access = access_without_rules(&[Permission::TokenRead]);
    let authorization =
        AccessSessionAuthorization { nonce: session.nonce.clone(), access, expires_at: None };
    let by = permit(&private, ApplicationKind::Private).await;
    authorize_access_session(vault, by, pepper, authorization, None).await.unwrap();
    session.key.expose().to_owned()
}

async fn access_sessions_are_listed_and_revoked_only_within_their_tenant(harness: VaultHarness) {
    let (one, two) = (
        harness.tenant(TenantSettings::default()).await,
        harness.tenant(TenantSettings::default()).await,
    );
    let key = create_authorized_session(&harness, &one).await;
    create_authorized_session(&harness, &two).await;
    let (one, two) = (reload_tenant(&harness, &one).await, reload_tenant(&harness, &two).await);
    let vault = &harness.vault;
    let list = async |tenant| list_access_sessions(vault, &operator(tenant)).await.unwrap();
    let (of_one, of_two) = (list(&one).await, list(&two).await);
    assert_eq!((of_one.len(), of_two.len()), (1, 1));
    assert_eq!(of_one[0].id.0, harness.directory().await.digest(&key));
    assert!(of_one[0].grant.is_some());

    let (mine, foreign) = (of_one[0].id, of_two[0].id);
    let revoke = async |id| revoke_access_session(vault, operator(&one), id).await;
    assert!(matches!(revoke(foreign).await, Err(Error::NotFound)));
    revoke(mine).await.unwrap();
    assert!(matches!(revoke(mine).await, Err(Error::NotFound)));
    assert!(vault.store.find_access_session(mine).await.unwrap().is_none());
    assert_eq!((list(&one).await.len(), list(&two).await.len()), (0, 1));
}

/// Two requests may both have found the session without rights. The store decides between them.
async fn authorized_access_session_keeps_its_first_rights(world: VaultHarness) {
    let tenant = world.tenant(TenantSettings::default()).await;
    let key = create_authorized_session(&world, &tenant).await;
    let id = AccessSessionId(world.directory().await.digest(&key));
    let store = &world.vault.store;
    let first = store.find_access_session(id).await.unwrap().unwrap();
    let mut record = first.record.clone();
    record.grant.as_mut().unwrap().access = access_without_rules(TOKENS);
    let permit = operator(&tenant);
    let audit =
        AuditRecord::for_policy(Operation::AuthorizeAccessSession, &permit, world.clock.now());
    let written = CommitExtras { audit, entity: record.application.to_string(), idempotency: None };
    let second = SignedRow::new(&tenant.keys, record);
    let authorized = store.authorize_access_session(permit, second, written).await.unwrap();
    assert_eq!(authorized, ChangeOutcome::Stale);
    assert_eq!(store.find_access_session(id).await.unwrap(), Some(first));
}
