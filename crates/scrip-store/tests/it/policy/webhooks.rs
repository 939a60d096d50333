//! Stored webhooks: loaded as stored, changed inside the transaction, limited by the quota.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Error,
    operations::{
        tenants::update_tenant::set_tenant_quotas,
        webhooks::{
            create_webhook::create_webhook, delete_webhook::delete_webhook,
            rotate_webhook_secret::rotate_webhook_secret, update_webhook::update_webhook,
        },
    },
    policy::{
        Tenant,
        webhook::{
            EventList, SECRET_OVERLAP, WebhookDetails, WebhookDraft, WebhookSecrets, WebhookStatus,
        },
    },
    types::EventType,
};
use scrip_testing::{policy::operator, vault::webhook_draft, vault_harness::VaultHarness};

on_every_engine! {
    VaultHarness;
    webhook_is_loaded_as_it_was_stored
    previous_secret_stays_valid_after_a_rotation
    disabled_webhook_subscribes_to_no_event
    quota_limits_the_webhooks_of_a_tenant
    missing_webhook_is_not_found
}

async fn create(harness: &VaultHarness, tenant: &Arc<Tenant>) -> WebhookDetails {
    create_webhook(&harness.vault, operator(tenant), webhook_draft("orders"), None).await.unwrap()
}

fn valid_secrets(harness: &VaultHarness, secrets: &WebhookSecrets) -> Vec<String> {
    let now = harness.vault.clock.now();
    secrets.valid_at(now).map(|it| it.expose().to_owned()).collect()
}

async fn webhook_is_loaded_as_it_was_stored(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let created = create(&harness, &tenant).await;
    let (vault, id) = (&harness.vault, created.record.id);
    let check_loaded = async |expected: &WebhookDetails| {
        let directory = harness.directory().await;
        assert_eq!(directory.alterations(), []);
        let loaded = &directory.tenant(tenant.id).unwrap().webhooks[&id];
        assert_eq!(**loaded, expected.record);
        let opened = WebhookDetails::open(&tenant.keys, loaded.as_ref().clone()).unwrap();
        assert_eq!(opened.settings, expected.settings);
        assert_eq!(
            valid_secrets(&harness, &opened.secrets),
            valid_secrets(&harness, &expected.secrets)
        );
    };
    check_loaded(&created).await;
    let events = EventList::from_text("token.read").unwrap();
    let status = Some(WebhookStatus::Disabled);
    let draft = WebhookDraft { events, status, notify_email: None, ..webhook_draft("refunds") };
    let updated = update_webhook(vault, operator(&tenant), id, draft, None).await.unwrap();
    assert_eq!(updated.secrets.current.expose(), created.secrets.current.expose());
    check_loaded(&updated).await;
    delete_webhook(vault, operator(&tenant), id).await.unwrap();
    let directory = harness.directory().await;
    assert!(directory.tenant(tenant.id).unwrap().webhooks.is_empty());
    assert_eq!(directory.alterations(), []);
}

async fn previous_secret_stays_valid_after_a_rotation(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let created = create(&harness, &tenant).await;
    let id = created.record.id;
    let rotated = rotate_webhook_secret(&harness.vault, operator(&tenant), id, None).await.unwrap();
    let first = created.secrets.current.expose().to_owned();
    let second = rotated.secrets.current.expose().to_owned();
    let load = async || {
        let directory = harness.directory().await;
        let record = &directory.tenant(tenant.id).unwrap().webhooks[&id];
        WebhookSecrets::open(&tenant.keys, record).unwrap()
    };
    assert_eq!(valid_secrets(&harness, &load().await), [second.clone(), first]);
    harness.clock.advance(SECRET_OVERLAP + Duration::from_secs(1));
    assert_eq!(valid_secrets(&harness, &load().await), [second]);
}

async fn disabled_webhook_subscribes_to_no_event(harness: VaultHarness) {
    let (tenant, other) = (harness.default_tenant().await, harness.default_tenant().await);
    let wants = async |tenant: &Tenant, event| {
        harness.directory().await.tenant(tenant.id).unwrap().wants_event(event)
    };
    assert!(!wants(&tenant, EventType::TokenCreated).await);
    let id = create(&harness, &tenant).await.record.id;
    assert!(wants(&tenant, EventType::TokenCreated).await);
    assert!(!wants(&tenant, EventType::TokenRead).await);
    assert!(!wants(&other, EventType::TokenCreated).await);
    let change = async |status| {
        let draft = WebhookDraft { status, ..webhook_draft("orders") };
        update_webhook(&harness.vault, operator(&tenant), id, draft, None).await.unwrap()
    };
    change(Some(WebhookStatus::Disabled)).await;
    assert!(!wants(&tenant, EventType::TokenCreated).await);
    assert_eq!(change(None).await.record.status, WebhookStatus::Disabled, "the status stays");
    change(Some(WebhookStatus::Enabled)).await;
    assert!(wants(&tenant, EventType::TokenCreated).await);
}

async fn quota_limits_the_webhooks_of_a_tenant(harness: VaultHarness) {
    let tenant = harness.default_tenant().await;
    let try_create = async || {
        create_webhook(&harness.vault, operator(&tenant), webhook_draft("orders"), None).await
    };
    for _ in 0..5 {
        try_create().await.unwrap();
    }
    let rejected = try_create().await;
    assert!(matches!(&rejected, Err(Error::Invalid(it)) if it[0].field == "webhook_limit"));
    let raise = Box::new(|mut quotas: scrip_core::policy::Quotas| {
        quotas.set("webhook_limit", "6").unwrap();
        quotas
    });
    set_tenant_quotas(&harness.vault, operator(&tenant), raise).await.unwrap();
    try_create().await.unwrap();
    assert!(matches!(try_create().await, Err(Error::Invalid(_))));
}

async fn missing_webhook_is_not_found(harness: VaultHarness) {
    let (owner, stranger) = (harness.default_tenant().await, harness.default_tenant().await);
    let id = create(&harness, &owner).await.record.id;
    let vault = &harness.vault;
    let draft = webhook_draft("x");
    let outcomes = [
        delete_webhook(vault, operator(&stranger), id).await,
        update_webhook(vault, operator(&stranger), id, draft, None).await.map(drop),
        rotate_webhook_secret(vault, operator(&stranger), id, None).await.map(drop),
    ];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(Error::NotFound)), "{outcome:?}");
    }
    assert!(harness.directory().await.tenant(owner.id).unwrap().webhooks.contains_key(&id));
}
