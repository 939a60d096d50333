//! A vault with a tenant that has a row in every sealed column, and the steps of a rotation.

use std::sync::Arc;

use rusqlite::Connection;
use scrip_core::{
    Error,
    card::TokenType,
    events::WebhookKey,
    keys::key_rotation::{KeyRotation, VersionCount},
    operations::{
        client_keys::create_client_key::create_client_key,
        key_rotations::{
            finish_key_rotation::{count_versions, finish_key_rotation},
            promote_sealing_key::promote_sealing_key,
            reseal_rows::reseal_rows,
            start_key_rotation::start_key_rotation,
        },
        token_intents::{
            create_token_intent::create_token_intent, get_token_intent::get_token_intent,
        },
        webhooks::create_webhook::create_webhook,
    },
    policy::{Caller, PolicyPermit, Tenant, proxy::ProxyDetails, webhook::WebhookDetails},
    store::{RotationMark, deliveries::DeliveryClaim},
    token::NewTokenIntent,
    types::{
        ApplicationKind, Permission, Plaintext, Transform,
        id::{ClientKeyId, ProxyId, TokenId, TokenIntentId, WebhookId},
    },
};
use scrip_seal::Fingerprint;
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    postgres::query::query_database,
    requests::{card, card_number, create, get, visible_data},
    vault::{create_proxy_with_host, proxy_draft, root_key, webhook_draft},
    vault_harness::{Engine, VaultHarness},
};
use serde_json::json;

const INTENTS: &[Permission] = &[Permission::TokenIntentCreate, Permission::TokenIntentRead];

/// The rows of the policy with sealed columns.
pub(crate) struct PolicyIds {
    proxy: ProxyId,
    webhook: WebhookId,
    client_key: ClientKeyId,
}

pub(crate) struct RotationHarness {
    pub(crate) vault_harness: VaultHarness,
    pub(crate) id: scrip_core::types::id::TenantId,
    api_key: String,
    engine: Engine,
}

impl RotationHarness {
    pub(crate) async fn open(engine: Engine) -> Self {
        let vault_harness = VaultHarness::open(engine).await;
        let tenant = vault_harness.default_tenant().await;
        let rules = [
            access_rule("/", Transform::Reveal, TOKENS),
            access_rule("/", Transform::Mask, INTENTS),
        ];
        let access = access_with_rules(rules);
        let api_key = vault_harness.create_api_key(&tenant, ApplicationKind::Private, access).await;
        Self { vault_harness, id: tenant.id, api_key, engine }
    }

    pub(crate) fn api_key(&self) -> &str {
        &self.api_key
    }

    pub(crate) fn vault(&self) -> &scrip_core::Vault {
        &self.vault_harness.vault
    }

    /// The caller with the keys that are stored now, like a request after a reload.
    pub(crate) async fn caller(&self) -> Caller {
        self.vault_harness.authenticate(&self.api_key).await
    }

    /// The tenant with the keys that are stored now.
    pub(crate) async fn tenant(&self) -> Arc<Tenant> {
        let directory = self.vault_harness.directory().await;
        assert_eq!(directory.alterations(), []);
        Arc::clone(directory.tenant(self.id).unwrap())
    }

    async fn operator(&self) -> PolicyPermit {
        PolicyPermit::for_operator(self.tenant().await)
    }

    /// Creates cards; returns their ids.
    pub(crate) async fn create_cards(&self, numbers: std::ops::Range<u64>) -> Vec<TokenId> {
        let caller = self.caller().await;
        let mut ids = Vec::new();
        for number in numbers {
            let written = create(self.vault(), &caller, card(&card_number(number))).await.unwrap();
            ids.push(written.token.id.clone());
        }
        ids
    }

    pub(crate) async fn fingerprint(&self, id: &TokenId) -> Option<Fingerprint> {
        get(self.vault(), &self.caller().await, id).await.fingerprint
    }

    /// Reads the cards as a client does.
    pub(crate) async fn check_cards(&self, ids: &[TokenId]) {
        let caller = self.caller().await;
        for (number, id) in (0_u64..).zip(ids) {
            let view = get(self.vault(), &caller, id).await;
            assert_eq!(visible_data(&view).unwrap()["number"], card_number(number));
        }
    }

    pub(crate) async fn create_intent(&self) -> TokenIntentId {
        let data = Plaintext::new(json!({"number": card_number(9)}));
        let (containers, authentication) = (None, None);
        let data = data.into();
        let new = NewTokenIntent { token_type: TokenType::Card, data, containers, authentication };
        create_token_intent(self.vault(), &self.caller().await, new, None).await.unwrap().id
    }

    pub(crate) async fn check_intent(&self, id: TokenIntentId) {
        get_token_intent(self.vault(), &self.caller().await, id).await.unwrap();
    }

    /// Creates a proxy, a webhook for new tokens and a client encryption key.
    pub(crate) async fn create_policy(&self) -> PolicyIds {
        let (vault, operator) = (self.vault(), self.operator().await);
        let directory = self.vault_harness.directory().await;
        let draft = proxy_draft("shop", None);
        let pepper = directory.pepper();
        let proxy =
            create_proxy_with_host(vault, pepper, operator.clone(), operator.clone(), draft).await;
        let draft = webhook_draft("orders");
        let webhook = create_webhook(vault, operator.clone(), draft, None).await.unwrap();
        let client_key = create_client_key(vault, operator, None, None).await.unwrap();
        PolicyIds { proxy: proxy.record.id, webhook: webhook.record.id, client_key: client_key.id }
    }

    pub(crate) async fn check_policy(&self, ids: &PolicyIds) {
        let tenant = self.tenant().await;
        let keys = &tenant.keys;
        ProxyDetails::open(keys, tenant.proxies[&ids.proxy].as_ref().clone()).unwrap();
        WebhookDetails::open(keys, tenant.webhooks[&ids.webhook].as_ref().clone()).unwrap();
        tenant.client_keys[&ids.client_key].public_key_pem(keys).unwrap();
    }

    /// Opens the deliveries of the webhook; returns how many.
    pub(crate) async fn open_deliveries(&self, ids: &PolicyIds) -> usize {
        let tenant = self.tenant().await;
        let now = self.vault().clock.now();
        let claim = DeliveryClaim { now, lease_until: now, deliveries_max: 100 };
        let key = WebhookKey { tenant: self.id, webhook: ids.webhook };
        let claimed = self.vault().store.claim_deliveries(key, claim).await.unwrap();
        claimed.iter().for_each(|it| drop(it.open(&tenant).unwrap()));
        claimed.len()
    }

    pub(crate) async fn start(&self) -> Result<KeyRotation, Error> {
        start_key_rotation(self.vault(), self.operator().await, &root_key()).await
    }

    pub(crate) async fn promote(&self) {
        promote_sealing_key(self.vault(), &self.tenant().await).await.unwrap();
        self.mark_promoted().await;
    }

    pub(crate) async fn mark_promoted(&self) {
        let mark = RotationMark::Promoted(self.vault().clock.now());
        self.vault().store.mark_key_rotation(self.id, mark).await.unwrap();
    }

    pub(crate) async fn rotation(&self) -> KeyRotation {
        let rotations = self.vault().store.list_key_rotations().await.unwrap();
        rotations.into_iter().find(|it| it.tenant == self.id).unwrap()
    }

    /// Seals the rows of a pass again, two at a time.
    pub(crate) async fn reseal_all(&self) -> KeyRotation {
        let (tenant, mut rotation) = (self.tenant().await, self.rotation().await);
        while rotation.progress.table.is_some() {
            let step = reseal_rows(self.vault(), &tenant, &mut rotation, 2).await.unwrap();
            assert!(!step.is_stale);
            assert_eq!(rotation, self.rotation().await, "the stored progress");
        }
        rotation
    }

    /// Starts a rotation, promotes the new version, and seals all rows again.
    pub(crate) async fn rotate_rows(&self) {
        self.start().await.unwrap();
        self.promote().await;
        self.reseal_all().await;
    }

    /// Seals all rows again. No value with an old version may remain.
    pub(crate) async fn reseal_and_finish(&self) {
        self.reseal_all().await;
        assert_eq!(self.finish().await, []);
    }

    /// Destroys the old version, or returns the values that need it.
    pub(crate) async fn finish(&self) -> Vec<VersionCount> {
        let rotation = self.rotation().await;
        finish_key_rotation(self.vault(), &self.tenant().await, &rotation).await.unwrap()
    }

    /// Runs a statement outside of the vault.
    pub(crate) fn execute(&self, sql: &str) {
        match self.engine {
            Engine::Memory => panic!("the in-memory store has no statements"),
            Engine::Sqlite => {
                let connection = Connection::open(self.vault_harness.file()).unwrap();
                connection.execute(sql, []).unwrap();
            }
            Engine::Postgres => {
                let sql = format!("SET scrip.tenant = 'all'; {sql}");
                drop(query_database(&self.vault_harness.database().owner_url(), &sql));
            }
        }
    }

    pub(crate) async fn counts(&self) -> Vec<VersionCount> {
        let tenant = self.tenant().await;
        count_versions(self.vault(), &tenant).await.unwrap()
    }
}
