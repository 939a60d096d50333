//! Paging while others insert, delete and move: what was there throughout, unmoved, is seen once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use scrip_core::{
    listing::{CursorPage, TokenFilter, TokensAsked},
    operations::tokens::{delete_token::delete_token, list_tokens::list_tokens},
    policy::{Caller, Settings, Transform},
    token::{TokenPatch, TokenType},
};
use scrip_seal::Sealed;
use scrip_testing::{
    policy::{TOKENS, rule, ruled},
    requests::{create, new_token, update},
    vault_harness::{Engine, VaultHarness, containers, token_id},
};
use serde_json::json;

const CONTAINERS: [&[&str]; 5] =
    [&["/a/"], &["/a/b/"], &["/b/"], &["/b/", "/a/"], &["/secret/", "/a/"]];

#[derive(Debug, Clone)]
enum Step {
    Insert {
        containers: usize,
        colour: u8,
    },
    Delete(usize),
    Move {
        which: usize,
        containers: usize,
    },
    Tick,
    /// The next page of one of the walks.
    Turn {
        walk: usize,
        size: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let places = || 0..CONTAINERS.len();
    prop_oneof![
        5 => (places(), 0..3_u8).prop_map(|(containers, colour)| Step::Insert { containers, colour }),
        2 => (0..64_usize).prop_map(Step::Delete),
        2 => (0..64_usize, places()).prop_map(|(which, containers)| Step::Move { which, containers }),
        2 => Just(Step::Tick),
        6 => (0..WALKS, 1..4_usize).prop_map(|(walk, size)| Step::Turn { walk, size }),
    ]
}

const WALKS: usize = 5;

/// What each walk asks for: of all, of a container, of a type, of metadata, of both.
fn asked(walk: usize, start: Option<Sealed>, size: usize) -> TokensAsked {
    let place = |text: &str| Some(containers(&[text]).iter().next().unwrap().clone());
    let red = || TokenFilter::Metadata { name: "colour".to_owned(), value: "1".to_owned() };
    let (container, filter) = match walk {
        0 => (None, TokenFilter::All),
        1 => (place("/a/"), TokenFilter::All),
        2 => (None, TokenFilter::Type(TokenType::Token)),
        3 => (None, red()),
        _ => (place("/b/"), red()),
    };
    TokensAsked { container, filter, start, size }
}

/// One engine with its caller, who cannot read what is also in /secret/, and its walks.
struct Side {
    world: VaultHarness,
    owner: Caller,
    reader: Caller,
    starts: Vec<Option<Sealed>>,
    ids: Vec<String>,
}

impl Side {
    async fn open(engine: Engine) -> Self {
        Self::with_vault(VaultHarness::open(engine).await).await
    }

    async fn with_vault(world: VaultHarness) -> Self {
        let tenant = world.tenant(Settings::default()).await;
        let owner = world.caller(&tenant, ruled([rule("/", Transform::Mask, TOKENS)])).await;
        let rules = [rule("/a/", Transform::Mask, TOKENS), rule("/b/", Transform::Reveal, TOKENS)];
        let reader = world.caller(&tenant, ruled(rules)).await;
        Self { world, owner, reader, starts: vec![None; WALKS], ids: Vec::new() }
    }

    async fn take(&mut self, at: usize, step: &Step) -> Vec<String> {
        let vault = &self.world.vault;
        match step {
            Step::Insert { containers: place, colour } => {
                let id = format!("token-{at}");
                let mut new = new_token(TokenType::Token, json!(at));
                new.id = Some(id.clone());
                new.containers = Some(containers(CONTAINERS[*place]));
                new.metadata = Some(BTreeMap::from([("colour".to_owned(), colour.to_string())]));
                create(vault, &self.owner, new).await.unwrap();
                self.ids.push(id);
                Vec::new()
            }
            Step::Delete(which) => {
                if let Some(id) = pick(&mut self.ids, *which) {
                    delete_token(vault, &self.owner, &token_id(&id)).await.unwrap();
                }
                Vec::new()
            }
            Step::Move { which, containers: place } => {
                if let Some(id) = pick(&mut self.ids, *which) {
                    let patch = TokenPatch {
                        containers: Some(Some(containers(CONTAINERS[*place]))),
                        ..TokenPatch::default()
                    };
                    update(vault, &self.owner, &token_id(&id), patch).await.unwrap();
                    self.ids.push(id);
                }
                Vec::new()
            }
            Step::Tick => {
                self.world.clock.advance(Duration::from_millis(1));
                Vec::new()
            }
            Step::Turn { walk, size } => {
                let start = self.starts[*walk].take();
                let page = list_tokens(vault, &self.reader, asked(*walk, start, *size)).await;
                let CursorPage { tokens, next, .. } = page.unwrap();
                self.starts[*walk] = next;
                tokens.iter().map(|it| it.id.as_str().to_owned()).collect()
            }
        }
    }
}

fn pick(ids: &mut Vec<String>, which: usize) -> Option<String> {
    (!ids.is_empty()).then(|| ids.remove(which % ids.len()))
}

/// What a walk has seen since it began, and what has not been touched since then.
#[derive(Default)]
struct Walk {
    unmoved: BTreeSet<String>,
    seen: Vec<String>,
}

async fn compare(engine: Engine, steps: Vec<Step>) {
    let mut model = Side::with_vault(VaultHarness::open_model(engine).await).await;
    let mut tried = Side::open(engine).await;
    let mut walks: Vec<Walk> = (0..WALKS).map(|_| Walk::default()).collect();
    // Every walk ends before the test does.
    let rest = (0..WALKS).flat_map(|walk| vec![Step::Turn { walk, size: 3 }; steps.len()]);
    for (at, step) in steps.iter().cloned().chain(rest).enumerate() {
        if let Step::Turn { walk, .. } = &step
            && tried.starts[*walk].is_none()
        {
            walks[*walk] = Walk::default();
            walks[*walk].unmoved = whole(&tried, *walk).await.into_iter().collect();
        }
        if let Step::Delete(which) | Step::Move { which, .. } = &step
            && let Some(id) = pick(&mut tried.ids.clone(), *which)
        {
            for walk in &mut walks {
                walk.unmoved.remove(&id);
            }
        }
        let (expected, actual) = (model.take(at, &step).await, tried.take(at, &step).await);
        assert_eq!(actual, expected, "step {at}: {step:?}");
        if let Step::Turn { walk: which, .. } = &step {
            let walk = &mut walks[*which];
            walk.seen.extend(actual);
            if tried.starts[*which].is_none() {
                for id in &walk.unmoved {
                    let times = walk.seen.iter().filter(|it| *it == id).count();
                    assert_eq!(times, 1, "walk {which} saw {id} {times} times");
                }
            }
        }
    }
}

/// All that a walk would see now.
async fn whole(side: &Side, walk: usize) -> Vec<String> {
    let page = list_tokens(&side.world.vault, &side.reader, asked(walk, None, 100)).await.unwrap();
    assert!(page.next.is_none());
    page.tokens.iter().map(|it| it.id.as_str().to_owned()).collect()
}

#[expect(clippy::disallowed_methods, reason = "how long a test runs is no setting of the program")]
fn cases() -> u32 {
    if std::env::var("SCRIP_TEST_LONG").is_ok() { 320 } else { 32 }
}

#[test]
fn pages_agree_with_the_model_and_miss_nothing() {
    agree(Engine::Sqlite);
}

#[test]
fn pages_of_postgres_agree_with_the_model_and_miss_nothing() {
    agree(Engine::Postgres);
}

fn agree(engine: Engine) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // A database for each, which takes longer than all that is done in it.
    let cases = if matches!(engine, Engine::Postgres) { cases() / 4 } else { cases() };
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&vec(step(), 60), |steps| {
        runtime.block_on(compare(engine, steps));
        Ok(())
    });
    outcome.unwrap();
}

/// The same with writers that do not wait for the pager.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paging_beside_writers_sees_what_stays_once() {
    page_beside_writers(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paging_postgres_beside_writers_sees_what_stays_once() {
    page_beside_writers(Engine::Postgres).await;
}

async fn page_beside_writers(engine: Engine) {
    let mut side = Side::open(engine).await;
    for at in 0..200 {
        let place = at % 4;
        side.take(at, &Step::Insert { containers: place, colour: 1 }).await;
        side.take(at, &Step::Tick).await;
    }
    let staying: BTreeSet<_> = side.ids.iter().cloned().collect();
    let (vault, owner) = (side.world.vault.clone(), side.owner.clone());
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
                let page = list_tokens(&vault, &side.reader, asked(0, start, 7)).await.unwrap();
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
