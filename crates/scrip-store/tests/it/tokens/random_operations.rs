//! Random operations on the in-memory model and on an engine: every step has the same outcome.

use std::{sync::Arc, time::Duration};

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use scrip_core::{
    audit::LogKind,
    card::TokenType,
    disclosure::Deduplicate,
    idempotency::{ClaimOutcome, ResponseTokenData},
    operations::logs::prune_logs::prune_logs,
    policy::PolicyPermit,
    read_log::{ReadLogBatch, ReadLogEntry},
    token::{StoredToken, TokenRecord},
    token_batch::{
        BuildIdempotencyRecord, CvcChange, InsertToken, TokenBatch, TokenWrite, UpdateToken,
    },
    types::{Operation, Permission, Transform, time::Month},
};
use scrip_seal::{Fingerprint, IndexDigest, Sealed};
use scrip_testing::{
    store_harness::{
        DEDUPLICATE, REPORT_EXISTING, StoreHarness, cvc_record, no_events, token_record,
    },
    vault_harness::{Engine, containers, token_id},
};
use uuid::Uuid;

use crate::listing::complete_lists::describe_all_lists;

/// Few ids and few lists of containers, so that the operations of a case concern the same tokens.
const IDS: [&str; 4] = ["one", "two", "three", "four"];
const CONTAINERS: [&[&str]; 4] = [&["/a/"], &["/a/", "/b/"], &["/b/", "/a/"], &["/"]];

#[derive(Debug, Clone)]
struct GeneratedToken {
    /// An index into `IDS`.
    id: usize,
    is_card: bool,
    fingerprint: Option<u8>,
    /// An index into `CONTAINERS`.
    containers: usize,
    lifetime_minutes: Option<u32>,
    deduplicate: Deduplicate,
    is_in_response: bool,
    /// An insert has a CVC unless this is 0. An update keeps (0), removes (1) or replaces (2) the
    /// CVC.
    cvc_choice: u8,
    body: u8,
}

#[derive(Debug, Clone)]
enum GeneratedWrite {
    Insert(GeneratedToken),
    /// The number is the offset of the writer's revision from the current revision, usually 0.
    Update(GeneratedToken, i64),
}

#[derive(Debug, Clone)]
enum TokenStep {
    /// Writes a batch, optionally with the idempotency key of this number.
    Batch(Vec<GeneratedWrite>, Option<u8>),
    /// Deletes a token. The second number is the offset from its current revision.
    Delete(usize, i64),
    Find(usize),
    /// Finds a token and records the read, like `GET /tokens/{id}`.
    Read(usize),
    List,
    /// Claims the idempotency key of this number.
    Claim(u8),
    AdvanceMinutes(u32),
    /// Deletes the responses that are older than this many minutes, at least a day.
    DeleteResponses(u32),
    /// Deletes the tokens and CVCs that expired at least this many minutes ago, and old usage
    /// counters.
    Sweep(u32),
    /// Records this many reads in one batch.
    RecordReads(u8),
    /// Prunes records past their retention.
    Prune,
    /// Continues with the other tenant.
    SwitchTenant,
}

fn token_strategy() -> impl Strategy<Value = GeneratedToken> {
    let identity = (0..IDS.len(), any::<bool>(), proptest::option::weighted(0.8, 0..3_u8));
    let deduplicate = prop_oneof![
        3 => Just(Deduplicate::No),
        3 => Just(DEDUPLICATE),
        1 => Just(REPORT_EXISTING),
    ];
    let storage = (0..CONTAINERS.len(), proptest::option::weighted(0.4, 1..10_u32), deduplicate);
    let extras = (any::<bool>(), 0..3_u8, any::<u8>());
    (identity, storage, extras).prop_map(|(identity, storage, extras)| GeneratedToken {
        id: identity.0,
        is_card: identity.1,
        fingerprint: identity.2,
        containers: storage.0,
        lifetime_minutes: storage.1,
        deduplicate: storage.2,
        is_in_response: extras.0,
        cvc_choice: extras.1,
        body: extras.2,
    })
}

fn revision_offset_strategy() -> impl Strategy<Value = i64> {
    prop_oneof![8 => Just(0_i64), 1 => Just(1), 1 => Just(-1)]
}

fn write_strategy() -> impl Strategy<Value = GeneratedWrite> {
    prop_oneof![
        6 => token_strategy().prop_map(GeneratedWrite::Insert),
        4 => (token_strategy(), revision_offset_strategy())
            .prop_map(|(token, offset)| GeneratedWrite::Update(token, offset)),
    ]
}

fn step_strategy() -> impl Strategy<Value = TokenStep> {
    let key = || proptest::option::of(0..6_u8);
    prop_oneof![
        6 => (vec(write_strategy(), 1), key())
            .prop_map(|(writes, key)| TokenStep::Batch(writes, key)),
        6 => (vec(write_strategy(), 0..5), key())
            .prop_map(|(writes, key)| TokenStep::Batch(writes, key)),
        2 => (0..IDS.len(), revision_offset_strategy())
            .prop_map(|(id, offset)| TokenStep::Delete(id, offset)),
        2 => (0..IDS.len()).prop_map(TokenStep::Find),
        2 => (0..IDS.len()).prop_map(TokenStep::Read),
        2 => Just(TokenStep::List),
        3 => (0..6_u8).prop_map(TokenStep::Claim),
        2 => (1..6_u32).prop_map(TokenStep::AdvanceMinutes),
        1 => (20 * 60..25 * 60_u32).prop_map(TokenStep::AdvanceMinutes),
        // Usually into another month or year.
        1 => (20 * DAY_MINUTES..80 * DAY_MINUTES).prop_map(TokenStep::AdvanceMinutes),
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

/// Applies the steps of a case to one engine.
struct TokenStepRunner {
    store_harness: StoreHarness,
    uses_second_tenant: bool,
}

impl TokenStepRunner {
    fn key_digest(&self, number: u8) -> [u8; 32] {
        let mut digest = [number; 32];
        // In a vault, the digests of two tenants differ because each tenant has its own key.
        digest[0] = u8::from(self.uses_second_tenant);
        digest
    }

    fn build_token_record(&self, it: &GeneratedToken) -> TokenRecord {
        TokenRecord {
            token_type: if it.is_card { TokenType::Card } else { TokenType::Token },
            fingerprint: it.fingerprint.map(|it| Fingerprint([it; 32])),
            containers: containers(CONTAINERS[it.containers]),
            created_at: self.store_harness.now(),
            indexes: vec![IndexDigest([it.body % 3; 16]), IndexDigest([8 + it.cvc_choice; 16])],
            expires_at: it.lifetime_minutes.map(|it| self.store_harness.now().plus(minutes(it))),
            body: Sealed::from_stored(vec![it.body]),
            ..token_record(IDS[it.id])
        }
    }

    /// Returns a builder of an idempotency record with data for some of the writes.
    fn idempotency_record_builder(
        &self,
        writes: &[GeneratedWrite],
        key: u8,
    ) -> BuildIdempotencyRecord {
        let mut response = self.store_harness.idempotency_record(self.key_digest(key));
        let response_attributes = |it: &GeneratedWrite| match it {
            GeneratedWrite::Insert(it) | GeneratedWrite::Update(it, _) => {
                (it.is_in_response, it.body)
            }
        };
        response.head =
            Sealed::from_stored(writes.iter().map(|it| response_attributes(it).1).collect());
        let token_data = |(write_index, it): (usize, &GeneratedWrite)| {
            let (is_in_response, body) = response_attributes(it);
            is_in_response
                .then(|| ResponseTokenData { write_index, sealed: Sealed::from_stored(vec![body]) })
        };
        response.token_data = writes.iter().enumerate().filter_map(token_data).collect();
        Box::new(move |_| Some(response))
    }

    fn build_insert(&self, it: &GeneratedToken) -> TokenWrite {
        let cvc = (it.cvc_choice > 0).then(|| cvc_record(&it.cvc_choice.to_string()));
        TokenWrite::Insert(InsertToken {
            intent: None,
            permit: self.store_harness.permit(Permission::TokenCreate),
            token: StoredToken { record: self.build_token_record(it), cvc },
            deduplicate: it.deduplicate,
            audit: self.store_harness.audit(Operation::CreateToken),
            events: no_events(),
        })
    }

    /// Builds an update of the token as it was before the batch. Earlier writes of the batch are
    /// ignored.
    async fn build_update(&self, it: &GeneratedToken, revision_offset: i64) -> TokenWrite {
        let stored = self.store_harness.find(IDS[it.id]).await.map(|it| it.record);
        let missing_token = || TokenRecord { revision: 1000, ..self.build_token_record(it) };
        let stored = stored.unwrap_or_else(missing_token);
        let updated = TokenRecord {
            token_type: stored.token_type,
            revision: stored.revision + 1 + revision_offset,
            created_at: stored.created_at,
            ..self.build_token_record(it)
        };
        let cvc = match it.cvc_choice {
            0 => CvcChange::Keep,
            1 => CvcChange::Remove,
            _ => CvcChange::Replace(cvc_record(&it.body.to_string())),
        };
        TokenWrite::Update(UpdateToken {
            intent: None,
            permit: self.store_harness.permit(Permission::TokenUpdate),
            token: updated,
            cvc,
            deduplicate: it.deduplicate,
            reject_if_in_session_at: None,
            audit: self.store_harness.audit(Operation::UpdateToken),
            events: no_events(),
        })
    }

    async fn write_batch(&self, generated: &[GeneratedWrite], key: Option<u8>) -> String {
        let mut writes = Vec::new();
        for write in generated {
            writes.push(match write {
                GeneratedWrite::Insert(it) => self.build_insert(it),
                GeneratedWrite::Update(it, revision_offset) => {
                    self.build_update(it, *revision_offset).await
                }
            });
        }
        let batch = TokenBatch {
            writes,
            build_record: key.map(|it| self.idempotency_record_builder(generated, it)),
        };
        format!(
            "{:?}",
            self.store_harness
                .store()
                .write_tokens(self.store_harness.lookup_permit(), batch)
                .await
        )
    }

    /// Looks up several ids at once, with a missing one and a repeated one.
    async fn find_several(&self) -> String {
        let lookup = self.store_harness.caller.permit_lookup(Permission::TokenRead).unwrap();
        let ids = ["four", "absent", "one", "two", "one"].map(token_id);
        let outcome =
            self.store_harness.store().find_tokens(lookup, &ids, self.store_harness.now()).await;
        format!("{outcome:?}")
    }

    async fn delete(&self, id: &str, revision_offset: i64) -> String {
        let revision = self.store_harness.find(id).await.map_or(0, |it| it.record.revision);
        format!("{:?}", self.store_harness.delete(id, revision + revision_offset).await)
    }

    /// Drops the claim immediately: this test has no concurrent requests.
    async fn claim(&self, number: u8) -> String {
        match self.store_harness.claim_digest(self.key_digest(number)).await {
            ClaimOutcome::Claimed(_) => "claimed".to_owned(),
            outcome @ (ClaimOutcome::Completed(_) | ClaimOutcome::InFlight) => {
                format!("{outcome:?}")
            }
        }
    }

    async fn record_reads(&self, count: u8) -> String {
        let entries = (0..count).map(|it| ReadLogEntry::new(it.to_string(), "revealed")).collect();
        let vault = &self.store_harness.vault_harness.vault;
        vault
            .record_reads(&self.store_harness.caller, Operation::Detokenize, entries)
            .await
            .unwrap();
        self.describe_logs().await
    }

    async fn prune(&self) -> String {
        let (vault, directory) = (
            &self.store_harness.vault_harness.vault,
            self.store_harness.vault_harness.directory().await,
        );
        for chain in prune_logs(vault, &directory).await.unwrap() {
            while vault.store.prune_chain(chain.clone()).await.unwrap() > 0 {}
        }
        self.describe_logs().await
    }

    /// Describes the records of this tenant without ids and links, which differ between vaults.
    async fn describe_logs(&self) -> String {
        let mut description = String::new();
        for log in LogKind::ALL {
            let tenant = self.store_harness.caller.tenant().id;
            for it in self.store_harness.store().list_records(log, tenant, 0, 10_000).await.unwrap()
            {
                let entity = Uuid::try_parse(&it.entity).map_or(&*it.entity, |_| "an id");
                let texts = [&*it.actor_kind, &it.operation, entity, &it.outcome, &it.trace];
                description += &format!("{log:?} {} {} {texts:?}\n", it.sequence, it.at);
            }
            let chains = self.store_harness.store().list_chains(log).await.unwrap();
            let mut chain_summaries: Vec<_> =
                chains.iter().map(|it| (it.head.sequence, it.oldest_at)).collect();
            chain_summaries.sort();
            description += &format!("{chain_summaries:?}\n");
        }
        description
    }

    async fn describe_all(&self) -> String {
        let mut description = String::new();
        for id in IDS {
            description += &format!("{:?}\n", self.store_harness.find(id).await);
        }
        description += &self.find_several().await;
        for number in 0..6 {
            description += &self.claim(number).await;
        }
        description += &self.flush_and_describe_usage().await;
        description + &describe_all_lists(&self.store_harness).await + &self.describe_logs().await
    }

    async fn read_token(&self, id: &str) -> String {
        let found = self.store_harness.find(id).await;
        let entries = found.iter().map(|it| ReadLogEntry::for_token(&it.record, Transform::Mask));
        self.record_read_log(entries.collect()).await;
        self.flush_and_describe_usage().await
    }

    async fn record_read_log(&self, entries: Vec<ReadLogEntry>) {
        let (tenant, audit) =
            (self.store_harness.caller.tenant().id, self.store_harness.audit(Operation::GetToken));
        self.store_harness
            .store()
            .append_read_log(ReadLogBatch { tenant, audit, entries, deliveries: Vec::new() })
            .await
            .unwrap();
    }

    /// Appends an entry to the read log first: with this entry, the store also writes the queued
    /// token activity.
    async fn flush_and_describe_usage(&self) -> String {
        self.record_read_log(vec![ReadLogEntry::new("", "empty")]).await;
        let permit =
            PolicyPermit::for_operator(Arc::clone(self.store_harness.caller.principal().tenant()));
        let month = Month::from_timestamp(self.store_harness.now());
        let usage = self.store_harness.store().find_usage(&permit, month).await.unwrap();
        format!("{usage:?}")
    }

    async fn apply_step(mut self, step: &TokenStep) -> (Self, String) {
        let outcome = match step {
            TokenStep::Batch(writes, key) => self.write_batch(writes, *key).await,
            TokenStep::Delete(id, revision_offset) => self.delete(IDS[*id], *revision_offset).await,
            TokenStep::List => describe_all_lists(&self.store_harness).await,
            TokenStep::Read(id) => self.read_token(IDS[*id]).await,
            TokenStep::Find(id) => format!("{:?}", self.store_harness.find(IDS[*id]).await),
            TokenStep::Claim(number) => self.claim(*number).await,
            TokenStep::AdvanceMinutes(count) => {
                self.store_harness.advance(minutes(*count));
                self.describe_all().await
            }
            TokenStep::DeleteResponses(age) => {
                let cutoff = self
                    .store_harness
                    .now()
                    .minus(minutes(*age).max(scrip_testing::store_harness::DAY));
                format!("{:?}", self.store_harness.store().delete_expired_responses(cutoff).await)
            }
            TokenStep::Sweep(age) => {
                let cutoff = self.store_harness.now().minus(minutes(*age));
                let deleted_counts = (
                    self.store_harness.delete_expired_tokens(cutoff).await,
                    self.store_harness.erase_expired_cvcs(cutoff).await,
                );
                let month = Month::from_timestamp(self.store_harness.now());
                let usage = (
                    self.flush_and_describe_usage().await,
                    self.store_harness.delete_old_usage(month).await,
                );
                format!(
                    "{deleted_counts:?} {usage:?} {:?} {}",
                    self.store_harness.row_counts().await,
                    self.flush_and_describe_usage().await
                )
            }
            TokenStep::RecordReads(count) => self.record_reads(*count).await,
            TokenStep::Prune => self.prune().await,
            TokenStep::SwitchTenant => {
                self = Self {
                    store_harness: self.store_harness.with_callers_swapped(),
                    uses_second_tenant: !self.uses_second_tenant,
                };
                self.describe_all().await
            }
        };
        (self, outcome)
    }
}

async fn compare_with_model(engine: Engine, steps: Vec<TokenStep>) {
    let open_runner = async |engine| TokenStepRunner {
        store_harness: StoreHarness::open(engine).await,
        uses_second_tenant: false,
    };
    let (mut model_runner, mut engine_runner) =
        (open_runner(Engine::Memory).await, open_runner(engine).await);
    for (index, step) in steps.iter().enumerate() {
        let (expected, actual);
        (model_runner, expected) = model_runner.apply_step(step).await;
        (engine_runner, actual) = engine_runner.apply_step(step).await;
        assert_eq!(actual, expected, "step {index}: {step:?}");
    }
    assert_eq!(
        engine_runner.describe_all().await,
        model_runner.describe_all().await,
        "after all steps"
    );
    assert_eq!(model_runner.store_harness.find("absent").await, None);
}

/// The number of cases: few by default, many in the nightly run.
#[expect(clippy::disallowed_methods, reason = "a test's length is not a setting of the program")]
fn case_count(default: u32) -> u32 {
    if std::env::var("SCRIP_TEST_LONG").is_ok() { 10 * default } else { default }
}

#[test]
fn random_operations_on_sqlite_match_the_model() {
    run_random_steps(Engine::Sqlite, 64, vec(step_strategy(), 40), compare_with_model);
}

#[test]
fn random_operations_on_postgres_match_the_model() {
    run_random_steps(Engine::Postgres, 64, vec(step_strategy(), 40), compare_with_model);
}

/// Runs each case on an engine with a new vault.
pub(crate) fn run_random_steps<S: std::fmt::Debug>(
    engine: Engine,
    cases: u32,
    steps: impl Strategy<Value = Vec<S>>,
    check: impl AsyncFn(Engine, Vec<S>),
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Each case creates a database, which takes longer than the steps themselves.
    let divisor = if matches!(engine, Engine::Postgres) { 4 } else { 1 };
    let cases = case_count(cases) / divisor;
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        runtime.block_on(check(engine, steps));
        Ok(())
    });
    outcome.unwrap();
}
