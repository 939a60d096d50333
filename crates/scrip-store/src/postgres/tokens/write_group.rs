//! Writes of one tenant that share a transaction.
//!
//! Those that have nothing to do with each other, nor with what is there, are put by one statement
//! for each table. Every other is done by itself behind a savepoint, so that its refusal or its
//! error touches nobody else. Nobody hears of success before the commit; should that fail, all of
//! them hear so.

use std::collections::HashSet;

use scrip_core::{
    audit::LogKind,
    id::{TenantId, TokenId},
    idempotency::IdempotencyRecord,
    metrics::WriterMetrics,
    store::{CommitExtras, StoreError},
    token::{
        BatchOutcome, Deduplicate, InsertToken, StoredTokenIntent, TokenBatch, TokenWrite,
        WriteOutcome,
    },
};
use scrip_seal::Fingerprint;

use crate::{
    postgres::{
        engine::{
            pool::ConnectionPool,
            tenant_lock::TenantLog,
            transaction::{CommitError, PostgresTransaction},
            write_queue::{Drain, QueuedWrite, Reply, TenantQueues},
            write_set::{ConflictLookup, WriteSet, conflicting},
        },
        maintenance::idempotency::PendingIdempotencyRecord,
        tokens::intents::insert_token_intent,
    },
    shared::{
        clone_error,
        idempotency::insert_idempotency_record,
        tokens::writes::{BatchAttempt, check_permit, write_tokens},
    },
};

/// As many as there are clients on a busy node; more would only make the first wait for the last.
const GROUP_MAX: usize = 64;
/// Writes that are done one by one in a transaction. What is left then is the next one's: a tenant
/// is not held for longer.
const INDIVIDUAL_MAX: usize = 128;

/// One write that is kept as a whole or not at all.
pub(crate) enum AtomicWrite {
    Tokens(Vec<TokenWrite>, PendingIdempotencyRecord),
    Intent(Box<StoredTokenIntent>, CommitExtras),
}

type GroupMember = QueuedWrite<AtomicWrite, BatchOutcome>;

/// What one is told after the commit.
type PendingReply = (Reply<BatchOutcome>, Result<BatchOutcome, StoreError>);

#[derive(Debug)]
pub(crate) struct TokenWriteQueue {
    waiting: TenantQueues<AtomicWrite, BatchOutcome>,
    pool: ConnectionPool,
}

impl TokenWriteQueue {
    pub(crate) fn new(pool: ConnectionPool) -> Self {
        Self { waiting: TenantQueues::default(), pool }
    }

    pub(crate) async fn write_tokens(
        &self,
        tenant: TenantId,
        batch: TokenBatch,
    ) -> Result<BatchOutcome, StoreError> {
        let body = |it: &TokenWrite| match it {
            TokenWrite::Insert(it) => it.token.record.body.as_bytes().len(),
            TokenWrite::Update(it) => it.token.body.as_bytes().len(),
        };
        let bytes = batch.writes.iter().map(body).sum();
        let work =
            AtomicWrite::Tokens(batch.writes, PendingIdempotencyRecord::new(batch.build_record));
        let pool = self.pool.clone();
        self.waiting.submit_and_wait(tenant, work, bytes, |turn| drain_queue(turn, pool)).await
    }

    pub(crate) async fn insert_token_intent(
        &self,
        tenant: TenantId,
        intent: StoredTokenIntent,
        extras: CommitExtras,
    ) -> Result<(), StoreError> {
        let bytes = intent.record.body.as_bytes().len();
        let work = AtomicWrite::Intent(Box::new(intent), extras);
        let pool = self.pool.clone();
        self.waiting
            .submit_and_wait(tenant, work, bytes, |turn| drain_queue(turn, pool))
            .await
            .map(drop)
    }

    pub(crate) fn metrics(&self) -> WriterMetrics {
        // Called as the embedded engine's is, so that one dashboard does for both.
        self.waiting.metrics("vault")
    }
}

async fn drain_queue(mut drain: Drain<AtomicWrite, BatchOutcome>, pool: ConnectionPool) {
    while let Some(members) = drain.next_batch(GROUP_MAX) {
        let size = members.len();
        let mut group = WriteGroup::new(members, drain.tenant);
        let mut ended = group.write(&pool, drain.tenant).await;
        if let Err(CommitError::RowsRejected) = ended {
            group.make_individual();
            ended = group.write(&pool, drain.tenant).await;
        }
        let left = if ended.is_ok() { std::mem::take(&mut group.individual) } else { Vec::new() };
        // Before anybody hears of it: whoever then asks finds his write counted.
        drain.count_batch(ended.is_ok().then_some(size.saturating_sub(left.len())));
        for (reply, outcome) in group.into_replies(ended) {
            // A client that has gone away does not want to hear it; the effect stays.
            drop(reply.send(outcome));
        }
        drain.requeue(left);
    }
}

/// Those that share a transaction.
struct WriteGroup {
    /// Put as a set.
    grouped: Vec<GroupMember>,
    individual: Vec<GroupMember>,
    /// What is known of those that are done, should the transaction be committed.
    replies: Vec<PendingReply>,
}

impl WriteGroup {
    fn new(members: Vec<GroupMember>, tenant: TenantId) -> Self {
        let mut conflict_set =
            ConflictSet { tenant, ids: HashSet::new(), fingerprints: HashSet::new() };
        let (plain, alone) = members.into_iter().partition(|it| conflict_set.try_add(&it.work));
        Self { grouped: plain, individual: alone, replies: Vec::new() }
    }

    /// Each by itself, from now on.
    fn make_individual(&mut self) {
        self.individual.append(&mut self.grouped);
    }

    /// Some of those that are done alone may be left.
    async fn write(&mut self, pool: &ConnectionPool, tenant: TenantId) -> Result<(), CommitError> {
        let mut it = self.begin(pool, tenant).await?;
        if let Err(error) = it.check_tenant_exists() {
            it.roll_back().await?;
            return Err(CommitError::Failed(error));
        }
        self.build_idempotency_records();
        let outcomes = match (self.grouped.as_slice(), self.individual.as_mut_slice()) {
            ([], [lone]) => vec![write_individual(it, &mut lone.work).await?],
            (plain, []) => {
                let write_set = build_write_set(&mut it, plain);
                it.commit_with(&write_set).await?;
                Vec::new()
            }
            (plain, alone) => {
                let write_set = build_write_set(&mut it, plain);
                it.put(&write_set).await?;
                let (mut outcomes, mut writes) = (Vec::with_capacity(alone.len()), 0_usize);
                for member in alone {
                    if writes >= INDIVIDUAL_MAX {
                        break;
                    }
                    writes = writes.saturating_add(member.work.write_count());
                    outcomes.push(write_in_savepoint(&mut it, &mut member.work).await?);
                }
                it.commit().await?;
                outcomes
            }
        };
        let done = self.individual.drain(..outcomes.len());
        self.replies.extend(done.map(|it| it.reply).zip(outcomes));
        self.replies
            .extend(self.grouped.drain(..).map(|it| (it.reply, Ok(it.work.written_result()))));
        Ok(())
    }

    /// Those that have something in their way are put aside.
    async fn begin(
        &mut self,
        pool: &ConnectionPool,
        tenant: TenantId,
    ) -> Result<PostgresTransaction, StoreError> {
        let all = self.grouped.iter().chain(&self.individual);
        let tokens = all.map(|it| it.work.numbers_needed()).sum();
        let mut conflicts = ConflictLookup::default();
        for (at, member) in self.grouped.iter().enumerate() {
            member.work.inserts().for_each(|it| conflicts.add(at, it));
        }
        let parameters = conflicts.parameters(&tenant.0);
        let query = conflicts.query(&parameters);
        let (it, rows) = PostgresTransaction::begin_with_query(
            pool,
            TenantLog { log: LogKind::Audit, tenant },
            tokens,
            query,
        )
        .await?;
        let conflicting = conflicting(&rows)?;
        for (at, member) in std::mem::take(&mut self.grouped).into_iter().enumerate() {
            let place =
                if conflicting.contains(&at) { &mut self.individual } else { &mut self.grouped };
            place.push(member);
        }
        Ok(it)
    }

    /// What became of those that are left is known: all of them are new.
    fn build_idempotency_records(&mut self) {
        let mut digests = HashSet::new();
        for mut member in std::mem::take(&mut self.grouped) {
            let tokens = member.work.inserts().count();
            let fits = |answer: &IdempotencyRecord| {
                answer.token_data.iter().all(|it| it.write_index < tokens)
                    && digests.insert(answer.digest)
            };
            match member.work.build_idempotency_record().map(|it| it.is_none_or(fits)) {
                Ok(true) => self.grouped.push(member),
                // Another of the set answers the same request: one of them comes second.
                Ok(false) => self.individual.push(member),
                Err(error) => self.replies.push((member.reply, Err(error))),
            }
        }
    }

    /// What everybody hears.
    fn into_replies(self, committed: Result<(), CommitError>) -> Vec<PendingReply> {
        let Err(ended) = committed else { return self.replies };
        let error = ended.into_store_error();
        let done = self.replies.into_iter().map(|(reply, _)| reply);
        let undone = self.grouped.into_iter().chain(self.individual).map(|it| it.reply);
        done.chain(undone).map(|reply| (reply, Err(clone_error(&error)))).collect()
    }
}

/// Tokens one by one. Whoever calls takes back what a refused batch did.
async fn write_batch(
    it: &mut PostgresTransaction,
    writes: &[TokenWrite],
    answer: &mut PendingIdempotencyRecord,
) -> Result<BatchOutcome, StoreError> {
    let tenant = it.tenant;
    let BatchAttempt { outcome: batched, numbers } = write_tokens(it, tenant, writes).await?;
    if let BatchOutcome::Written(outcomes) = &batched
        && let Some(answer) = answer.build_for(outcomes)?
    {
        insert_idempotency_record(it, tenant, answer, &numbers).await?;
    }
    Ok(batched)
}

/// Nobody else is in the transaction.
async fn write_individual(
    mut it: PostgresTransaction,
    work: &mut AtomicWrite,
) -> Result<Result<BatchOutcome, StoreError>, StoreError> {
    let outcome = work.attempt(&mut it).await;
    match &outcome {
        Ok(BatchOutcome::Written(_)) => it.commit().await?,
        Ok(BatchOutcome::Rejected(_)) => it.roll_back().await?,
        // Should this fail, too, the connection is closed, and all is taken back as well.
        Err(_) => drop(it.roll_back().await),
    }
    Ok(outcome)
}

/// The others of the transaction know nothing of it.
async fn write_in_savepoint(
    it: &mut PostgresTransaction,
    work: &mut AtomicWrite,
) -> Result<Result<BatchOutcome, StoreError>, StoreError> {
    let savepoint = it.savepoint().await?;
    let outcome = work.attempt(it).await;
    match &outcome {
        Ok(BatchOutcome::Written(_)) => it.release(savepoint).await?,
        Ok(BatchOutcome::Rejected(_)) | Err(_) => it.roll_back_to(savepoint).await?,
    }
    Ok(outcome)
}

/// Their rows, numbered, recorded and counted.
fn build_write_set<'a>(it: &mut PostgresTransaction, members: &'a [GroupMember]) -> WriteSet<'a> {
    let mut write_set = WriteSet::default();
    for member in members {
        let mut numbers = Vec::new();
        for insert in member.work.inserts() {
            let record = &insert.token.record;
            let number = it.next_number();
            numbers.push(number);
            write_set.add_token(number, &insert.token);
            it.usage.count_created(it.tenant, record.token_type, record.created_at);
            it.append_record(&insert.audit, record.id.as_str(), CREATED);
        }
        if let AtomicWrite::Intent(intent, written) = &member.work {
            write_set.add_intent(intent);
            it.append_record(&written.audit, &written.entity, CREATED);
        }
        if let Some(answer) = member.work.built_idempotency_record() {
            write_set.add_idempotency_record(answer, numbers);
        }
    }
    write_set
}

const CREATED: &str = "created";

/// Those that are in a set so far.
struct ConflictSet {
    tenant: TenantId,
    ids: HashSet<TokenId>,
    fingerprints: HashSet<[u8; 32]>,
}

impl ConflictSet {
    /// Only inserts, none of which could meet another one of the set.
    fn try_add(&mut self, work: &AtomicWrite) -> bool {
        match work {
            AtomicWrite::Intent(..) => true,
            AtomicWrite::Tokens(writes, _) => writes.iter().all(|it| match it {
                TokenWrite::Insert(it) => self.try_add_insert(it),
                TokenWrite::Update(_) => false,
            }),
        }
    }

    fn try_add_insert(&mut self, insert: &InsertToken) -> bool {
        let record = &insert.token.record;
        let is_first = |it: Fingerprint| self.fingerprints.insert(it.0);
        let is_other = record.fingerprint.is_none_or(is_first);
        insert.intent.is_none()
            && check_permit(insert.permit.tenant().id, self.tenant).is_ok()
            && (is_other || insert.deduplicate == Deduplicate::No)
            && self.ids.insert(record.id.clone())
    }
}

impl AtomicWrite {
    fn inserts(&self) -> impl Iterator<Item = &InsertToken> {
        let writes = match self {
            Self::Tokens(writes, _) => writes.as_slice(),
            Self::Intent(..) => &[],
        };
        writes.iter().filter_map(|it| match it {
            TokenWrite::Insert(it) => Some(it),
            TokenWrite::Update(_) => None,
        })
    }

    fn write_count(&self) -> usize {
        match self {
            Self::Tokens(writes, _) => writes.len(),
            Self::Intent(..) => 1,
        }
    }

    /// How many numbers it may need: an id that has expired is tried twice.
    fn numbers_needed(&self) -> usize {
        self.inserts().count().saturating_mul(2)
    }

    async fn attempt(&mut self, it: &mut PostgresTransaction) -> Result<BatchOutcome, StoreError> {
        match self {
            Self::Tokens(writes, answer) => write_batch(it, writes, answer).await,
            Self::Intent(intent, written) => {
                insert_token_intent(it, intent, written).await?;
                Ok(BatchOutcome::Written(Vec::new()))
            }
        }
    }

    /// Of one that is put in a set.
    fn written_result(&self) -> BatchOutcome {
        BatchOutcome::Written(self.inserts().map(|_| WriteOutcome::New).collect())
    }

    fn build_idempotency_record(&mut self) -> Result<Option<&IdempotencyRecord>, StoreError> {
        let new: Vec<_> = self.inserts().map(|_| WriteOutcome::New).collect();
        match self {
            Self::Tokens(_, answer) => answer.build_for(&new),
            Self::Intent(_, written) => Ok(written.idempotency.as_ref()),
        }
    }

    /// The answer, once it was made.
    fn built_idempotency_record(&self) -> Option<&IdempotencyRecord> {
        match self {
            Self::Tokens(_, PendingIdempotencyRecord::Built(_, answer)) => answer.as_ref(),
            Self::Tokens(
                _,
                PendingIdempotencyRecord::None
                | PendingIdempotencyRecord::NotBuilt(_)
                | PendingIdempotencyRecord::Panicked,
            ) => None,
            Self::Intent(_, written) => written.idempotency.as_ref(),
        }
    }
}
