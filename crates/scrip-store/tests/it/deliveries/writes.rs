//! Deliveries are written exactly with their effect.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    Error, Timestamp,
    events::WebhookKey,
    operations::{
        tokens::{
            delete_token::delete_token,
            expire_token::{erase_cvcs, expire_token},
        },
        webhooks::create_webhook::create_webhook,
    },
    policy::{
        Caller, PolicyPermit, TenantSettings,
        webhook::{EventList, WebhookDraft},
    },
    store::deliveries::DeliveryClaim,
    token::NewToken,
    types::{EventType, Transform, time::Clock},
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, card, card_with_cvc, create, data_patch, update},
    vault::webhook_draft,
    vault_harness::{Engine, VaultHarness},
};
use serde_json::{Value, json};

on_every_engine! {
    WebhookHarness;
    token_changes_raise_their_events
    deduplicated_token_raises_no_created_event
    rejected_write_raises_no_event
    replaced_expired_token_raises_its_expiry
    expired_tokens_and_cvcs_raise_events_of_their_tenant
    tenant_without_webhook_has_no_deliveries
}

/// A tenant with a webhook for all events, and a tenant without one.
pub(crate) struct WebhookHarness {
    pub(crate) vault_harness: VaultHarness,
    pub(crate) caller: Caller,
    pub(crate) stranger: Caller,
    pub(crate) webhook: WebhookKey,
}

impl WebhookHarness {
    pub(crate) async fn open(engine: Engine) -> Self {
        let harness = VaultHarness::open(engine).await;
        let access = || access_with_rules([access_rule("/", Transform::Reveal, TOKENS)]);
        let settings = TenantSettings { deduplicate_tokens: true, ..TenantSettings::default() };
        let tenant = harness.tenant(settings).await;
        let names: Vec<_> = EventType::ALL.iter().map(|it| it.as_str()).collect();
        let events = EventList::from_text(&names.join(",")).unwrap();
        let draft = WebhookDraft { events, ..webhook_draft("all") };
        let permit = PolicyPermit::for_operator(Arc::clone(&tenant));
        let webhook = create_webhook(&harness.vault, permit, draft, None).await.unwrap().record.id;
        let webhook = WebhookKey { tenant: tenant.id, webhook };
        let caller = harness.caller(&tenant, access()).await;
        let other_tenant = harness.default_tenant().await;
        let stranger = harness.caller(&other_tenant, access()).await;
        let harness = Self { vault_harness: harness, caller, stranger, webhook };
        // The events of the set-up.
        harness.take_events().await;
        harness
    }

    /// Claims the new deliveries; returns type, id of the token, and event of each, sorted.
    pub(crate) async fn take_events(&self) -> Vec<(String, String)> {
        let VaultHarness { vault, clock, .. } = &self.vault_harness;
        let store = &vault.store;
        while store.move_read_deliveries().await.unwrap() > 0 {}
        let lease_until = Timestamp { unix_ms: i64::MAX };
        let claim = DeliveryClaim { now: clock.now(), lease_until, deliveries_max: 1000 };
        let mut events = Vec::new();
        for it in store.claim_deliveries(self.webhook, claim).await.unwrap() {
            let event = it.open(self.caller.tenant()).unwrap();
            let event: Value = serde_json::from_str(event.as_str()).unwrap();
            assert_eq!(event["type"], it.event_type);
            assert_eq!(event["id"], it.event.to_string());
            let id = event["data"]["token"]["id"].as_str().unwrap_or_default();
            events.push((it.event_type, id.to_owned()));
        }
        events.sort();
        events
    }

    async fn create(&self, token: NewToken) -> Result<String, Error> {
        let written = create(&self.vault_harness.vault, &self.caller, token).await?;
        Ok(written.token.id.as_str().to_owned())
    }
}

fn named(id: &str, token: NewToken) -> NewToken {
    NewToken { id: Some(id.to_owned()), ..token }
}

fn event(name: &str, token: &str) -> (String, String) {
    (name.to_owned(), token.to_owned())
}

async fn token_changes_raise_their_events(harness: WebhookHarness) {
    let vault = &harness.vault_harness.vault;
    harness.create(named("one", card(VISA))).await.unwrap();
    assert_eq!(harness.take_events().await, [event("token.created", "one")]);
    let id = scrip_testing::vault_harness::token_id("one");
    let patch = data_patch(json!({"number": "4000056655665556"}));
    update(vault, &harness.caller, &id, patch).await.unwrap();
    assert_eq!(harness.take_events().await, [event("token.updated", "one")]);
    delete_token(vault, &harness.caller, &id).await.unwrap();
    assert_eq!(harness.take_events().await, [event("token.deleted", "one")]);
    assert!(matches!(delete_token(vault, &harness.caller, &id).await, Err(Error::NotFound)));
    assert_eq!(harness.take_events().await, []);
}

async fn deduplicated_token_raises_no_created_event(harness: WebhookHarness) {
    let first = harness.create(card(VISA)).await.unwrap();
    assert_eq!(harness.take_events().await, [event("token.created", &first)]);
    assert_eq!(harness.create(card(VISA)).await.unwrap(), first);
    assert_eq!(harness.take_events().await, []);
}

async fn rejected_write_raises_no_event(harness: WebhookHarness) {
    harness.create(named("one", card(VISA))).await.unwrap();
    harness.take_events().await;
    let taken = harness.create(named("one", card("4000056655665556"))).await;
    assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
    assert_eq!(harness.take_events().await, []);
}

async fn replaced_expired_token_raises_its_expiry(harness: WebhookHarness) {
    let clock = &harness.vault_harness.clock;
    let expires_at = Some(clock.now().plus(Duration::from_secs(60)));
    harness.create(NewToken { expires_at, ..named("one", card(VISA)) }).await.unwrap();
    harness.take_events().await;
    clock.advance(Duration::from_secs(60));
    harness.create(named("one", card(VISA))).await.unwrap();
    let expected = [event("token.created", "one"), event("token.expired", "one")];
    assert_eq!(harness.take_events().await, expected);
}

async fn expired_tokens_and_cvcs_raise_events_of_their_tenant(harness: WebhookHarness) {
    let VaultHarness { vault, clock, .. } = &harness.vault_harness;
    let expires_at = Some(clock.now().plus(Duration::from_secs(2 * 60 * 60)));
    let token = |id| NewToken { expires_at, ..named(id, card_with_cvc(VISA, "123")) };
    harness.create(token("one")).await.unwrap();
    create(vault, &harness.stranger, token("two")).await.unwrap();
    harness.take_events().await;
    let directory = harness.vault_harness.shared_directory().await;
    clock.advance(Duration::from_secs(60 * 60 + 600));
    let mut erased = 0;
    while let count @ 1.. = erase_cvcs(vault, &directory).await.unwrap() {
        erased += count;
    }
    assert_eq!(erased, 2);
    assert_eq!(harness.take_events().await, [event("token.property.expired", "one")]);
    clock.advance(Duration::from_secs(60 * 60));
    let mut deleted = 0;
    while let count @ 1.. = expire_token(vault, &directory).await.unwrap() {
        deleted += count;
    }
    assert_eq!(deleted, 2);
    assert_eq!(harness.take_events().await, [event("token.expired", "one")]);
}

async fn tenant_without_webhook_has_no_deliveries(harness: WebhookHarness) {
    let vault = &harness.vault_harness.vault;
    create(vault, &harness.stranger, card(VISA)).await.unwrap();
    let keys = vault.store.list_webhooks_with_deliveries().await.unwrap();
    assert!(keys.iter().all(|it| *it == harness.webhook), "{keys:?}");
}
