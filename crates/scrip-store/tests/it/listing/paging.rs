//! Paging during concurrent inserts, deletes and moves: a token that exists throughout and does not
//! move is listed exactly once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use proptest::{collection::vec, prelude::*};
use scrip_core::{
    card::TokenType,
    listing::CursorPage,
    operations::tokens::{
        ListTokensQuery, TokenFilter, delete_token::delete_token, list_tokens::list_tokens,
    },
    policy::Caller,
    token::TokenPatch,
    types::Transform,
};
use scrip_seal::Sealed;
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{create, new_token, update},
    vault_harness::{Engine, VaultHarness, containers, token_id},
};
use serde_json::json;

use crate::tokens::random_operations::run_random_steps;

const CONTAINERS: [&[&str]; 5] =
    [&["/a/"], &["/a/b/"], &["/b/"], &["/b/", "/a/"], &["/secret/", "/a/"]];

#[derive(Debug, Clone)]
enum PagingStep {
    Insert {
        containers: usize,
        colour: u8,
    },
    Delete(usize),
    Move {
        index: usize,
        containers: usize,
    },
    Tick,
    /// Reads the next page of one of the walks.
    NextPage {
        walk: usize,
        size: usize,
    },
}

fn paging_step_strategy() -> impl Strategy<Value = PagingStep> {
    let containers_index = || 0..CONTAINERS.len();
    prop_oneof![
        5 => (containers_index(), 0..3_u8)
            .prop_map(|(containers, colour)| PagingStep::Insert { containers, colour }),
        2 => (0..64_usize).prop_map(PagingStep::Delete),
        2 => (0..64_usize, containers_index())
            .prop_map(|(index, containers)| PagingStep::Move { index, containers }),
        2 => Just(PagingStep::Tick),
        6 => (0..WALKS, 1..4_usize).prop_map(|(walk, size)| PagingStep::NextPage { walk, size }),
    ]
}

const WALKS: usize = 5;

/// The query of each walk: all tokens, a container, a type, metadata, or container and metadata.
fn walk_query(walk: usize, start: Option<Sealed>, size: usize) -> ListTokensQuery {
    let parse_container = |text: &str| Some(containers(&[text]).iter().next().unwrap().clone());
    let colour_filter =
        || TokenFilter::Metadata { name: "colour".to_owned(), value: "1".to_owned() };
    let (container, filter) = match walk {
        0 => (None, TokenFilter::All),
        1 => (parse_container("/a/"), TokenFilter::All),
        2 => (None, TokenFilter::Type(TokenType::Token)),
        3 => (None, colour_filter()),
        _ => (parse_container("/b/"), colour_filter()),
    };
    ListTokensQuery { container, filter, start, size }
}

/// One engine, and the cursors of its walks. The reader cannot read tokens that are also in
/// `/secret/`.
struct PagingEngine {
    vault_harness: VaultHarness,
    owner: Caller,
    reader: Caller,
    cursors: Vec<Option<Sealed>>,
    ids: Vec<String>,
}

impl PagingEngine {
    async fn open(engine: Engine) -> Self {
        Self::with_vault(VaultHarness::open(engine).await).await
    }

    async fn with_vault(harness: VaultHarness) -> Self {
        let tenant = harness.default_tenant().await;
        let owner = harness
            .caller(&tenant, access_with_rules([access_rule("/", Transform::Mask, TOKENS)]))
            .await;
        let rules = [
            access_rule("/a/", Transform::Mask, TOKENS),
            access_rule("/b/", Transform::Reveal, TOKENS),
        ];
        let reader = harness.caller(&tenant, access_with_rules(rules)).await;
        Self { vault_harness: harness, owner, reader, cursors: vec![None; WALKS], ids: Vec::new() }
    }

    async fn apply_step(&mut self, step_number: usize, step: &PagingStep) -> Vec<String> {
        let vault = &self.vault_harness.vault;
        match step {
            PagingStep::Insert { containers: containers_index, colour } => {
                let id = format!("token-{step_number}");
                let mut token = new_token(TokenType::Token, json!(step_number));
                token.id = Some(id.clone());
                token.containers = Some(containers(CONTAINERS[*containers_index]));
                token.metadata = Some(BTreeMap::from([("colour".to_owned(), colour.to_string())]));
                create(vault, &self.owner, token).await.unwrap();
                self.ids.push(id);
                Vec::new()
            }
            PagingStep::Delete(index) => {
                if let Some(id) = take_id(&mut self.ids, *index) {
                    delete_token(vault, &self.owner, &token_id(&id)).await.unwrap();
                }
                Vec::new()
            }
            PagingStep::Move { index, containers: containers_index } => {
                if let Some(id) = take_id(&mut self.ids, *index) {
                    let patch = TokenPatch {
                        containers: Some(Some(containers(CONTAINERS[*containers_index]))),
                        ..TokenPatch::default()
                    };
                    update(vault, &self.owner, &token_id(&id), patch).await.unwrap();
                    self.ids.push(id);
                }
                Vec::new()
            }
            PagingStep::Tick => {
                self.vault_harness.clock.advance(Duration::from_millis(1));
                Vec::new()
            }
            PagingStep::NextPage { walk, size } => {
                let start = self.cursors[*walk].take();
                let page = list_tokens(vault, &self.reader, walk_query(*walk, start, *size)).await;
                let CursorPage { items: tokens, next, .. } = page.unwrap();
                self.cursors[*walk] = next;
                tokens.iter().map(|it| it.id.as_str().to_owned()).collect()
            }
        }
    }
}

fn take_id(ids: &mut Vec<String>, index: usize) -> Option<String> {
    (!ids.is_empty()).then(|| ids.remove(index % ids.len()))
}

/// The tokens that existed at the start of a walk and have not moved since then, and the tokens
/// that the walk has listed.
#[derive(Default)]
struct PagingWalk {
    unmoved: BTreeSet<String>,
    listed: Vec<String>,
}

async fn compare_with_model(engine: Engine, steps: Vec<PagingStep>) {
    let mut model = PagingEngine::with_vault(VaultHarness::open_model(engine).await).await;
    let mut engine_under_test = PagingEngine::open(engine).await;
    let mut walks: Vec<PagingWalk> = (0..WALKS).map(|_| PagingWalk::default()).collect();
    // Completes every walk before the test ends.
    let final_steps =
        (0..WALKS).flat_map(|walk| vec![PagingStep::NextPage { walk, size: 3 }; steps.len()]);
    for (step_number, step) in steps.iter().cloned().chain(final_steps).enumerate() {
        if let PagingStep::NextPage { walk, .. } = &step
            && engine_under_test.cursors[*walk].is_none()
        {
            walks[*walk] = PagingWalk::default();
            walks[*walk].unmoved =
                list_all_of_walk(&engine_under_test, *walk).await.into_iter().collect();
        }
        if let PagingStep::Delete(index) | PagingStep::Move { index, .. } = &step
            && let Some(id) = take_id(&mut engine_under_test.ids.clone(), *index)
        {
            for walk in &mut walks {
                walk.unmoved.remove(&id);
            }
        }
        let (expected, actual) = (
            model.apply_step(step_number, &step).await,
            engine_under_test.apply_step(step_number, &step).await,
        );
        assert_eq!(actual, expected, "step {step_number}: {step:?}");
        if let PagingStep::NextPage { walk: walk_number, .. } = &step {
            let walk = &mut walks[*walk_number];
            walk.listed.extend(actual);
            if engine_under_test.cursors[*walk_number].is_none() {
                for id in &walk.unmoved {
                    let count = walk.listed.iter().filter(|it| *it == id).count();
                    assert_eq!(count, 1, "walk {walk_number} listed {id} {count} times");
                }
            }
        }
    }
}

/// Lists all tokens of the query of a walk at this moment.
async fn list_all_of_walk(engine: &PagingEngine, walk: usize) -> Vec<String> {
    let page =
        list_tokens(&engine.vault_harness.vault, &engine.reader, walk_query(walk, None, 100))
            .await
            .unwrap();
    assert!(page.next.is_none());
    page.items.iter().map(|it| it.id.as_str().to_owned()).collect()
}

#[test]
fn sqlite_pages_agree_with_the_model_and_miss_no_token() {
    run_random_steps(Engine::Sqlite, 32, vec(paging_step_strategy(), 60), compare_with_model);
}

#[test]
fn postgres_pages_agree_with_the_model_and_miss_no_token() {
    run_random_steps(Engine::Postgres, 32, vec(paging_step_strategy(), 60), compare_with_model);
}

/// Writers create, move and delete tokens while pages are listed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_paging_with_concurrent_writers_lists_each_remaining_token_once() {
    page_with_concurrent_writers(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_paging_with_concurrent_writers_lists_each_remaining_token_once() {
    page_with_concurrent_writers(Engine::Postgres).await;
}

async fn page_with_concurrent_writers(engine: Engine) {
    let mut engine_under_test = PagingEngine::open(engine).await;
    for number in 0..200 {
        let containers_index = number % 4;
        engine_under_test
            .apply_step(number, &PagingStep::Insert { containers: containers_index, colour: 1 })
            .await;
        engine_under_test.apply_step(number, &PagingStep::Tick).await;
    }
    let remaining_ids: BTreeSet<_> = engine_under_test.ids.iter().cloned().collect();
    let (vault, owner) =
        (engine_under_test.vault_harness.vault.clone(), engine_under_test.owner.clone());
    let is_stopped = AtomicBool::new(false);
    let write_tokens = async {
        let mut number = 0_usize;
        while !is_stopped.load(Ordering::Relaxed) {
            let mut token = new_token(TokenType::Token, json!(number));
            token.id = Some(format!("passing-{number}"));
            token.containers = Some(containers(CONTAINERS[number % 4]));
            let id = create(&vault, &owner, token).await.unwrap().token.id;
            let patch = TokenPatch {
                containers: Some(Some(containers(CONTAINERS[(number + 1) % 4]))),
                ..TokenPatch::default()
            };
            update(&vault, &owner, &id, patch).await.unwrap();
            delete_token(&vault, &owner, &id).await.unwrap();
            number += 1;
        }
        number
    };
    let list_pages = async {
        for _ in 0..5 {
            let (mut listed_ids, mut start) = (Vec::new(), None);
            loop {
                let page = list_tokens(&vault, &engine_under_test.reader, walk_query(0, start, 7))
                    .await
                    .unwrap();
                listed_ids.extend(page.items.iter().map(|it| it.id.as_str().to_owned()));
                start = page.next;
                if start.is_none() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let listed_remaining: Vec<_> =
                listed_ids.into_iter().filter(|it| remaining_ids.contains(it)).collect();
            assert_eq!(listed_remaining.len(), remaining_ids.len());
            assert_eq!(listed_remaining.into_iter().collect::<BTreeSet<_>>(), remaining_ids);
        }
        is_stopped.store(true, Ordering::Relaxed);
    };
    let (write_count, ()) = tokio::join!(write_tokens, list_pages);
    assert!(write_count > 0, "no token was written while pages were listed");
}
