//! Random operations, done on the model and on the embedded engine: every step ends the same.

use std::{sync::Arc, time::Duration};

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use scrip_core::{
    audit::{LogKind, Operation, ReadLogBatch, ReadLogEntry},
    idempotency::{ClaimOutcome, ResponseTokenData},
    operations::logs::prune_logs::prune_logs,
    policy::{Permission, PolicyPermit, Transform},
    time::Month,
    token::{
        BuildIdempotencyRecord, CvcChange, Deduplicate, InsertToken, StoredToken, TokenBatch,
        TokenRecord, TokenType, TokenWrite, UpdateToken,
    },
};
use scrip_seal::{Fingerprint, IndexDigest, Sealed};
use scrip_testing::{
    store_harness::{StoreHarness, cvc_record, token_record},
    vault_harness::{Engine, containers, token_id},
};
use uuid::Uuid;

use crate::listing::complete_lists::describe_all_lists;

/// Few of each, so that they meet.
const IDS: [&str; 4] = ["one", "two", "three", "four"];
const CONTAINERS: [&[&str]; 4] = [&["/a/"], &["/a/", "/b/"], &["/b/", "/a/"], &["/"]];

#[derive(Debug, Clone)]
struct GeneratedToken {
    id: usize,
    is_card: bool,
    fingerprint: Option<u8>,
    containers: usize,
    lifetime_minutes: Option<u32>,
    deduplicate: Deduplicate,
    is_in_response: bool,
    cvc: u8,
    body: u8,
}

#[derive(Debug, Clone)]
enum GeneratedWrite {
    Insert(GeneratedToken),
    /// How far from the current revision the writer thinks it is: mostly not at all.
    Update(GeneratedToken, i64),
}

#[derive(Debug, Clone)]
enum TokenStep {
    /// With an idempotency key, perhaps.
    Batch(Vec<GeneratedWrite>, Option<u8>),
    Delete(usize, i64),
    Find(usize),
    /// As Get Token does.
    Read(usize),
    List,
    Claim(u8),
    Advance(u32),
    DeleteResponses(u32),
    /// Everything whose time was over so many minutes ago.
    Sweep(u32),
    /// So many things are shown at once.
    RecordReads(u8),
    /// Records that no quota keeps any longer.
    Prune,
    /// The other tenant goes on.
    SwitchTenant,
}

fn generated_token() -> impl Strategy<Value = GeneratedToken> {
    let identity = (0..IDS.len(), any::<bool>(), proptest::option::weighted(0.8, 0..3_u8));
    let deduplicate = prop_oneof![
        3 => Just(Deduplicate::No),
        3 => Just(Deduplicate::Yes),
        1 => Just(Deduplicate::ReportExisting),
    ];
    let rest = (0..CONTAINERS.len(), proptest::option::weighted(0.4, 1..10_u32), deduplicate);
    let beside = (any::<bool>(), 0..3_u8, any::<u8>());
    (identity, rest, beside).prop_map(|(identity, rest, beside)| GeneratedToken {
        id: identity.0,
        is_card: identity.1,
        fingerprint: identity.2,
        containers: rest.0,
        lifetime_minutes: rest.1,
        deduplicate: rest.2,
        is_in_response: beside.0,
        cvc: beside.1,
        body: beside.2,
    })
}

fn revision_offset() -> impl Strategy<Value = i64> {
    prop_oneof![8 => Just(0_i64), 1 => Just(1), 1 => Just(-1)]
}

fn generated_write() -> impl Strategy<Value = GeneratedWrite> {
    prop_oneof![
        6 => generated_token().prop_map(GeneratedWrite::Insert),
        4 => (generated_token(), revision_offset()).prop_map(|(it, off)| GeneratedWrite::Update(it, off)),
    ]
}

fn token_step() -> impl Strategy<Value = TokenStep> {
    let key = || proptest::option::of(0..6_u8);
    prop_oneof![
        6 => (vec(generated_write(), 1), key()).prop_map(|(writes, key)| TokenStep::Batch(writes, key)),
        6 => (vec(generated_write(), 0..5), key()).prop_map(|(writes, key)| TokenStep::Batch(writes, key)),
        2 => (0..IDS.len(), revision_offset()).prop_map(|(id, off)| TokenStep::Delete(id, off)),
        2 => (0..IDS.len()).prop_map(TokenStep::Find),
        2 => (0..IDS.len()).prop_map(TokenStep::Read),
        2 => Just(TokenStep::List),
        3 => (0..6_u8).prop_map(TokenStep::Claim),
        2 => (1..6_u32).prop_map(TokenStep::Advance),
        1 => (20 * 60..25 * 60_u32).prop_map(TokenStep::Advance),
        // Into another month, or another year, mostly.
        1 => (20 * DAY_MINUTES..80 * DAY_MINUTES).prop_map(TokenStep::Advance),
        1 => (0..48 * 60_u32).prop_map(TokenStep::DeleteResponses),
        2 => (0..3_u32).prop_map(TokenStep::Sweep),
        2 => (0..4_u8).prop_map(TokenStep::RecordReads),
        1 => Just(TokenStep::Prune),
        1 => Just(TokenStep::SwitchTenant),
    ]
}

const DAY_MINUTES: u32 = 24 * 60;

fn minutes(count: u32) -> Duration {
    Duration::from_secs(u64::from(count) * 60)
}

/// A desk of one engine, and what it has been told so far.
struct TokenSide {
    store_harness: StoreHarness,
    is_switched: bool,
}

impl TokenSide {
    fn digest(&self, number: u8) -> [u8; 32] {
        let mut digest = [number; 32];
        // Two tenants never share one: it is keyed.
        digest[0] = u8::from(self.is_switched);
        digest
    }

    fn record(&self, it: &GeneratedToken) -> TokenRecord {
        TokenRecord {
            token_type: if it.is_card { TokenType::Card } else { TokenType::Token },
            fingerprint: it.fingerprint.map(|it| Fingerprint([it; 32])),
            containers: containers(CONTAINERS[it.containers]),
            created_at: self.store_harness.now(),
            indexes: vec![IndexDigest([it.body % 3; 16]), IndexDigest([8 + it.cvc; 16])],
            expires_at: it.lifetime_minutes.map(|it| self.store_harness.now().plus(minutes(it))),
            body: Sealed::from_stored(vec![it.body]),
            ..token_record(IDS[it.id])
        }
    }

    /// An answer with parts for some of the writes.
    fn build_record(&self, writes: &[GeneratedWrite], key: u8) -> BuildIdempotencyRecord {
        let mut response = self.store_harness.idempotency_record(self.digest(key));
        let drawn = |it: &GeneratedWrite| match it {
            GeneratedWrite::Insert(it) | GeneratedWrite::Update(it, _) => {
                (it.is_in_response, it.body)
            }
        };
        response.head = Sealed::from_stored(writes.iter().map(|it| drawn(it).1).collect());
        let part = |(at, it): (usize, &GeneratedWrite)| {
            let (answered, body) = drawn(it);
            answered.then(|| ResponseTokenData {
                write_index: at,
                sealed: Sealed::from_stored(vec![body]),
            })
        };
        response.token_data = writes.iter().enumerate().filter_map(part).collect();
        Box::new(move |_| Some(response))
    }

    fn insert(&self, it: &GeneratedToken) -> TokenWrite {
        let cvc = (it.cvc > 0).then(|| cvc_record(&it.cvc.to_string()));
        TokenWrite::Insert(InsertToken {
            intent: None,
            permit: self.store_harness.permit(Permission::TokenCreate),
            token: StoredToken { record: self.record(it), cvc },
            deduplicate: it.deduplicate,
            audit: self.store_harness.audit(Operation::CreateToken),
        })
    }

    /// Of what is there before the batch; what an earlier write of it made or changed is not it.
    async fn update(&self, it: &GeneratedToken, off: i64) -> TokenWrite {
        let before = self.store_harness.find(IDS[it.id]).await.map(|it| it.record);
        let nothing = || TokenRecord { revision: 1000, ..self.record(it) };
        let before = before.unwrap_or_else(nothing);
        let token = TokenRecord {
            token_type: before.token_type,
            revision: before.revision + 1 + off,
            created_at: before.created_at,
            ..self.record(it)
        };
        let cvc = match it.cvc {
            0 => CvcChange::Keep,
            1 => CvcChange::Remove,
            _ => CvcChange::Replace(cvc_record(&it.body.to_string())),
        };
        TokenWrite::Update(UpdateToken {
            intent: None,
            permit: self.store_harness.permit(Permission::TokenUpdate),
            token,
            cvc,
            deduplicate: it.deduplicate,
            reject_if_in_session_at: None,
            audit: self.store_harness.audit(Operation::UpdateToken),
        })
    }

    async fn batch(&self, generated: &[GeneratedWrite], key: Option<u8>) -> String {
        let mut writes = Vec::new();
        for write in generated {
            writes.push(match write {
                GeneratedWrite::Insert(it) => self.insert(it),
                GeneratedWrite::Update(it, off) => self.update(it, *off).await,
            });
        }
        let batch =
            TokenBatch { writes, build_record: key.map(|it| self.build_record(generated, it)) };
        format!(
            "{:?}",
            self.store_harness
                .store()
                .write_tokens(self.store_harness.lookup_permit(), batch)
                .await
        )
    }

    async fn find_all(&self) -> String {
        let lookup = self.store_harness.caller.permit_lookup(Permission::TokenRead).unwrap();
        let ids = ["four", "absent", "one", "two", "one"].map(token_id);
        let found =
            self.store_harness.store().find_tokens(lookup, &ids, self.store_harness.now()).await;
        format!("{found:?}")
    }

    async fn delete(&self, id: &str, off: i64) -> String {
        let revision = self.store_harness.find(id).await.map_or(0, |it| it.record.revision);
        format!("{:?}", self.store_harness.delete(id, revision + off).await)
    }

    /// The claim is dropped at once: in this test nobody asks while another is at it.
    async fn claim(&self, number: u8) -> String {
        match self.store_harness.claim_digest(self.digest(number)).await {
            ClaimOutcome::Claimed(_) => "claimed".to_owned(),
            other @ (ClaimOutcome::Completed(_) | ClaimOutcome::InFlight) => format!("{other:?}"),
        }
    }

    async fn record_reads(&self, count: u8) -> String {
        let entries = (0..count).map(|it| ReadLogEntry::new(it.to_string(), "revealed")).collect();
        let vault = &self.store_harness.vault_harness.vault;
        vault
            .record_reads(&self.store_harness.caller, Operation::Detokenize, entries)
            .await
            .unwrap();
        self.logs().await
    }

    async fn prune(&self) -> String {
        let (vault, directory) = (
            &self.store_harness.vault_harness.vault,
            self.store_harness.vault_harness.directory().await,
        );
        for chain in prune_logs(vault, &directory).await.unwrap() {
            while vault.store.prune_chain(chain.clone()).await.unwrap() > 0 {}
        }
        self.logs().await
    }

    /// What was recorded of this tenant; without ids and links, which are every vault's own.
    async fn logs(&self) -> String {
        let mut all = String::new();
        for log in LogKind::ALL {
            let tenant = self.store_harness.caller.tenant().id;
            for it in self.store_harness.store().list_records(log, tenant, 0, 10_000).await.unwrap()
            {
                let entity = Uuid::try_parse(&it.entity).map_or(&*it.entity, |_| "an id");
                let words = [&*it.actor_kind, &it.operation, entity, &it.outcome, &it.trace];
                all += &format!("{log:?} {} {} {words:?}\n", it.sequence, it.at);
            }
            let chains = self.store_harness.store().list_chains(log).await.unwrap();
            let mut ends: Vec<_> =
                chains.iter().map(|it| (it.head.sequence, it.oldest_at)).collect();
            ends.sort();
            all += &format!("{ends:?}\n");
        }
        all
    }

    async fn describe_all(&self) -> String {
        let mut all = String::new();
        for id in IDS {
            all += &format!("{:?}\n", self.store_harness.find(id).await);
        }
        all += &self.find_all().await;
        for number in 0..6 {
            all += &self.claim(number).await;
        }
        all += &self.usage().await;
        all + &describe_all_lists(&self.store_harness).await + &self.logs().await
    }

    async fn read(&self, id: &str) -> String {
        let found = self.store_harness.find(id).await;
        let entries = found.iter().map(|it| ReadLogEntry::for_token(&it.record, Transform::Mask));
        self.record_read_log(entries.collect()).await;
        self.usage().await
    }

    async fn record_read_log(&self, entries: Vec<ReadLogEntry>) {
        let (tenant, audit) =
            (self.store_harness.caller.tenant().id, self.store_harness.audit(Operation::GetToken));
        self.store_harness
            .store()
            .append_read_log(ReadLogBatch { tenant, audit, entries })
            .await
            .unwrap();
    }

    /// What is noted without being waited for is written by then.
    async fn usage(&self) -> String {
        self.record_read_log(vec![ReadLogEntry::new("", "empty")]).await;
        let permit =
            PolicyPermit::for_operator(Arc::clone(self.store_harness.caller.principal().tenant()));
        let month = Month::from_timestamp(self.store_harness.now());
        let usage = self.store_harness.store().find_usage(&permit, month).await.unwrap();
        format!("{usage:?}")
    }

    async fn apply_step(mut self, step: &TokenStep) -> (Self, String) {
        let outcome = match step {
            TokenStep::Batch(writes, key) => self.batch(writes, *key).await,
            TokenStep::Delete(id, off) => self.delete(IDS[*id], *off).await,
            TokenStep::List => describe_all_lists(&self.store_harness).await,
            TokenStep::Read(id) => self.read(IDS[*id]).await,
            TokenStep::Find(id) => format!("{:?}", self.store_harness.find(IDS[*id]).await),
            TokenStep::Claim(number) => self.claim(*number).await,
            TokenStep::Advance(by) => {
                self.store_harness.advance(minutes(*by));
                self.describe_all().await
            }
            TokenStep::DeleteResponses(age) => {
                let before = self
                    .store_harness
                    .now()
                    .minus(minutes(*age).max(scrip_testing::store_harness::DAY));
                format!("{:?}", self.store_harness.store().delete_expired_responses(before).await)
            }
            TokenStep::Sweep(age) => {
                let ended = self.store_harness.now().minus(minutes(*age));
                let swept = (
                    self.store_harness.delete_expired_tokens(ended).await,
                    self.store_harness.erase_expired_cvcs(ended).await,
                );
                let month = Month::from_timestamp(self.store_harness.now());
                let usage = (self.usage().await, self.store_harness.delete_old_usage(month).await);
                format!(
                    "{swept:?} {usage:?} {:?} {}",
                    self.store_harness.row_counts().await,
                    self.usage().await
                )
            }
            TokenStep::RecordReads(count) => self.record_reads(*count).await,
            TokenStep::Prune => self.prune().await,
            TokenStep::SwitchTenant => {
                self = Self {
                    store_harness: self.store_harness.with_callers_swapped(),
                    is_switched: !self.is_switched,
                };
                self.describe_all().await
            }
        };
        (self, outcome)
    }
}

async fn compare_with_model(engine: Engine, steps: Vec<TokenStep>) {
    let side = async |engine| TokenSide {
        store_harness: StoreHarness::open(engine).await,
        is_switched: false,
    };
    let (mut model, mut tried) = (side(Engine::Memory).await, side(engine).await);
    for (at, step) in steps.iter().enumerate() {
        let (expected, actual);
        (model, expected) = model.apply_step(step).await;
        (tried, actual) = tried.apply_step(step).await;
        assert_eq!(actual, expected, "step {at}: {step:?}");
    }
    assert_eq!(tried.describe_all().await, model.describe_all().await, "at the end");
    assert_eq!(model.store_harness.find("absent").await, None);
}

/// A long run is for the nightly check; a short one is for every change.
#[expect(clippy::disallowed_methods, reason = "how long a test runs is no setting of the program")]
fn cases() -> u32 {
    if std::env::var("SCRIP_TEST_LONG").is_ok() { 640 } else { 64 }
}

#[test]
fn random_operations_on_sqlite_match_the_model() {
    check_agreement(Engine::Sqlite);
}

#[test]
fn random_operations_on_postgres_match_the_model() {
    check_agreement(Engine::Postgres);
}

fn check_agreement(engine: Engine) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // A database for each, which takes longer than all that is done in it.
    let cases = if matches!(engine, Engine::Postgres) { cases() / 4 } else { cases() };
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&vec(token_step(), 40), |steps| {
        runtime.block_on(compare_with_model(engine, steps));
        Ok(())
    });
    outcome.unwrap();
}
