//! Several tokens in one request, and the data of several tokens in its stored response.

use scrip_core::{
    Error,
    idempotency::{
        RenderedResponse, Replay, ResponseRecorder,
        response::{TokenSpan, replay::ReplayVisibility},
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
        TenantSettings,
    },
    token::{NewToken, WrittenToken},
    types::Operation,
};
use scrip_testing::{
    policy::TOKENS,
    requests::{
        CREATE_REQUEST, DEBIT, VISA, card, card_with_cvc, create, get, visible_cvc, visible_data,
    },
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

async fn create_caller(harness: &VaultHarness, behavior: Option<DeduplicationBehavior>) -> Caller {
    let settings = TenantSettings {
        deduplicate_tokens: behavior.is_some(),
        token_deduplication_behavior: behavior.unwrap_or(ReadExisting),
        ..TenantSettings::default()
    };
    let tenant = harness.tenant(settings).await;
    harness.revealing_caller(&tenant, TOKENS).await
}

fn request_tokens(new_tokens: Vec<NewToken>) -> Vec<RequestedToken> {
    let request = |(index, new)| RequestedToken { path: format!("[{index}]"), new };
    new_tokens.into_iter().enumerate().map(request).collect()
}

async fn tokenize_all(
    harness: &VaultHarness,
    caller: &Caller,
    new_tokens: Vec<NewToken>,
) -> Result<Vec<WrittenToken>, Error> {
    tokenize(&harness.vault, caller, request_tokens(new_tokens), None).await
}

fn with_id(id: &str, token: NewToken) -> NewToken {
    NewToken { id: Some(id.to_owned()), ..token }
}

async fn tokenize_creates_all_tokens_or_none(harness: VaultHarness) {
    let caller = create_caller(&harness, None).await;
    create(&harness.vault, &caller, with_id("taken", card(VISA))).await.unwrap();
    for index in 0..3 {
        let insert_into_batch = |rejected: NewToken| {
            let mut new_tokens: Vec<_> = ["one", "two"].map(|id| with_id(id, card(VISA))).into();
            new_tokens.insert(index, rejected);
            new_tokens
        };
        let conflict =
            tokenize_all(&harness, &caller, insert_into_batch(with_id("taken", card(DEBIT)))).await;
        assert!(matches!(conflict, Err(Error::Conflict { .. })), "{conflict:?}");
        let invalid =
            tokenize_all(&harness, &caller, insert_into_batch(card("4242424242424241"))).await;
        let Err(Error::Invalid(fields)) = invalid else { panic!("{invalid:?}") };
        assert_eq!(fields[0].field, format!("[{index}].data.number"));
    }
    let new_tokens = ["one", "two"].map(|id| with_id(id, card_with_cvc(VISA, "123")));
    let written = tokenize_all(&harness, &caller, new_tokens.into()).await.unwrap();
    for (written, id) in written.iter().zip(["one", "two"]) {
        assert_eq!((written.token.id.as_str(), written.deduplicated), (id, None));
        let stored = get(&harness.vault, &caller, &written.token.id).await;
        let found = (visible_data(&stored), visible_cvc(&stored));
        assert_eq!(found, (visible_data(&written.token), Some("123".to_owned())));
    }
}

async fn tokenize_reads_or_updates_duplicates_in_the_same_commit(harness: VaultHarness) {
    for behavior in [ReadExisting, UpdateExisting] {
        let caller = create_caller(&harness, Some(behavior)).await;
        let first = create(&harness.vault, &caller, card_with_cvc(VISA, "123")).await.unwrap();
        let new_tokens = vec![card_with_cvc(VISA, "456"), card(DEBIT), card_with_cvc(DEBIT, "789")];
        let written = tokenize_all(&harness, &caller, new_tokens).await.unwrap();
        let outcomes: Vec<_> = written.iter().map(|it| it.deduplicated).collect();
        assert_eq!(outcomes, [Some(behavior), None, Some(ReadExisting)]);
        assert_eq!(written[0].token.id, first.token.id);
        assert_eq!(written[1].token.id, written[2].token.id);
        let expected_cvc = if behavior == UpdateExisting { "456" } else { "123" };
        assert_eq!(visible_cvc(&written[0].token).as_deref(), Some(expected_cvc));
        let stored = get(&harness.vault, &caller, &first.token.id).await;
        assert_eq!(visible_cvc(&stored).as_deref(), Some(expected_cvc));
        assert_eq!(visible_cvc(&written[2].token), None, "the first token should have no CVC");
    }
}

/// Each request updates a token that another request has just changed. No update is lost.
async fn concurrent_updates_of_one_duplicate_lose_nothing(harness: VaultHarness) {
    const WRITER_COUNT: usize = 40;
    let caller = create_caller(&harness, Some(UpdateExisting)).await;
    let card_with_metadata = |number: usize| {
        let metadata = [(format!("writer-{number}"), "was here".to_owned())].into();
        NewToken { metadata: Some(metadata), ..card(VISA) }
    };
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..WRITER_COUNT {
        let (vault, caller, new) =
            (harness.vault.clone(), caller.clone(), card_with_metadata(number));
        let requested = request_tokens(vec![card(DEBIT), new]);
        tasks.spawn(async move { tokenize(&vault, &caller, requested, None).await });
    }
    let responses: Vec<_> = tasks.join_all().await.into_iter().map(Result::unwrap).collect();
    let created_count = responses.iter().filter(|it| it[1].deduplicated.is_none()).count();
    assert_eq!(created_count, 1);
    let stored = get(&harness.vault, &caller, &responses[0][1].token.id).await;
    assert_eq!(stored.detail.unwrap().metadata.unwrap().len(), WRITER_COUNT);
}

/// Renders a response with the data of the first and the last token, and only the id of the token
/// between them.
fn render(written: &[WrittenToken]) -> RenderedResponse {
    let [first, middle, last] = written else { panic!("{written:?}") };
    let [first, middle, last] = [first, middle, last].map(|it| it.token.id.as_str());
    let body = format!("{first} {middle} {last}");
    let start = body.len() - last.len();
    let tokens = vec![
        TokenSpan { write_index: 0, start: 0, end: first.len() },
        TokenSpan { write_index: 2, start, end: body.len() },
    ];
    RenderedResponse { status: 200, body, tokens }
}

fn replayed_tokens(replay: &Replay) -> Vec<(usize, Option<Value>)> {
    let index_and_data = |it: &scrip_core::idempotency::ReplayedToken| match &it.visibility {
        ReplayVisibility::Full(data) => {
            (it.span.write_index, data.as_ref().map(|it| it.expose().clone()))
        }
        ReplayVisibility::Outline => panic!("{replay:?}"),
    };
    replay.tokens.iter().map(index_and_data).collect()
}

async fn tokenize_replay_contains_only_existing_tokens(harness: VaultHarness) {
    let caller = create_caller(&harness, None).await;
    let ClaimDecision::Proceed(claim) =
        claim_idempotency_key(&harness.vault, &caller, Operation::Tokenize, KEY, CREATE_REQUEST)
            .await
            .unwrap()
    else {
        panic!("the request is not a repetition")
    };
    let new_tokens = vec![card_with_cvc(VISA, "123"), card(DEBIT), card_with_cvc(DEBIT, "456")];
    let recorder = ResponseRecorder::new(claim, render);
    let first = tokenize(&harness.vault, &caller, request_tokens(new_tokens), Some(recorder))
        .await
        .unwrap();
    let request_replay = async || match claim_idempotency_key(
        &harness.vault,
        &caller,
        Operation::Tokenize,
        KEY,
        CREATE_REQUEST,
    )
    .await
    .unwrap()
    {
        ClaimDecision::Replay(replay) => replay,
        ClaimDecision::Proceed(_) => panic!("no response is stored"),
    };
    let response = request_replay().await;
    assert_eq!((response.status, &response.body), (200, &render(&first).body));
    let (visa, debit) = (Some(json!({"number": VISA})), Some(json!({"number": DEBIT})));
    assert_eq!(replayed_tokens(&response), [(0, visa), (2, debit.clone())]);
    for (deleted, expected) in [(1, debit.clone()), (0, debit), (2, None)] {
        delete_token(&harness.vault, &caller, &first[deleted].token.id).await.unwrap();
        let replayed = replayed_tokens(&request_replay().await);
        assert_eq!(replayed[1], (2, expected));
        assert_eq!(replayed[0].1.is_some(), deleted == 1);
    }
}
