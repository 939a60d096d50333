//! Paging while others insert, delete and move: what was there throughout, unmoved, is seen once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use scrip_core::{
    listing::{CursorPage, ListTokensQuery, TokenFilter},
    operations::tokens::{delete_token::delete_token, list_tokens::list_tokens},
    policy::{Caller, TenantSettings, Transform},
    token::{TokenPatch, TokenType},
};
use scrip_seal::Sealed;
use scrip_testing::{
    policy::{TOKENS, access_rule, access_with_rules},
    requests::{create, new_token, update},
    vault_harness::{Engine, VaultHarness, containers, token_id},
};
use serde_json::json;

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
    /// The next page of one of the walks.
    NextPage {
        walk: usize,
        size: usize,
    },
}

fn paging_step() -> impl Strategy<Value = PagingStep> {
    let places = || 0..CONTAINERS.len();
    prop_oneof![
        5 => (places(), 0..3_u8).prop_map(|(containers, colour)| PagingStep::Insert { containers, colour }),
        2 => (0..64_usize).prop_map(PagingStep::Delete),
        2 => (0..64_usize, places()).prop_map(|(index, containers)| PagingStep::Move { index, containers }),
        2 => Just(PagingStep::Tick),
        6 => (0..WALKS, 1..4_usize).prop_map(|(walk, size)| PagingStep::NextPage { walk, size }),
    ]
}

const WALKS: usize = 5;

/// What each walk asks for: of all, of a container, of a type, of metadata, of both.
fn walk_query(walk: usize, start: Option<Sealed>, size: usize) -> ListTokensQuery {
    let place = |text: &str| Some(containers(&[text]).iter().next().unwrap().clone());
    let red = || TokenFilter::Metadata { name: "colour".to_owned(), value: "1".to_owned() };
    let (container, filter) = match walk {
        0 => (None, TokenFilter::All),
        1 => (place("/a/"), TokenFilter::All),
        2 => (None, TokenFilter::Type(TokenType::Token)),
        3 => (None, red()),
        _ => (place("/b/"), red()),
    };
    ListTokensQuery { container, filter, start, size }
}

/// One engine with its caller, who cannot read what is also in /secret/, and its walks.
struct PagingSide {
    vault_harness: VaultHarness,
    owner: Caller,
    reader: Caller,
    cursors: Vec<Option<Sealed>>,
    ids: Vec<String>,
}

impl PagingSide {
    async fn open(engine: Engine) -> Self {
        Self::with_vault(VaultHarness::open(engine).await).await
    }

    async fn with_vault(harness: VaultHarness) -> Self {
        let tenant = harness.tenant(TenantSettings::default()).await;
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

    async fn apply_step(&mut self, at: usize, step: &PagingStep) -> Vec<String> {
        let vault = &self.vault_harness.vault;
        match step {
            PagingStep::Insert { containers: place, colour } => {
                let id = format!("token-{at}");
                let mut new = new_token(TokenType::Token, json!(at));
                new.id = Some(id.clone());
                new.containers = Some(containers(CONTAINERS[*place]));
                new.metadata = Some(BTreeMap::from([("colour".to_owned(), colour.to_string())]));
                create(vault, &self.owner, new).await.unwrap();
                self.ids.push(id);
                Vec::new()
            }
            PagingStep::Delete(which) => {
                if let Some(id) = take_id(&mut self.ids, *which) {
                    delete_token(vault, &self.owner, &token_id(&id)).await.unwrap();
                }
                Vec::new()
            }
            PagingStep::Move { index: which, containers: place } => {
                if let Some(id) = take_id(&mut self.ids, *which) {
                    let patch = TokenPatch {
                        containers: Some(Some(containers(CONTAINERS[*place]))),
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
                let CursorPage { tokens, next, .. } = page.unwrap();
                self.cursors[*walk] = next;
                tokens.iter().map(|it| it.id.as_str().to_owned()).collect()
            }
        }
    }
}

fn take_id(ids: &mut Vec<String>, index: usize) -> Option<String> {
    (!ids.is_empty()).then(|| ids.remove(index % ids.len()))
}

/// What a walk has seen since it began, and what has not been touched since then.
#[derive(Default)]
struct PagingWalk {
    unmoved: BTreeSet<String>,
    seen: Vec<String>,
}

async fn compare_with_model(engine: Engine, steps: Vec<PagingStep>) {
    let mut model = PagingSide::with_vault(VaultHarness::open_model(engine).await).await;
    let mut tried = PagingSide::open(engine).await;
    let mut walks: Vec<PagingWalk> = (0..WALKS).map(|_| PagingWalk::default()).collect();
    // Every walk ends before the test does.
    let rest =
        (0..WALKS).flat_map(|walk| vec![PagingStep::NextPage { walk, size: 3 }; steps.len()]);
    for (at, step) in steps.iter().cloned().chain(rest).enumerate() {
        if let PagingStep::NextPage { walk, .. } = &step
            && tried.cursors[*walk].is_none()
        {
            walks[*walk] = PagingWalk::default();
            walks[*walk].unmoved = list_whole(&tried, *walk).await.into_iter().collect();
        }
        if let PagingStep::Delete(which) | PagingStep::Move { index: which, .. } = &step
            && let Some(id) = take_id(&mut tried.ids.clone(), *which)
        {
            for walk in &mut walks {
                walk.unmoved.remove(&id);
            }
        }
        let (expected, actual) =
            (model.apply_step(at, &step).await, tried.apply_step(at, &step).await);
        assert_eq!(actual, expected, "step {at}: {step:?}");
        if let PagingStep::NextPage { walk: which, .. } = &step {
            let walk = &mut walks[*which];
            walk.seen.extend(actual);
            if tried.cursors[*which].is_none() {
                for id in &walk.unmoved {
                    let times = walk.seen.iter().filter(|it| *it == id).count();
                    assert_eq!(times, 1, "walk {which} saw {id} {times} times");
                }
            }
        }
    }
}

/// All that a walk would see now.
async fn list_whole(side: &PagingSide, walk: usize) -> Vec<String> {
    let page = list_tokens(&side.vault_harness.vault, &side.reader, walk_query(walk, None, 100))
        .await
        .unwrap();
    assert!(page.next.is_none());
    page.tokens.iter().map(|it| it.id.as_str().to_owned()).collect()
}

#[expect(clippy::disallowed_methods, reason = "how long a test runs is no setting of the program")]
fn cases() -> u32 {
    if std::env::var("SCRIP_TEST_LONG").is_ok() { 320 } else { 32 }
}

#[test]
fn sqlite_pages_agree_with_the_model_and_miss_no_token() {
    check_agreement(Engine::Sqlite);
}

#[test]
fn postgres_pages_agree_with_the_model_and_miss_no_token() {
    check_agreement(Engine::Postgres);
}

fn check_agreement(engine: Engine) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // A database for each, which takes longer than all that is done in it.
    let cases = if matches!(engine, Engine::Postgres) { cases() / 4 } else { cases() };
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&vec(paging_step(), 60), |steps| {
        runtime.block_on(compare_with_model(engine, steps));
        Ok(())
    });
    outcome.unwrap();
}

/// The same with writers that do not wait for the pager.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_paging_with_concurrent_writers_lists_each_remaining_token_once() {
    page_with_concurrent_writers(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_paging_with_concurrent_writers_lists_each_remaining_token_once() {
    page_with_concurrent_writers(Engine::Postgres).await;
}

async fn page_with_concurrent_writers(engine: Engine) {
    let mut side = PagingSide::open(engine).await;
    for at in 0..200 {
        let place = at % 4;
        side.apply_step(at, &PagingStep::Insert { containers: place, colour: 1 }).await;
        side.apply_step(at, &PagingStep::Tick).await;
    }
    let staying: BTreeSet<_> = side.ids.iter().cloned().collect();
    let (vault, owner) = (side.vault_harness.vault.clone(), side.owner.clone());
    let stop = AtomicBool::new(false);
    let churn = async {
        let mut at = 0_usize;
        while !stop.load(Ordering::Relaxed) {
            let mut new = new_token(TokenType::Token, json!(at));
            new.id = Some(format!("passing-{at}"));
            new.containers = Some(containers(CONTAINERS[at % 4]));
            let id = create(&vault, &owner, new).await.unwrap().token.id;
            let patch = TokenPatch {
                containers: Some(Some(containers(CONTAINERS[(at + 1) % 4]))),
                ..TokenPatch::default()
            };
            update(&vault, &owner, &id, patch).await.unwrap();
            delete_token(&vault, &owner, &id).await.unwrap();
            at += 1;
        }
        at
    };
    let pager = async {
        for _ in 0..5 {
            let (mut seen, mut start) = (Vec::new(), None);
            loop {
                let page =
                    list_tokens(&vault, &side.reader, walk_query(0, start, 7)).await.unwrap();
                seen.extend(page.tokens.iter().map(|it| it.id.as_str().to_owned()));
                start = page.next;
                if start.is_none() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            let stayed: Vec<_> = seen.into_iter().filter(|it| staying.contains(it)).collect();
            assert_eq!(stayed.len(), staying.len());
            assert_eq!(stayed.into_iter().collect::<BTreeSet<_>>(), staying);
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (churned, ()) = tokio::join!(churn, pager);
    assert!(churned > 0);
}
