//! Tenants, applications and keys come back as they were put, and change as one.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::{AuditRecord, Operation},
    error::Error,
    id::{ApiKeyId, ApplicationId},
    operations::{
        access_sessions::{
            authorize_access_session::{Authorization, authorize_access_session},
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
        AccessPolicy, AccessSessionId, ApiKeyText, ApplicationKind, DeduplicationBehavior, Mandate,
        Name, Needs, Permission, Quotas, Settings, Signed, SystemKeys, Tenant, Transform,
    },
    store::{Beside, Changed},
    time::Clock,
};
use scrip_seal::Sealed;
use scrip_testing::{
    policy::{TOKENS, plain, rule, ruled},
    vault_harness::VaultHarness,
};
use uuid::Uuid;

on_every_engine! {
    VaultHarness;
    the_directory_comes_back_whole
    there_is_one_key_of_each_kind
    every_change_raises_the_version
    what_is_not_there_cannot_be_changed
    a_key_belongs_to_one_application
    keys_are_limited
    a_deleted_tenant_is_gone_with_all_its_rows
    deletion_with_grace_can_be_taken_back_until_it_is_due
    a_change_needs_a_policy_that_is_whole
    a_change_needs_an_application_that_still_may
    access_sessions_are_listed_and_revoked_in_their_tenant_only
    authorized_access_session_keeps_its_first_rights
}

fn operator(tenant: &Arc<Tenant>) -> Mandate {
    Mandate::of_operator(Arc::clone(tenant))
}

async fn application(
    world: &VaultHarness,
    tenant: &Arc<Tenant>,
    access: AccessPolicy,
    create_key: CreateKey,
) -> CreatedApplication {
    let (name, kind) = (Name::parse("Ünlü & Söhne").unwrap(), ApplicationKind::Private);
    let new = NewApplication { name, kind, access, create_key };
    let pepper = world.directory().await;
    create_application(&world.vault, operator(tenant), pepper.pepper(), new, None).await.unwrap()
}

async fn reloaded(world: &VaultHarness, tenant: &Arc<Tenant>) -> Arc<Tenant> {
    let directory = world.directory().await;
    assert_eq!(directory.alterations(), []);
    Arc::clone(directory.tenant(tenant.id).unwrap())
}

async fn the_directory_comes_back_whole(world: VaultHarness) {
    let settings = Settings {
        fingerprint_tokens: false,
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        disable_ephemeral_proxy: true,
    };
    let tenant = world.tenant(settings.clone()).await;
    assert_eq!(tenant.settings, settings);
    let rights = [
        plain(TOKENS),
        ruled([
            rule("/pci/", Transform::Reveal, &[Permission::TokenRead]),
            rule("/", Transform::Redact, TOKENS),
        ]),
    ];
    let mut put = Vec::new();
    for (access, create_key) in rights.into_iter().zip([CreateKey::Yes, CreateKey::No]) {
        put.push(application(&world, &tenant, access, create_key).await);
    }
    let after = reloaded(&world, &tenant).await;
    for created in put {
        let expected = created.application;
        assert_eq!(after.applications[&expected.record.id], expected);
    }

    let name = Name::parse("other").unwrap();
    let edit = Box::new(|_| Settings::default());
    update_tenant(&world.vault, operator(&tenant), name.clone(), edit, None).await.unwrap();
    let mut quotas = tenant.quotas;
    quotas.set("tokenize_limit", "7").unwrap();
    set_tenant_quotas(&world.vault, operator(&tenant), Box::new(move |_| quotas)).await.unwrap();
    let after = reloaded(&world, &tenant).await;
    assert_eq!((&after.name, &after.settings), (&name, &Settings::default()));
    assert_eq!(after.quotas, quotas);
    assert!(after.modified.is_some());
}

async fn there_is_one_key_of_each_kind(world: VaultHarness) {
    let store = &world.vault.store;
    let before = store.load_directory().await.unwrap().system_keys;
    let [pepper, audit_key] = [8, 9].map(|it| Sealed::from_stored(vec![it; 40]));
    assert!(store.insert_system_keys(SystemKeys { pepper, audit_key }).await.is_err());
    assert_eq!(store.load_directory().await.unwrap().system_keys, before);
}

async fn every_change_raises_the_version(world: VaultHarness) {
    let store = &world.vault.store;
    let mut seen = store.directory_version().await.unwrap();
    let mut raised = async || {
        let version = store.directory_version().await.unwrap();
        let directory = world.directory().await;
        assert_eq!((version > seen, directory.version()), (true, version));
        seen = version;
    };
    let tenant = world.tenant(Settings::default()).await;
    raised().await;
    let created = application(&world, &tenant, plain(TOKENS), CreateKey::Yes).await;
    let id = created.application.record.id;
    raised().await;
    let tenant = reloaded(&world, &tenant).await;
    let pepper = world.directory().await;
    let key =
        create_api_key(&world.vault, operator(&tenant), pepper.pepper(), id, None).await.unwrap();
    raised().await;
    delete_api_key(&world.vault, operator(&tenant), id, key.record.id).await.unwrap();
    raised().await;
    let (name, access) = (Name::parse("x").unwrap(), plain(&[Permission::TokenRead]));
    update_application(&world.vault, operator(&tenant), id, name, access, None).await.unwrap();
    raised().await;
    delete_application(&world.vault, operator(&tenant), id).await.unwrap();
    raised().await;
    delete_tenant(&world.vault, operator(&tenant)).await.unwrap();
    raised().await;
}

async fn what_is_not_there_cannot_be_changed(world: VaultHarness) {
    let (tenant, other) =
        (world.tenant(Settings::default()).await, world.tenant(Settings::default()).await);
    let theirs = application(&world, &other, plain(TOKENS), CreateKey::Yes).await.application;
    let (id, key) = (theirs.record.id, theirs.api_keys[0].id);
    let vault = &world.vault;
    let not_found = |outcome: Result<(), Error>| assert!(matches!(outcome, Err(Error::NotFound)));
    not_found(delete_application(vault, operator(&tenant), id).await);
    not_found(delete_api_key(vault, operator(&tenant), id, key).await);
    let nobody = ApplicationId(Uuid::nil());
    not_found(delete_application(vault, operator(&tenant), nobody).await);
    not_found(delete_api_key(vault, operator(&other), id, ApiKeyId(Uuid::nil())).await);
    let (name, access) = (Name::parse("x").unwrap(), plain(TOKENS));
    let updated = update_application(vault, operator(&tenant), id, name, access, None).await;
    not_found(updated.map(drop));
    assert_eq!(reloaded(&world, &other).await.applications[&id], theirs);
}

async fn a_key_belongs_to_one_application(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let one = application(&world, &tenant, plain(TOKENS), CreateKey::No).await.application;
    let two = application(&world, &tenant, plain(TOKENS), CreateKey::No).await.application;
    let directory = world.directory().await;
    let key = || ApiKeyText::parse("key_pvt_0123456789abcdef").unwrap();
    let import =
        |id| import_api_key(&world.vault, operator(&tenant), directory.pepper(), id, key());
    import(one.record.id).await.unwrap();
    for id in [one.record.id, two.record.id] {
        let refused = import(id).await;
        assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    }
    assert_eq!(world.known(key().expose()).await.application(), one.record.id);
    assert!(reloaded(&world, &tenant).await.applications[&two.record.id].api_keys.is_empty());
}

async fn keys_are_limited(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let created = application(&world, &tenant, plain(TOKENS), CreateKey::Yes).await;
    let id = created.application.record.id;
    let tenant = reloaded(&world, &tenant).await;
    let directory = world.directory().await;
    for at in 1..=100 {
        let pepper = directory.pepper();
        let outcome = create_api_key(&world.vault, operator(&tenant), pepper, id, None).await;
        assert_eq!(outcome.is_ok(), at < 100, "{outcome:?}");
    }
}

async fn a_deleted_tenant_is_gone_with_all_its_rows(world: VaultHarness) {
    let (tenant, other) =
        (world.tenant(Settings::default()).await, world.tenant(Settings::default()).await);
    let caller = world.caller(&tenant, plain(TOKENS)).await;
    let neighbour = world.caller(&other, plain(TOKENS)).await;
    let create = async |caller| {
        let new = scrip_testing::requests::card(scrip_testing::requests::VISA);
        scrip_testing::requests::create(&world.vault, caller, new).await.unwrap().token.id
    };
    let (_, kept) = (create(&caller).await, create(&neighbour).await);
    delete_tenant(&world.vault, operator(&tenant)).await.unwrap();
    let again = delete_tenant(&world.vault, operator(&tenant)).await;
    assert!(matches!(again, Err(Error::NotFound)));
    let directory = world.directory().await;
    assert!(directory.tenant(tenant.id).is_none());
    assert_eq!(directory.alterations(), []);

    assert!(purge_tenants(&world.vault, &[]).await.unwrap() > 0);
    assert_eq!(purge_tenants(&world.vault, &[]).await.unwrap(), 0);
    // One that was on its way when the tenant went.
    let new = scrip_testing::requests::card(scrip_testing::requests::VISA);
    let late = scrip_testing::requests::create(&world.vault, &caller, new).await;
    assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
    scrip_testing::requests::get(&world.vault, &neighbour, &kept).await;
}

async fn deletion_with_grace_can_be_taken_back_until_it_is_due(world: VaultHarness) {
    let vault = &world.vault;
    let tenant = world.tenant(Settings::default()).await;
    let key = world.key_of(&tenant, ApplicationKind::Private, plain(TOKENS)).await;
    let grace = |quotas: Quotas| Quotas { deletion_grace_seconds: 3600, ..quotas };
    let tenant = reloaded(&world, &tenant).await;
    set_tenant_quotas(vault, operator(&tenant), Box::new(grace)).await.unwrap();
    let tenant = reloaded(&world, &tenant).await;
    let due = vault.clock.now().after(Duration::from_secs(3600));
    assert_eq!(delete_tenant(vault, operator(&tenant)).await.unwrap(), Some(due));
    let directory = world.directory().await;
    assert!(directory.tenant(tenant.id).is_none() && directory.authenticate(&key).is_none());
    assert_eq!(directory.alterations(), []);
    let [deleted] = directory.deleting() else { panic!("{:?}", directory.deleting()) };
    assert_eq!((deleted.id, deleted.deletes_at), (tenant.id, Some(due)));
    world.clock.advance(Duration::from_secs(3599));
    assert_eq!(destroy_due_tenants(vault, &directory).await.unwrap(), 0);
    restore_tenant(vault, operator(deleted)).await.unwrap();
    // A node that has not heard of it yet must not destroy what was restored.
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(destroy_due_tenants(vault, &directory).await.unwrap(), 0);
    let restored = reloaded(&world, &tenant).await;
    assert!(world.directory().await.authenticate(&key).is_some());
    delete_tenant(vault, operator(&restored)).await.unwrap();
    let directory = world.directory().await;
    world.clock.advance(Duration::from_secs(3600));
    assert_eq!(destroy_due_tenants(vault, &directory).await.unwrap(), 1);
    assert_eq!(destroy_due_tenants(vault, &directory).await.unwrap(), 0);
    let directory = world.directory().await;
    assert!(directory.deleting().is_empty() && directory.authenticate(&key).is_none());
}

/// The operator's own mandate for one tenant, used on the rows of another, opens nothing.
async fn a_change_needs_a_policy_that_is_whole(world: VaultHarness) {
    let (tenant, other) =
        (world.tenant(Settings::default()).await, world.tenant(Settings::default()).await);
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
    let refused = set_tenant_quotas(
        &world.vault,
        operator(&Arc::new(forged)),
        Box::new(move |_| other.quotas),
    )
    .await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert_eq!(world.directory().await.alterations(), []);
}

/// A request may have been let in long before its change is made.
async fn a_change_needs_an_application_that_still_may(world: VaultHarness) {
    let tenant = world.tenant(Settings::default()).await;
    let (kind, needed) = (ApplicationKind::Management, Permission::ApplicationCreate);
    let caller = world.caller_of(&tenant, kind, plain(&[needed])).await;
    let directory = world.directory().await;
    let create = async || {
        let mandate = caller.mandate(Needs::Permission(needed)).unwrap();
        let (name, access) = (Name::parse("late").unwrap(), plain(TOKENS));
        let kind = ApplicationKind::Private;
        let new = NewApplication { name, kind, access, create_key: CreateKey::Yes };
        create_application(&world.vault, mandate, directory.pepper(), new, None).await
    };
    create().await.unwrap();
    let id = caller.application();
    let (name, access) = (Name::parse("x").unwrap(), plain(&[Permission::TenantRead]));
    update_application(&world.vault, operator(&tenant), id, name, access, None).await.unwrap();
    assert!(matches!(create().await, Err(Error::Forbidden(_))));
    delete_application(&world.vault, operator(&tenant), id).await.unwrap();
    assert!(matches!(create().await, Err(Error::NotFound)));
    let late = delete_tenant(&world.vault, caller.mandate(Needs::Key).unwrap()).await;
    assert!(matches!(late, Err(Error::NotFound)), "nor can it take everything with it");
    assert_eq!(reloaded(&world, &tenant).await.applications.len(), 1);
}

/// Starts a session, and has it authorized; gives the text of its key.
async fn authorized(world: &VaultHarness, tenant: &Arc<Tenant>) -> String {
    let public =
        world.key_of(tenant, ApplicationKind::Public, plain(&[Permission::TokenCreate])).await;
    let private = world.key_of(tenant, ApplicationKind::Private, plain(TOKENS)).await;
    let directory = world.directory().await;
    let mandate =
        async |key: &str, kind| world.known(key).await.mandate(Needs::Kind(kind)).unwrap();
    let (vault, pepper) = (&world.vault, directory.pepper());
    let begun = mandate(&public, ApplicationKind::Public).await;
    let session = create_access_session(vault, begun, pepper).await.unwrap();
    let access = plain(&[Permission::TokenRead]);
    let asked = Authorization { nonce: session.nonce.clone(), access, expires_at: None };
    let by = mandate(&private, ApplicationKind::Private).await;
    authorize_access_session(vault, by, pepper, asked, None).await.unwrap();
    session.key.expose().to_owned()
}

async fn access_sessions_are_listed_and_revoked_in_their_tenant_only(world: VaultHarness) {
    let (one, two) =
        (world.tenant(Settings::default()).await, world.tenant(Settings::default()).await);
    let key = authorized(&world, &one).await;
    authorized(&world, &two).await;
    let (one, two) = (reloaded(&world, &one).await, reloaded(&world, &two).await);
    let vault = &world.vault;
    let list = async |tenant| list_access_sessions(vault, &operator(tenant)).await.unwrap();
    let (of_one, of_two) = (list(&one).await, list(&two).await);
    assert_eq!((of_one.len(), of_two.len()), (1, 1));
    assert_eq!(of_one[0].id.0, world.directory().await.digest(&key));
    assert!(of_one[0].authorized.is_some());

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
    let tenant = world.tenant(Settings::default()).await;
    let key = authorized(&world, &tenant).await;
    let id = AccessSessionId(world.directory().await.digest(&key));
    let store = &world.vault.store;
    let first = store.find_access_session(id).await.unwrap().unwrap();
    let mut record = first.record.clone();
    record.authorized.as_mut().unwrap().access = plain(TOKENS);
    let mandate = operator(&tenant);
    let audit = AuditRecord::of(Operation::AuthorizeAccessSession, &mandate, world.clock.now());
    let written = Beside { audit, entity: record.application.to_string(), answer: None };
    let second = Signed::new(&tenant.keys, record);
    let authorized = store.authorize_access_session(mandate, second, written).await.unwrap();
    assert_eq!(authorized, Changed::Stale);
    assert_eq!(store.find_access_session(id).await.unwrap(), Some(first));
}
