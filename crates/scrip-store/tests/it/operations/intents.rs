//! Token intents on both engines: ended once, by whoever comes first, or by time.

use std::time::Duration;

use rusqlite::Connection;
use scrip_core::{
    audit::{AuditRecord, Operation},
    error::Error,
    id::{SessionId, TokenIntentId},
    operations::{
        tenants::delete_tenant::delete_tenant,
        token_intents::{
            create_token_intent::create_token_intent, delete_token_intent::delete_token_intent,
            get_token_intent::get_token_intent,
        },
        tokens::{
            expire_token::{erase_cvcs, expire_token_intent},
            tokenize::{Requested, tokenize},
        },
    },
    policy::{Caller, Mandate, Permission, Settings, Tenant, Transform},
    threeds::{SessionCard, SessionRecord, SessionWrite},
    token::{NewTokenIntent, Plain, TokenSource, TokenType},
};
use scrip_testing::{
    policy::{TOKENS, rule, ruled},
    requests::{VISA, create, invalid, new_token},
    vault_harness::{Engine, VaultHarness},
};
use serde_json::json;

const INTENTS: &[Permission] =
    &[Permission::TokenIntentCreate, Permission::TokenIntentRead, Permission::TokenIntentDelete];

struct IntentHarness {
    world: VaultHarness,
    tenant: std::sync::Arc<Tenant>,
    caller: Caller,
}

impl IntentHarness {
    async fn open(engine: Engine) -> Self {
        let world = VaultHarness::open(engine).await;
        let tenant = world.tenant(Settings::default()).await;
        let caller = Self::caller(&world, &tenant).await;
        Self { world, tenant, caller }
    }

    async fn caller(world: &VaultHarness, tenant: &std::sync::Arc<Tenant>) -> Caller {
        let rules = [rule("/", Transform::Reveal, TOKENS), rule("/", Transform::Mask, INTENTS)];
        world.caller(tenant, ruled(rules)).await
    }

    async fn intend(&self) -> TokenIntentId {
        let data = Plain::new(json!({"number": VISA, "cvc": "123"}));
        let new = NewTokenIntent {
            token_type: TokenType::Card,
            data,
            containers: None,
            authentication: None,
        };
        create_token_intent(&self.world.vault, &self.caller, new, None).await.unwrap().id
    }

    async fn is_there(&self, id: TokenIntentId) -> bool {
        match get_token_intent(&self.world.vault, &self.caller, id).await {
            Ok(_) => true,
            Err(Error::NotFound) => false,
            Err(error) => panic!("{error:?}"),
        }
    }

    async fn convert(&self, id: TokenIntentId) -> Result<(), Error> {
        let mut new = new_token(TokenType::Token, json!(null));
        new.source = TokenSource::Intent(id.to_string());
        create(&self.world.vault, &self.caller, new).await.map(drop)
    }
}

on_every_engine! {
    IntentHarness;
    an_intent_ends_once
    an_intent_ends_on_the_instant
    what_is_refused_leaves_the_intent
    another_tenant_finds_nothing
    a_deleted_tenant_takes_its_intents
    an_expired_intent_leaves_with_a_record
    conversion_names_the_token_in_the_sessions_of_its_intent
}

async fn an_intent_ends_once(scene: IntentHarness) {
    let (converted, deleted) = (scene.intend().await, scene.intend().await);
    assert!(scene.is_there(converted).await && scene.is_there(deleted).await);
    scene.convert(converted).await.unwrap();
    assert_eq!(invalid(scene.convert(converted).await), "token_intent_id");
    let vault = &scene.world.vault;
    let gone = delete_token_intent(vault, &scene.caller, converted).await;
    assert!(matches!(gone, Err(Error::NotFound)));
    delete_token_intent(vault, &scene.caller, deleted).await.unwrap();
    assert_eq!(invalid(scene.convert(deleted).await), "token_intent_id");
    assert!(!scene.is_there(converted).await && !scene.is_there(deleted).await);
}

async fn an_intent_ends_on_the_instant(scene: IntentHarness) {
    let id = scene.intend().await;
    scene.world.clock.advance(Duration::from_millis(24 * 3600 * 1000 - 1));
    assert!(scene.is_there(id).await);
    scene.world.clock.advance(Duration::from_millis(1));
    assert!(!scene.is_there(id).await);
    assert_eq!(invalid(scene.convert(id).await), "token_intent_id");
}

/// A conversion and whatever is written with it are one: none of it happens when one cannot.
async fn what_is_refused_leaves_the_intent(scene: IntentHarness) {
    let mut taken = new_token(TokenType::Token, json!(1));
    taken.id = Some("taken".to_owned());
    create(&scene.world.vault, &scene.caller, taken).await.unwrap();
    let id = scene.intend().await;
    let mut converted = new_token(TokenType::Token, json!(null));
    converted.source = TokenSource::Intent(id.to_string());
    let mut refused = new_token(TokenType::Token, json!(2));
    refused.id = Some("taken".to_owned());
    let requested = [converted, refused].into_iter().enumerate();
    let requested = requested.map(|(at, new)| Requested { path: format!("[{at}]"), new }).collect();
    let outcome = tokenize(&scene.world.vault, &scene.caller, requested, None).await;
    assert!(matches!(outcome, Err(Error::Conflict { .. })), "{outcome:?}");
    assert!(scene.is_there(id).await);
    scene.convert(id).await.unwrap();
}

async fn an_expired_intent_leaves_with_a_record(scene: IntentHarness) {
    let vault = &scene.world.vault;
    for _ in 0..40 {
        scene.intend().await;
    }
    scene.world.clock.advance(Duration::from_secs(60));
    let last = scene.intend().await;
    let count = async |name| {
        let counts = vault.store.status().await.unwrap().counts;
        counts.into_iter().find(|(it, _)| *it == name).unwrap().1
    };
    let records = count("audit_records").await;
    assert_eq!(expire_token_intent(vault).await.unwrap(), 0);
    scene.world.clock.advance(Duration::from_secs(3600));
    let mut erased = 0;
    while let 1.. = erase_cvcs(vault).await.unwrap() {
        erased += 1;
    }
    assert!(erased > 0);
    scene.world.clock.advance(Duration::from_secs(23 * 3600 - 60));
    let mut swept = 0;
    while let found @ 1.. = expire_token_intent(vault).await.unwrap() {
        swept += found;
    }
    assert_eq!(swept, 40);
    assert_eq!(count("audit_records").await, records + 40);
    assert!(scene.is_there(last).await);
}

async fn another_tenant_finds_nothing(scene: IntentHarness) {
    let id = scene.intend().await;
    let theirs = scene.world.tenant(Settings::default()).await;
    let stranger = IntentHarness::caller(&scene.world, &theirs).await;
    let there = IntentHarness { caller: stranger, tenant: theirs, world: scene.world };
    assert!(!there.is_there(id).await);
    assert_eq!(invalid(there.convert(id).await), "token_intent_id");
    let deleted = delete_token_intent(&there.world.vault, &there.caller, id).await;
    assert!(matches!(deleted, Err(Error::NotFound)));
}

async fn a_deleted_tenant_takes_its_intents(scene: IntentHarness) {
    let id = scene.intend().await;
    let mandate = Mandate::of_operator(std::sync::Arc::clone(&scene.tenant));
    delete_tenant(&scene.world.vault, mandate).await.unwrap();
    let (store, now) = (&scene.world.vault.store, scene.world.vault.clock.now());
    while scrip_core::operations::tenants::purge_tenants::purge_tenants(&scene.world.vault, &[])
        .await
        .unwrap()
        > 0
    {}
    let inquiry = scene.caller.inquire(Permission::TokenIntentRead).unwrap();
    assert!(store.find_token_intent(inquiry, id, now).await.unwrap().is_none());
}

/// One column, one altered value at a time; put back before the next.
#[tokio::test]
async fn an_altered_intent_is_noticed() {
    let scene = IntentHarness::open(Engine::Sqlite).await;
    let id = scene.intend().await;
    let outside = Connection::open(scene.world.file()).unwrap();
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
        let kept = format!("CREATE TEMP TABLE kept AS SELECT {column} AS it FROM token_intents");
        outside.execute_batch(&kept).unwrap();
        outside.execute(&format!("UPDATE token_intents SET {column} = {value}"), []).unwrap();
        let outcome = get_token_intent(&scene.world.vault, &scene.caller, id).await;
        let noticed = matches!(outcome, Err(Error::Internal(_) | Error::NotFound));
        assert!(noticed, "{column} = {value}: {outcome:?}");
        let back = format!("UPDATE token_intents SET {column} = (SELECT it FROM kept)");
        outside.execute_batch(&format!("{back}; DROP TABLE kept;")).unwrap();
        assert!(scene.is_there(id).await);
    }
}

/// A row of a session that names this intent.
fn session_of(scene: &IntentHarness, number: u8, intent: TokenIntentId) -> SessionRecord {
    let now = scene.world.vault.clock.now();
    SessionRecord {
        tenant: scene.tenant.id,
        id: SessionId(uuid::Uuid::from_bytes([number; 16])),
        created_by: scene.caller.application(),
        created_at: now,
        ends_at: Some(now.after(Duration::from_secs(60))),
        revision: 1,
        card: SessionCard::Intent { id: intent, converted: None },
        body: scrip_seal::Sealed::from_stored(vec![number; 40]),
    }
}

async fn conversion_names_the_token_in_the_sessions_of_its_intent(scene: IntentHarness) {
    let (vault, caller) = (&scene.world.vault, &scene.caller);
    let (one, two) = (scene.intend().await, scene.intend().await);
    let inquiry = || caller.inquire(Permission::TokenCreate).unwrap();
    let sessions =
        [session_of(&scene, 1, one), session_of(&scene, 2, one), session_of(&scene, 3, two)];
    for session in &sessions {
        let write = SessionWrite {
            session: session.clone(),
            events: Vec::new(),
            audit: AuditRecord::new(Operation::CreateSession, caller, vault.clock.now()),
            outcome: "created",
            used: None,
            answer: None,
        };
        vault.store.insert_session(inquiry(), write).await.unwrap();
    }
    scene.convert(one).await.unwrap();
    let card = async |at: usize| {
        let found = vault.store.find_session(inquiry(), sessions[at].id, vault.clock.now()).await;
        found.unwrap().unwrap().card
    };
    let (first, second, third) = (card(0).await, card(1).await, card(2).await);
    assert_eq!(first, second);
    assert_eq!(third.converted(), None);
    let converted = first.converted().unwrap();
    assert!(converted.is_ours(&scene.tenant.keys));
    assert_eq!((converted.record.tenant, converted.record.intent), (scene.tenant.id, one));
    assert!(converted.record.number_version.is_some());
    let mut altered = converted.clone();
    altered.record.number_version = None;
    assert!(!altered.is_ours(&scene.tenant.keys));
    let token = &converted.record.token;
    let found = vault.store.find_token(inquiry(), token, vault.clock.now()).await.unwrap();
    assert_eq!(found.unwrap().record.containers, converted.record.containers);

    let is_named = async || {
        vault.store.is_named_by_session(inquiry(), token, vault.clock.now()).await.unwrap()
    };
    assert!(is_named().await);
    let stranger = scene.world.tenant(Settings::default()).await;
    let stranger = IntentHarness::caller(&scene.world, &stranger).await;
    let theirs = stranger.inquire(Permission::TokenCreate).unwrap();
    assert!(!vault.store.is_named_by_session(theirs, token, vault.clock.now()).await.unwrap());
    // A session that has ended names nothing.
    scene.world.clock.advance(Duration::from_secs(60));
    assert!(!is_named().await);
}
