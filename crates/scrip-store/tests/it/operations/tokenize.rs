//! Several tokens in one request, and several parts in its remembered answer.

use scrip_core::{
    audit::Operation,
    error::Error,
    idempotency::{
        RenderedResponse, Replay, ResponseRecorder,
        response::{ReplayVisibility, TokenSpan},
    },
    operations::{
        claim_idempotency_key::{ClaimDecision, claim_idempotency_key},
        tokens::{
            delete_token::delete_token,
            tokenize::{RequestedToken, tokenize},
        },
    },
    policy::{
        Caller,
        DeduplicationBehavior::{self, ReadExisting, UpdateExisting},
        TenantSettings, Transform,
    },
    token::{NewToken, WrittenToken},
};
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{DEBIT, VISA, card, card_with_cvc, create, get, visible_cvc, visible_data},
    vault_harness::VaultHarness,
};
use serde_json::{Value, json};

on_every_engine! {
    VaultHarness;
    tokenize_creates_all_tokens_or_none
    tokenize_reads_or_updates_duplicates_in_the_same_commit
    concurrent_updates_of_one_duplicate_lose_nothing
    tokenize_replay_contains_only_existing_tokens
}

const KEY: &[u8] = b"order-7";

async fn caller(harness: &VaultHarness, behavior: Option<DeduplicationBehavior>) -> Caller {
    let settings = TenantSettings {
        deduplicate_tokens: behavior.is_some(),
        token_deduplication_behavior: behavior.unwrap_or(ReadExisting),
        ..TenantSettings::default()
    };
    let tenant = harness.tenant(settings).await;
    harness.caller(&tenant, access_with_rules([access_rule("/", Transform::Reveal, TOKENS)])).await
}

fn request_tokens(news: Vec<NewToken>) -> Vec<RequestedToken> {
    let at = |(at, new)| RequestedToken { path: format!("[{at}]"), new };
    news.into_iter().enumerate().map(at).collect()
}

async fn tokenize_all(
    harness: &VaultHarness,
    caller: &Caller,
    news: Vec<NewToken>,
) -> Result<Vec<WrittenToken>, Error> {
    tokenize(&harness.vault, caller, request_tokens(news), None).await
}

fn with_id(id: &str, new: NewToken) -> NewToken {
    NewToken { id: Some(id.to_owned()), ..new }
}

async fn tokenize_creates_all_tokens_or_none(harness: VaultHarness) {
    let caller = caller(&harness, None).await;
    create(&harness.vault, &caller, with_id("taken", card(VISA))).await.unwrap();
    for place in 0..3 {
        let news = |bad: NewToken| {
            let mut news: Vec<_> = ["one", "two"].map(|id| with_id(id, card(VISA))).into();
            news.insert(place, bad);
            news
        };
        let taken = tokenize_all(&harness, &caller, news(with_id("taken", card(DEBIT)))).await;
        assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
        let invalid = tokenize_all(&harness, &caller, news(card("4242424242424241"))).await;
        let Err(Error::Invalid(fields)) = invalid else { panic!("{invalid:?}") };
        assert_eq!(fields[0].field, format!("[{place}].data.number"));
    }
    let written = ["one", "two"].map(|id| with_id(id, card_with_cvc(VISA, "123")));
    let written = tokenize_all(&harness, &caller, written.into()).await.unwrap();
    for (written, id) in written.iter().zip(["one", "two"]) {
        assert_eq!((written.token.id.as_str(), written.deduplicated), (id, None));
        let found = get(&harness.vault, &caller, &written.token.id).await;
        assert_eq!(
            (visible_data(&found), visible_cvc(&found)),
            (visible_data(&written.token), Some("123".to_owned()))
        );
    }
}

async fn tokenize_reads_or_updates_duplicates_in_the_same_commit(harness: VaultHarness) {
    for behavior in [ReadExisting, UpdateExisting] {
        let caller = caller(&harness, Some(behavior)).await;
        let first = create(&harness.vault, &caller, card_with_cvc(VISA, "123")).await.unwrap();
        let news = vec![card_with_cvc(VISA, "456"), card(DEBIT), card_with_cvc(DEBIT, "789")];
        let written = tokenize_all(&harness, &caller, news).await.unwrap();
        let outcomes: Vec<_> = written.iter().map(|it| it.deduplicated).collect();
        assert_eq!(outcomes, [Some(behavior), None, Some(ReadExisting)]);
        assert_eq!(written[0].token.id, first.token.id);
        assert_eq!(written[1].token.id, written[2].token.id);
        let code = if behavior == UpdateExisting { "456" } else { "123" };
        assert_eq!(visible_cvc(&written[0].token).as_deref(), Some(code));
        let found = get(&harness.vault, &caller, &first.token.id).await;
        assert_eq!(visible_cvc(&found).as_deref(), Some(code));
        assert_eq!(visible_cvc(&written[2].token), None, "the first one had none");
    }
}

/// Each of them updates what another one has just changed, and none is lost.
async fn concurrent_updates_of_one_duplicate_lose_nothing(harness: VaultHarness) {
    const WRITERS: usize = 40;
    let caller = caller(&harness, Some(UpdateExisting)).await;
    let noted = |at: usize| {
        let metadata = [(format!("writer-{at}"), "was here".to_owned())].into();
        NewToken { metadata: Some(metadata), ..card(VISA) }
    };
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..WRITERS {
        let (vault, caller, new) = (harness.vault.clone(), caller.clone(), noted(at));
        let news = request_tokens(vec![card(DEBIT), new]);
        tasks.spawn(async move { tokenize(&vault, &caller, news, None).await });
    }
    let all: Vec<_> = tasks.join_all().await.into_iter().map(Result::unwrap).collect();
    let new = all.iter().filter(|it| it[1].deduplicated.is_none()).count();
    assert_eq!(new, 1);
    let found = get(&harness.vault, &caller, &all[0][1].token.id).await;
    assert_eq!(found.detail.unwrap().metadata.unwrap().len(), WRITERS);
}

/// Two tokens that are shown, and between them one of which only the id is.
fn render(written: &[WrittenToken]) -> RenderedResponse {
    let [first, leaf, second] = written else { panic!("{written:?}") };
    let [first, leaf, second] = [first, leaf, second].map(|it| it.token.id.as_str());
    let body = format!("{first} {leaf} {second}");
    let start = body.len() - second.len();
    let tokens = vec![
        TokenSpan { write_index: 0, start: 0, end: first.len() },
        TokenSpan { write_index: 2, start, end: body.len() },
    ];
    RenderedResponse { status: 200, body, tokens }
}

fn replayed_tokens(replay: &Replay) -> Vec<(usize, Option<Value>)> {
    let one = |it: &scrip_core::idempotency::ReplayedToken| match &it.visibility {
        ReplayVisibility::Full(data) => {
            (it.span.write_index, data.as_ref().map(|it| it.expose().clone()))
        }
        ReplayVisibility::Outline => panic!("{replay:?}"),
    };
    replay.tokens.iter().map(one).collect()
}

async fn tokenize_replay_contains_only_existing_tokens(harness: VaultHarness) {
    let caller = caller(&harness, None).await;
    let ClaimDecision::Proceed(claim) =
        claim_idempotency_key(&harness.vault, &caller, Operation::Tokenize, KEY, None)
            .await
            .unwrap()
    else {
        panic!("it is the first")
    };
    let news = vec![card_with_cvc(VISA, "123"), card(DEBIT), card_with_cvc(DEBIT, "456")];
    let remember = ResponseRecorder::new(claim, render);
    let first =
        tokenize(&harness.vault, &caller, request_tokens(news), Some(remember)).await.unwrap();
    let replay = async || match claim_idempotency_key(
        &harness.vault,
        &caller,
        Operation::Tokenize,
        KEY,
        None,
    )
    .await
    .unwrap()
    {
        ClaimDecision::Replay(replay) => replay,
        ClaimDecision::Proceed(_) => panic!("nothing is remembered"),
    };
    let again = replay().await;
    assert_eq!((again.status, &again.body), (200, &render(&first).body));
    let (visa, debit) = (Some(json!({"number": VISA})), Some(json!({"number": DEBIT})));
    assert_eq!(replayed_tokens(&again), [(0, visa), (2, debit.clone())]);
    for (gone, left) in [(1, debit.clone()), (0, debit), (2, None)] {
        delete_token(&harness.vault, &caller, &first[gone].token.id).await.unwrap();
        let parts = replayed_tokens(&replay().await);
        assert_eq!(parts[1], (2, left));
        assert_eq!(parts[0].1.is_some(), gone == 1);
    }
}
