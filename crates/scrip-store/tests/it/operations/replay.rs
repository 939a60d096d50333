//! A repeated request: the answer it had, cut to what its caller may see by now.

use std::{collections::BTreeMap, sync::Arc};

use scrip_core::{
    audit::Operation,
    error::{Error, Refusal},
    idempotency::{
        Claim, Remember, Rendered, Replay, Replayed,
        answer::{Sight, Span},
    },
    operations::{
        claim_answer::{ANSWER_RETENTION, Turn, claim_answer},
        tokens::{
            create_token::create_token, delete_token::delete_token, update_token::update_token,
        },
    },
    policy::{Caller, DeduplicationBehavior, Permission, Settings, Tenant, Transform},
    token::{NewToken, Written},
};
use scrip_testing::{
    policy::{TOKENS, plain, rule, ruled},
    requests::{DEBIT, VISA, card, card_with_cvc, create, cvc, data, get, patch_of, refusal},
    vault_harness::VaultHarness,
};
use serde_json::{Value, json};

on_every_engine! {
    VaultHarness;
    a_replay_equals_the_first_answer_without_the_code
    a_replay_shows_no_more_than_then_nor_than_now
    who_lost_the_permission_gets_no_replay
    who_lost_the_right_to_read_gets_no_replay_of_what_was_found
    the_data_is_gone_with_its_token
    an_update_is_replayed
    a_create_that_updates_has_one_answer
    a_failure_is_not_remembered
    keys_of_two_applications_do_not_meet
    an_answer_is_forgotten_after_a_day
}

const KEY: &[u8] = b"order-7";

fn render(written: &Written) -> Rendered {
    let outcome = written.deduplicated.map_or("new", DeduplicationBehavior::as_str);
    Rendered::of_token(201, format!("{} {outcome}", written.token.id.as_str()))
}

async fn claim(world: &VaultHarness, caller: &Caller) -> Claim {
    match claim_answer(&world.vault, caller, Operation::CreateToken, KEY, None).await.unwrap() {
        Turn::Proceed(claim) => claim,
        Turn::Replay(replay) => panic!("{replay:?}"),
    }
}

async fn replay(world: &VaultHarness, caller: &Caller) -> Result<Replay, Error> {
    match claim_answer(&world.vault, caller, Operation::CreateToken, KEY, None).await? {
        Turn::Replay(replay) => Ok(replay),
        Turn::Proceed(_) => panic!("nothing is remembered"),
    }
}

async fn create_with_key(
    world: &VaultHarness,
    caller: &Caller,
    new: NewToken,
) -> Result<Written, Error> {
    let claim = claim(world, caller).await;
    create_token(&world.vault, caller, new, Some(Remember::new(claim, render))).await
}

fn replayed(replay: &Replay) -> Option<Value> {
    let [Replayed { span, sight: Sight::Whole(data) }] = replay.tokens.as_slice() else {
        panic!("{:?}", replay.tokens)
    };
    assert_eq!(*span, Span { token: 0, start: 0, end: replay.body.len() });
    data.as_ref().map(|it| it.expose().clone())
}

async fn open(world: &VaultHarness, settings: Settings) -> (Arc<Tenant>, Caller) {
    let tenant = world.tenant(settings).await;
    let caller = world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await;
    (tenant, caller)
}

async fn a_replay_equals_the_first_answer_without_the_code(world: VaultHarness) {
    let (_, caller) = open(&world, Settings::default()).await;
    let held = claim(&world, &caller).await;
    let second = claim_answer(&world.vault, &caller, Operation::CreateToken, KEY, None).await;
    assert!(matches!(second, Err(Error::Conflict { .. })), "{second:?}");
    drop(held);

    let first = create_with_key(&world, &caller, card_with_cvc(VISA, "987")).await.unwrap();
    assert_eq!(cvc(&first.token).as_deref(), Some("987"));
    for _ in 0..2 {
        let again = replay(&world, &caller).await.unwrap();
        assert_eq!((again.status, &again.body), (201, &render(&first).body));
        assert_eq!(replayed(&again), Some(json!({"number": VISA})));
    }
}

async fn a_replay_shows_no_more_than_then_nor_than_now(world: VaultHarness) {
    use Transform::{Mask, Redact, Reveal};
    let tenant = world.tenant(Settings::default()).await;
    let full = Some(json!({"number": VISA}));
    let masked = Some(json!({"number": "XXXXXXXXXXXX4242"}));
    for (then, now, expected) in [
        (Reveal, Reveal, &full),
        (Reveal, Mask, &masked),
        (Reveal, Redact, &None),
        (Mask, Reveal, &masked),
        (Mask, Mask, &masked),
        (Mask, Redact, &None),
        (Redact, Reveal, &None),
    ] {
        let before = world.caller(&tenant, ruled([rule("/", then, TOKENS)])).await;
        create_with_key(&world, &before, card(VISA)).await.unwrap();
        let rules = ruled([rule("/", now, TOKENS)]);
        let after = world.changed(&tenant, before.application(), rules);
        let again = replay(&world, &after).await.unwrap();
        assert_eq!(replayed(&again), *expected, "{then:?} {now:?}");
    }
}

async fn who_lost_the_permission_gets_no_replay(world: VaultHarness) {
    let (tenant, caller) = open(&world, Settings::default()).await;
    create_with_key(&world, &caller, card(VISA)).await.unwrap();
    let rest = [Permission::TokenRead, Permission::TokenUpdate];
    for access in [plain(&rest), ruled([rule("/elsewhere/", Transform::Reveal, TOKENS)])] {
        let after = world.changed(&tenant, caller.application(), access);
        let expected = Refusal::NoRule(Permission::TokenCreate);
        assert_eq!(refusal(replay(&world, &after).await), expected);
    }
}

/// A duplicate was shown by the right to read it, not by the right to create.
async fn who_lost_the_right_to_read_gets_no_replay_of_what_was_found(world: VaultHarness) {
    let settings = Settings { deduplicate_tokens: true, ..Settings::default() };
    let (tenant, caller) = open(&world, settings).await;
    create(&world.vault, &caller, card(VISA)).await.unwrap();
    let found = create_with_key(&world, &caller, card(VISA)).await.unwrap();
    assert!(found.deduplicated.is_some() && data(&found.token).is_some());

    let without = ruled([rule("/", Transform::Reveal, &[Permission::TokenCreate])]);
    let without = world.changed(&tenant, caller.application(), without);
    let expected = Refusal::NoRule(Permission::TokenRead);
    assert_eq!(refusal(replay(&world, &without).await), expected);
    let weaker = ruled([
        rule("/", Transform::Mask, &[Permission::TokenRead]),
        rule("/", Transform::Reveal, TOKENS),
    ]);
    let weaker = world.changed(&tenant, caller.application(), weaker);
    let again = replay(&world, &weaker).await.unwrap();
    assert_eq!(replayed(&again), Some(json!({"number": "XXXXXXXXXXXX4242"})));
    assert!(replayed(&replay(&world, &caller).await.unwrap()).is_some());
}

async fn the_data_is_gone_with_its_token(world: VaultHarness) {
    let (_, caller) = open(&world, Settings::default()).await;
    let first = create_with_key(&world, &caller, card(VISA)).await.unwrap();
    delete_token(&world.vault, &caller, &first.token.id).await.unwrap();
    let again = replay(&world, &caller).await.unwrap();
    assert_eq!((again.status, &again.body), (201, &render(&first).body));
    assert_eq!(replayed(&again), None);
}

async fn an_update_is_replayed(world: VaultHarness) {
    let (tenant, caller) = open(&world, Settings::default()).await;
    let id = create(&world.vault, &caller, card_with_cvc(VISA, "123")).await.unwrap().token.id;
    let remember = Remember::new(claim(&world, &caller).await, render);
    let patch = patch_of(json!({"number": DEBIT, "cvc": "987"}));
    let first = update_token(&world.vault, &caller, &id, patch, Some(remember)).await.unwrap();
    assert_eq!(cvc(&first.token).as_deref(), Some("987"));

    let again = replay(&world, &caller).await.unwrap();
    assert_eq!((again.status, &again.body), (201, &render(&first).body));
    assert_eq!(replayed(&again), Some(json!({"number": DEBIT})));
    let without = plain(&[Permission::TokenCreate, Permission::TokenRead]);
    let without = world.changed(&tenant, caller.application(), without);
    let expected = Refusal::NoRule(Permission::TokenUpdate);
    assert_eq!(refusal(replay(&world, &without).await), expected);
}

async fn a_create_that_updates_has_one_answer(world: VaultHarness) {
    let settings = Settings {
        deduplicate_tokens: true,
        token_deduplication_behavior: DeduplicationBehavior::UpdateExisting,
        ..Settings::default()
    };
    let (_, caller) = open(&world, settings).await;
    let id = create(&world.vault, &caller, card(VISA)).await.unwrap().token.id;
    let metadata = BTreeMap::from([("note".to_owned(), "second".to_owned())]);
    let new = NewToken { metadata: Some(metadata), ..card(VISA) };
    let first = create_with_key(&world, &caller, new).await.unwrap();
    assert_eq!(first.deduplicated, Some(DeduplicationBehavior::UpdateExisting));

    let again = replay(&world, &caller).await.unwrap();
    assert_eq!(again.body, format!("{} update_existing", id.as_str()));
    let found = get(&world.vault, &caller, &id).await;
    assert_eq!(found.detail.unwrap().metadata.unwrap()["note"], "second");
}

async fn a_failure_is_not_remembered(world: VaultHarness) {
    let (_, caller) = open(&world, Settings::default()).await;
    let named = || NewToken { id: Some("mine".to_owned()), ..card(VISA) };
    create(&world.vault, &caller, named()).await.unwrap();
    let taken = create_with_key(&world, &caller, named()).await;
    assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
    let invalid = create_with_key(&world, &caller, card("4242424242424241")).await;
    assert!(matches!(invalid, Err(Error::Invalid(_))), "{invalid:?}");
    // The client may mend its request and send it under the same key.
    create_with_key(&world, &caller, card(VISA)).await.unwrap();
    assert_eq!(replay(&world, &caller).await.unwrap().status, 201);
}

async fn keys_of_two_applications_do_not_meet(world: VaultHarness) {
    let (tenant, caller) = open(&world, Settings::default()).await;
    let other = world.caller(&tenant, plain(TOKENS)).await;
    let first = create_with_key(&world, &caller, card(VISA)).await.unwrap();
    let second = create_with_key(&world, &other, card(VISA)).await.unwrap();
    assert_ne!(first.token.id, second.token.id);
    assert_eq!(replay(&world, &caller).await.unwrap().body, render(&first).body);
    assert_eq!(replay(&world, &other).await.unwrap().body, render(&second).body);
}

async fn an_answer_is_forgotten_after_a_day(world: VaultHarness) {
    let (_, caller) = open(&world, Settings::default()).await;
    let first = create_with_key(&world, &caller, card(VISA)).await.unwrap();
    world.clock.advance(ANSWER_RETENTION);
    let second = create_with_key(&world, &caller, card(VISA)).await.unwrap();
    assert_ne!(first.token.id, second.token.id);
    assert_eq!(replay(&world, &caller).await.unwrap().body, render(&second).body);
}
