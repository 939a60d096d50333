//! Several tokens in one request, and several parts in its remembered answer.

use scrip_core::{
    audit::Operation,
    error::Error,
    idempotency::{
        Remember, Rendered, Replay,
        answer::{Sight, Span},
    },
    operations::{
        claim_answer::{Turn, claim_answer},
        tokens::{
            delete_token::delete_token,
            tokenize::{Requested, tokenize},
        },
    },
    policy::{
        Caller,
        DeduplicationBehavior::{self, ReadExisting, UpdateExisting},
        Settings, Transform,
    },
    token::{NewToken, Written},
};
use scrip_testing::{
    policy::{TOKENS, rule, ruled},
    requests::{DEBIT, VISA, card, card_with_cvc, create, cvc, data, get},
    vault_harness::VaultHarness,
};
use serde_json::{Value, json};

on_every_engine! {
    VaultHarness;
    all_of_them_or_none
    duplicates_are_read_or_updated_in_the_same_effect
    writers_of_one_card_take_turns
    a_replay_has_the_parts_whose_tokens_are_there
}

const KEY: &[u8] = b"order-7";

async fn caller(world: &VaultHarness, behavior: Option<DeduplicationBehavior>) -> Caller {
    let settings = Settings {
        deduplicate_tokens: behavior.is_some(),
        token_deduplication_behavior: behavior.unwrap_or(ReadExisting),
        ..Settings::default()
    };
    let tenant = world.tenant(settings).await;
    world.caller(&tenant, ruled([rule("/", Transform::Reveal, TOKENS)])).await
}

fn requested(news: Vec<NewToken>) -> Vec<Requested> {
    let at = |(at, new)| Requested { path: format!("[{at}]"), new };
    news.into_iter().enumerate().map(at).collect()
}

async fn make(
    world: &VaultHarness,
    caller: &Caller,
    news: Vec<NewToken>,
) -> Result<Vec<Written>, Error> {
    tokenize(&world.vault, caller, requested(news), None).await
}

fn named(id: &str, new: NewToken) -> NewToken {
    NewToken { id: Some(id.to_owned()), ..new }
}

async fn all_of_them_or_none(world: VaultHarness) {
    let caller = caller(&world, None).await;
    create(&world.vault, &caller, named("taken", card(VISA))).await.unwrap();
    for place in 0..3 {
        let news = |bad: NewToken| {
            let mut news: Vec<_> = ["one", "two"].map(|id| named(id, card(VISA))).into();
            news.insert(place, bad);
            news
        };
        let taken = make(&world, &caller, news(named("taken", card(DEBIT)))).await;
        assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
        let invalid = make(&world, &caller, news(card("4242424242424241"))).await;
        let Err(Error::Invalid(fields)) = invalid else { panic!("{invalid:?}") };
        assert_eq!(fields[0].field, format!("[{place}].data.number"));
    }
    let written = ["one", "two"].map(|id| named(id, card_with_cvc(VISA, "123")));
    let written = make(&world, &caller, written.into()).await.unwrap();
    for (written, id) in written.iter().zip(["one", "two"]) {
        assert_eq!((written.token.id.as_str(), written.deduplicated), (id, None));
        let found = get(&world.vault, &caller, &written.token.id).await;
        assert_eq!((data(&found), cvc(&found)), (data(&written.token), Some("123".to_owned())));
    }
}

async fn duplicates_are_read_or_updated_in_the_same_effect(world: VaultHarness) {
    for behavior in [ReadExisting, UpdateExisting] {
        let caller = caller(&world, Some(behavior)).await;
        let first = create(&world.vault, &caller, card_with_cvc(VISA, "123")).await.unwrap();
        let news = vec![card_with_cvc(VISA, "456"), card(DEBIT), card_with_cvc(DEBIT, "789")];
        let written = make(&world, &caller, news).await.unwrap();
        let outcomes: Vec<_> = written.iter().map(|it| it.deduplicated).collect();
        assert_eq!(outcomes, [Some(behavior), None, Some(ReadExisting)]);
        assert_eq!(written[0].token.id, first.token.id);
        assert_eq!(written[1].token.id, written[2].token.id);
        let code = if behavior == UpdateExisting { "456" } else { "123" };
        assert_eq!(cvc(&written[0].token).as_deref(), Some(code));
        let found = get(&world.vault, &caller, &first.token.id).await;
        assert_eq!(cvc(&found).as_deref(), Some(code));
        assert_eq!(cvc(&written[2].token), None, "the first one had none");
    }
}

/// Each of them updates what another one has just changed, and none is lost.
async fn writers_of_one_card_take_turns(world: VaultHarness) {
    const WRITERS: usize = 40;
    let caller = caller(&world, Some(UpdateExisting)).await;
    let noted = |at: usize| {
        let metadata = [(format!("writer-{at}"), "was here".to_owned())].into();
        NewToken { metadata: Some(metadata), ..card(VISA) }
    };
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..WRITERS {
        let (vault, caller, new) = (world.vault.clone(), caller.clone(), noted(at));
        let news = requested(vec![card(DEBIT), new]);
        tasks.spawn(async move { tokenize(&vault, &caller, news, None).await });
    }
    let all: Vec<_> = tasks.join_all().await.into_iter().map(Result::unwrap).collect();
    let new = all.iter().filter(|it| it[1].deduplicated.is_none()).count();
    assert_eq!(new, 1);
    let found = get(&world.vault, &caller, &all[0][1].token.id).await;
    assert_eq!(found.detail.unwrap().metadata.unwrap().len(), WRITERS);
}

/// Two tokens that are shown, and between them one of which only the id is.
fn render(written: &[Written]) -> Rendered {
    let [first, leaf, second] = written else { panic!("{written:?}") };
    let [first, leaf, second] = [first, leaf, second].map(|it| it.token.id.as_str());
    let body = format!("{first} {leaf} {second}");
    let start = body.len() - second.len();
    let tokens = vec![
        Span { token: 0, start: 0, end: first.len() },
        Span { token: 2, start, end: body.len() },
    ];
    Rendered { status: 200, body, tokens }
}

fn shown(replay: &Replay) -> Vec<(usize, Option<Value>)> {
    let one = |it: &scrip_core::idempotency::Replayed| match &it.sight {
        Sight::Whole(data) => (it.span.token, data.as_ref().map(|it| it.expose().clone())),
        Sight::Outline => panic!("{replay:?}"),
    };
    replay.tokens.iter().map(one).collect()
}

async fn a_replay_has_the_parts_whose_tokens_are_there(world: VaultHarness) {
    let caller = caller(&world, None).await;
    let Turn::Proceed(claim) =
        claim_answer(&world.vault, &caller, Operation::Tokenize, KEY, None).await.unwrap()
    else {
        panic!("it is the first")
    };
    let news = vec![card_with_cvc(VISA, "123"), card(DEBIT), card_with_cvc(DEBIT, "456")];
    let remember = Remember::new(claim, render);
    let first = tokenize(&world.vault, &caller, requested(news), Some(remember)).await.unwrap();
    let replay = async || match claim_answer(&world.vault, &caller, Operation::Tokenize, KEY, None)
        .await
        .unwrap()
    {
        Turn::Replay(replay) => replay,
        Turn::Proceed(_) => panic!("nothing is remembered"),
    };
    let again = replay().await;
    assert_eq!((again.status, &again.body), (200, &render(&first).body));
    let (visa, debit) = (Some(json!({"number": VISA})), Some(json!({"number": DEBIT})));
    assert_eq!(shown(&again), [(0, visa), (2, debit.clone())]);
    for (gone, left) in [(1, debit.clone()), (0, debit), (2, None)] {
        delete_token(&world.vault, &caller, &first[gone].token.id).await.unwrap();
        let parts = shown(&replay().await);
        assert_eq!(parts[1], (2, left));
        assert_eq!(parts[0].1.is_some(), gone == 1);
    }
}
