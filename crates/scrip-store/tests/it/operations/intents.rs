//! Token intents on all engines: consumed once, by the first request or by expiry.

use std::time::Duration;

use rusqlite::Connection;
use scrip_core::{
    Error,
    audit::AuditRecord,
    card::TokenType,
    operations::{
        tenants::delete_tenant::delete_tenant,
        token_intents::{
            create_token_intent::create_token_intent, delete_token_intent::delete_token_intent,
            get_token_intent::get_token_intent,
        },
        tokens::{
            expire_token::{erase_cvcs, expire_token_intent},
            tokenize::{RequestedToken, tokenize},
        },
    },
    policy::{Caller, PolicyPermit, Tenant},
    threeds::{ThreeDsSessionCard, ThreeDsSessionRecord, ThreeDsSessionWrite},
    token::{NewTokenIntent, TokenSource},
    types::{
        Operation, Permission, Plaintext, Transform,
        id::{ThreeDsSessionId, TokenIntentId},
    },
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{VISA, create, expect_invalid_field, new_token},
    vault_harness::{Engine, VaultHarness},
};
use serde_json::json;

const INTENT_PERMISSIONS: &[Permission] =
    &[Permission::TokenIntentCreate, Permission::TokenIntentRead, Permission::TokenIntentDelete];

struct IntentHarness {
    vault_harness: VaultHarness,
    tenant: std::sync::Arc<Tenant>,
    caller: Caller,
}

impl IntentHarness {
    async fn open(engine: Engine) -> Self {
        let harness = VaultHarness::open(engine).await;
        let tenant = harness.default_tenant().await;
        let caller = Self::create_caller(&harness, &tenant).await;
        Self { vault_harness: harness, tenant, caller }
    }

    async fn create_caller(harness: &VaultHarness, tenant: &std::sync::Arc<Tenant>) -> Caller {
        let rules = [
            access_rule("/", Transform::Reveal, TOKENS),
            access_rule("/", Transform::Mask, INTENT_PERMISSIONS),
        ];
        harness.caller(tenant, access_with_rules(rules)).await
    }

    async fn create_intent(&self) -> TokenIntentId {
        let data = Plaintext::new(json!({"number": VISA, "cvc": "123"}));
        let new_intent = NewTokenIntent {
            token_type: TokenType::Card,
            data: data.into(),
            containers: None,
            authentication: None,
        };
        create_token_intent(&self.vault_harness.vault, &self.caller, new_intent, None)
            .await
            .unwrap()
            .id
    }

    async fn exists(&self, id: TokenIntentId) -> bool {
        match get_token_intent(&self.vault_harness.vault, &self.caller, id).await {
            Ok(_) => true,
            Err(Error::NotFound) => false,
            Err(error) => panic!("{error:?}"),
        }
    }

    async fn convert(&self, id: TokenIntentId) -> Result<(), Error> {
        let mut token = new_token(TokenType::Token, json!(null));
        token.source = TokenSource::Intent(id.to_string());
        create(&self.vault_harness.vault, &self.caller, token).await.map(drop)
    }
}

on_every_engine! {
    IntentHarness;
    token_intent_is_converted_or_deleted_once
    token_intent_expires_at_its_exact_time
    rejected_conversion_leaves_the_token_intent
    token_intent_of_another_tenant_is_not_found
    deleting_a_tenant_purges_its_token_intents
    expired_token_intents_are_deleted_with_an_audit_record
    conversion_records_the_token_in_sessions_of_its_intent
}

async fn token_intent_is_converted_or_deleted_once(harness: IntentHarness) {
    let (converted, deleted) = (harness.create_intent().await, harness.create_intent().await);
    assert!(harness.exists(converted).await && harness.exists(deleted).await);
    harness.convert(converted).await.unwrap();
    assert_eq!(expect_invalid_field(harness.convert(converted).await), "token_intent_id");
    let vault = &harness.vault_harness.vault;
    let outcome = delete_token_intent(vault, &harness.caller, converted).await;
    assert!(matches!(outcome, Err(Error::NotFound)));
    delete_token_intent(vault, &harness.caller, deleted).await.unwrap();
    assert_eq!(expect_invalid_field(harness.convert(deleted).await), "token_intent_id");
    assert!(!harness.exists(converted).await && !harness.exists(deleted).await);
}

async fn token_intent_expires_at_its_exact_time(harness: IntentHarness) {
    let id = harness.create_intent().await;
    harness.vault_harness.clock.advance(Duration::from_millis(24 * 3600 * 1000 - 1));
    assert!(harness.exists(id).await);
    harness.vault_harness.clock.advance(Duration::from_millis(1));
    assert!(!harness.exists(id).await);
    assert_eq!(expect_invalid_field(harness.convert(id).await), "token_intent_id");
}

/// A conversion and the writes of its batch are atomic.
async fn rejected_conversion_leaves_the_token_intent(harness: IntentHarness) {
    let mut stored = new_token(TokenType::Token, json!(1));
    stored.id = Some("taken".to_owned());
    create(&harness.vault_harness.vault, &harness.caller, stored).await.unwrap();
    let id = harness.create_intent().await;
    let mut conversion = new_token(TokenType::Token, json!(null));
    conversion.source = TokenSource::Intent(id.to_string());
    let mut token_with_taken_id = new_token(TokenType::Token, json!(2));
    token_with_taken_id.id = Some("taken".to_owned());
    let requested = [conversion, token_with_taken_id].into_iter().enumerate();
    let requested =
        requested.map(|(index, new)| RequestedToken { path: format!("[{index}]"), new }).collect();
    let outcome = tokenize(&harness.vault_harness.vault, &harness.caller, requested, None).await;
    assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");
    assert!(harness.exists(id).await);
    harness.convert(id).await.unwrap();
}

async fn expired_token_intents_are_deleted_with_an_audit_record(harness: IntentHarness) {
    let vault = &harness.vault_harness.vault;
    let directory = harness.vault_harness.shared_directory().await;
    for _ in 0..40 {
        harness.create_intent().await;
    }
    harness.vault_harness.clock.advance(Duration::from_secs(60));
    let later_intent = harness.create_intent().await;
    let count_rows = async |name| {
        let counts = vault.store.status().await.unwrap().counts;
        counts.into_iter().find(|(it, _)| *it == name).unwrap().1
    };
    let record_count = count_rows("audit_records").await;
    assert_eq!(expire_token_intent(vault, &directory).await.unwrap(), 0);
    harness.vault_harness.clock.advance(Duration::from_secs(3600));
    let mut erase_count = 0;
    while let 1.. = erase_cvcs(vault, &directory).await.unwrap() {
        erase_count += 1;
    }
    assert!(erase_count > 0);
    harness.vault_harness.clock.advance(Duration::from_secs(23 * 3600 - 60));
    let mut deleted_count = 0;
    while let count @ 1.. = expire_token_intent(vault, &directory).await.unwrap() {
        deleted_count += count;
    }
    assert_eq!(deleted_count, 40);
    assert_eq!(count_rows("audit_records").await, record_count + 40);
    assert!(harness.exists(later_intent).await);
}

async fn token_intent_of_another_tenant_is_not_found(harness: IntentHarness) {
    let id = harness.create_intent().await;
    let other_tenant = harness.vault_harness.default_tenant().await;
    let stranger = IntentHarness::create_caller(&harness.vault_harness, &other_tenant).await;
    let other_harness = IntentHarness {
        caller: stranger,
        tenant: other_tenant,
        vault_harness: harness.vault_harness,
    };
    assert!(!other_harness.exists(id).await);
    assert_eq!(expect_invalid_field(other_harness.convert(id).await), "token_intent_id");
    let outcome =
        delete_token_intent(&other_harness.vault_harness.vault, &other_harness.caller, id).await;
    assert!(matches!(outcome, Err(Error::NotFound)));
}

async fn deleting_a_tenant_purges_its_token_intents(harness: IntentHarness) {
    let id = harness.create_intent().await;
    let permit = PolicyPermit::for_operator(std::sync::Arc::clone(&harness.tenant));
    delete_tenant(&harness.vault_harness.vault, permit).await.unwrap();
    let (store, now) =
        (&harness.vault_harness.vault.store, harness.vault_harness.vault.clock.now());
    harness.vault_harness.purge_tenants().await;
    let lookup = harness.caller.permit_lookup(Permission::TokenIntentRead).unwrap();
    assert!(store.find_token_intent(lookup, id, now).await.unwrap().is_none());
}

/// Alters one column at a time and restores it before the next.
#[tokio::test]
async fn altered_token_intent_column_is_detected() {
    let harness = IntentHarness::open(Engine::Sqlite).await;
    let id = harness.create_intent().await;
    let attacker = Connection::open(harness.vault_harness.file()).unwrap();
    for (column, value) in [
        ("type", "'network_token'"),
        ("type", "'unheard_of'"),
        ("fingerprint", "NULL"),
        ("fingerprint", "zeroblob(32)"),
        ("created_by", "zeroblob(16)"),
        ("created_at", "created_at + 1"),
        ("expires_at", "expires_at + 1"),
        ("tenant", "zeroblob(16)"),
        ("id", "zeroblob(16)"),
        ("body", "zeroblob(length(body))"),
        ("body", "x''"),
    ] {
        let save_column =
            format!("CREATE TEMP TABLE saved AS SELECT {column} AS original FROM token_intents");
        attacker.execute_batch(&save_column).unwrap();
        attacker.execute(&format!("UPDATE token_intents SET {column} = {value}"), []).unwrap();
        let outcome = get_token_intent(&harness.vault_harness.vault, &harness.caller, id).await;
        let is_detected = matches!(outcome, Err(Error::Internal(_) | Error::NotFound));
        assert!(is_detected, "{column} = {value}: {outcome:?}");
        let restore_column =
            format!("UPDATE token_intents SET {column} = (SELECT original FROM saved)");
        attacker.execute_batch(&format!("{restore_column}; DROP TABLE saved;")).unwrap();
        assert!(harness.exists(id).await);
    }
}

/// A 3DS session that uses this intent.
fn threeds_session_for_intent(
    harness: &IntentHarness,
    number: u8,
    intent: TokenIntentId,
) -> ThreeDsSessionRecord {
    let now = harness.vault_harness.vault.clock.now();
    ThreeDsSessionRecord {
        tenant: harness.tenant.id,
        id: ThreeDsSessionId(uuid::Uuid::from_bytes([number; 16])),
        created_by: harness.caller.application(),
        created_at: now,
        deletes_at: Some(now.plus(Duration::from_secs(60))),
        revision: 1,
        card: ThreeDsSessionCard::Intent { id: intent, conversion: None },
        body: scrip_seal::Sealed::from_stored(vec![number; 40]),
    }
}

async fn conversion_records_the_token_in_sessions_of_its_intent(harness: IntentHarness) {
    let (vault, caller) = (&harness.vault_harness.vault, &harness.caller);
    let (converted_intent, other_intent) =
        (harness.create_intent().await, harness.create_intent().await);
    let lookup = || caller.permit_lookup(Permission::TokenCreate).unwrap();
    let sessions = [
        threeds_session_for_intent(&harness, 1, converted_intent),
        threeds_session_for_intent(&harness, 2, converted_intent),
        threeds_session_for_intent(&harness, 3, other_intent),
    ];
    for session in &sessions {
        let write = ThreeDsSessionWrite {
            session: session.clone(),
            deliveries: Vec::new(),
            audit: AuditRecord::new(Operation::CreateThreeDsSession, caller, vault.clock.now()),
            outcome: "created",
            used_card: None,
            idempotency: None,
        };
        vault.store.insert_threeds_session(lookup(), write).await.unwrap();
    }
    harness.convert(converted_intent).await.unwrap();
    let find_card = async |index: usize| {
        let session =
            vault.store.find_threeds_session(lookup(), sessions[index].id, vault.clock.now()).await;
        session.unwrap().unwrap().card
    };
    let (first, second, third) = (find_card(0).await, find_card(1).await, find_card(2).await);
    assert_eq!(first, second);
    assert_eq!(third.conversion(), None);
    let conversion = first.conversion().unwrap();
    assert!(conversion.has_valid_mac(&harness.tenant.keys));
    assert_eq!(
        (conversion.record.tenant, conversion.record.intent),
        (harness.tenant.id, converted_intent)
    );
    assert!(conversion.record.number_version.is_some());
    let mut altered = conversion.clone();
    altered.record.number_version = None;
    assert!(!altered.has_valid_mac(&harness.tenant.keys));
    let token = &conversion.record.token;
    let stored_token = vault.store.find_token(lookup(), token, vault.clock.now()).await.unwrap();
    assert_eq!(stored_token.unwrap().record.containers, conversion.record.containers);

    let is_used = async || {
        vault.store.is_used_by_threeds_session(lookup(), token, vault.clock.now()).await.unwrap()
    };
    assert!(is_used().await);
    let other_tenant = harness.vault_harness.default_tenant().await;
    let stranger = IntentHarness::create_caller(&harness.vault_harness, &other_tenant).await;
    let other_lookup = stranger.permit_lookup(Permission::TokenCreate).unwrap();
    assert!(
        !vault
            .store
            .is_used_by_threeds_session(other_lookup, token, vault.clock.now())
            .await
            .unwrap()
    );
    // An expired session uses no token.
    harness.vault_harness.clock.advance(Duration::from_secs(60));
    assert!(!is_used().await);
}
