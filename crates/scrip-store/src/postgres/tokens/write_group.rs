//! Group commit of one tenant's writes.
//!
//! Writes without a conflict, neither with each other nor with stored tokens, are inserted with one
//! statement per table. Every other write runs individually in a savepoint, so that its rejection
//! or error does not affect the others. Success is reported only after the commit; if the commit
//! fails, all writes of the group fail.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use scrip_core::{
    audit::LogKind,
    change::CommitExtras,
    disclosure::Deduplicate,
    idempotency::IdempotencyRecord,
    token::StoredTokenIntent,
    token_batch::{
        BatchOutcome, BuildIdempotencyRecord, InsertToken, TokenBatch, TokenWrite, WriteOutcome,
    },
    types::{
        StoreError,
        id::{TenantId, TokenId},
        metrics::WriterMetrics,
    },
};
use scrip_seal::Fingerprint;

use crate::{
    postgres::{
        engine::{
            error::unavailable,
            pool::ConnectionPool,
            tenant_lock::TenantLog,
            transaction::{CommitError, PostgresTransaction},
            write_queue::{Drain, QueuedWrite, Reply, TenantQueues},
            write_set::{ConflictLookup, WriteSet, decode_conflicts},
        },
        tokens::writes::insert_token_intent,
    },
    shared::{
        clone_error,
        idempotency::insert_idempotency_record,
        tokens::writes::{BatchAttempt, check_permit, sealed_body, write_tokens},
    },
    sql::{KeyVersions, SealedAge},
};

/// Maximum number of writes per group: about the number of clients of a busy node. A larger group
/// only delays the first write until the last one is done.
const GROUP_MAX: usize = 64;
/// Maximum number of individual writes per transaction. The remaining writes wait for the next
/// transaction, which limits how long the tenant is locked.
const INDIVIDUAL_MAX: usize = 128;

/// A write that is committed completely or not at all.
pub(crate) enum AtomicWrite {
    Tokens(Vec<TokenWrite>, PendingIdempotencyRecord),
    Intent(Box<StoredTokenIntent>, CommitExtras),
}

type GroupMember = QueuedWrite<AtomicWrite, BatchOutcome>;

/// A result and its channel, sent after the commit.
type PendingReply = (Reply<BatchOutcome>, Result<BatchOutcome, StoreError>);

#[derive(Debug)]
pub(crate) struct TokenWriteQueue {
    queues: TenantQueues<AtomicWrite, BatchOutcome>,
    pool: ConnectionPool,
}

impl TokenWriteQueue {
    pub(crate) fn new(pool: ConnectionPool) -> Self {
        Self { queues: TenantQueues::default(), pool }
    }

    pub(crate) async fn write_tokens(
        &self,
        tenant: TenantId,
        batch: TokenBatch,
    ) -> Result<BatchOutcome, StoreError> {
        let body_size = |it: &TokenWrite| sealed_body(it).as_bytes().len();
        let bytes = batch.writes.iter().map(body_size).sum();
        let work =
            AtomicWrite::Tokens(batch.writes, PendingIdempotencyRecord::new(batch.build_record));
        let pool = self.pool.clone();
        self.queues.submit_and_wait(tenant, work, bytes, |drain| drain_queue(drain, pool)).await
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
        self.queues
            .submit_and_wait(tenant, work, bytes, |drain| drain_queue(drain, pool))
            .await
            .map(drop)
    }

    pub(crate) fn metrics(&self) -> WriterMetrics {
        // Same name as in SQLite, so that one dashboard fits both engines.
        self.queues.metrics("vault")
    }
}

async fn drain_queue(mut drain: Drain<AtomicWrite, BatchOutcome>, pool: ConnectionPool) {
    while let Some(members) = drain.next_group(GROUP_MAX) {
        let size = members.len();
        let mut group = WriteGroup::new(members, drain.tenant);
        let mut result = group.write(&pool, drain.tenant).await;
        if let Err(CommitError::RowsRejected) = result {
            group.make_individual();
            result = group.write(&pool, drain.tenant).await;
        }
        let remaining =
            if result.is_ok() { std::mem::take(&mut group.individual) } else { Vec::new() };
        // Counted before the reply, so that a client that has its reply finds its write in the
        // metrics.
        drain.count_transaction(result.is_ok().then_some(size.saturating_sub(remaining.len())));
        for (reply, outcome) in group.into_replies(result) {
            // The client may have disconnected; the effect stays.
            drop(reply.send(outcome));
        }
        drain.requeue(remaining);
    }
}

/// Writes that share a transaction.
struct WriteGroup {
    /// Inserted as one write set.
    grouped: Vec<GroupMember>,
    individual: Vec<GroupMember>,
    /// Results of the finished writes, valid if the transaction commits.
    replies: Vec<PendingReply>,
}

impl WriteGroup {
    fn new(members: Vec<GroupMember>, tenant: TenantId) -> Self {
        let mut conflict_set =
            ConflictSet { tenant, ids: HashSet::new(), fingerprints: HashSet::new() };
        let (grouped, individual) =
            members.into_iter().partition(|it| conflict_set.try_add(&it.work));
        Self { grouped, individual, replies: Vec::new() }
    }

    /// Moves all writes to individual execution.
    fn make_individual(&mut self) {
        self.individual.append(&mut self.grouped);
    }

    /// Writes the group in one transaction. Individual writes may remain for the next transaction.
    async fn write(&mut self, pool: &ConnectionPool, tenant: TenantId) -> Result<(), CommitError> {
        let mut transaction = self.begin(pool, tenant).await?;
        if let Err(error) = transaction.stored_key_versions() {
            transaction.roll_back().await?;
            return Err(CommitError::Failed(error));
        }
        self.build_idempotency_records();
        let outcomes = match (self.grouped.as_slice(), self.individual.as_mut_slice()) {
            ([], [member]) => vec![write_individual(transaction, &mut member.work).await?],
            (grouped, []) => {
                let write_set = build_write_set(&mut transaction, grouped)?;
                transaction.commit_with(&write_set).await?;
                Vec::new()
            }
            (grouped, individual) => {
                let write_set = build_write_set(&mut transaction, grouped)?;
                transaction.put(&write_set).await?;
                let (mut outcomes, mut writes) = (Vec::with_capacity(individual.len()), 0_usize);
                for member in individual {
                    if writes >= INDIVIDUAL_MAX {
                        break;
                    }
                    writes = writes.saturating_add(member.work.write_count());
                    outcomes.push(write_in_savepoint(&mut transaction, &mut member.work).await?);
                }
                transaction.commit().await?;
                outcomes
            }
        };
        let finished = self.individual.drain(..outcomes.len());
        self.replies.extend(finished.map(|it| it.reply).zip(outcomes));
        self.replies
            .extend(self.grouped.drain(..).map(|it| (it.reply, Ok(it.work.grouped_outcome()))));
        Ok(())
    }

    /// Begins the transaction and moves writes with a possible conflict to individual execution.
    async fn begin(
        &mut self,
        pool: &ConnectionPool,
        tenant: TenantId,
    ) -> Result<PostgresTransaction, StoreError> {
        let members = self.grouped.iter().chain(&self.individual);
        let tokens_max = members.map(|it| it.work.numbers_needed()).sum();
        let mut conflicts = ConflictLookup::default();
        for (index, member) in self.grouped.iter().enumerate() {
            member.work.inserts().for_each(|it| conflicts.add(index, it));
        }
        let parameters = conflicts.parameters(&tenant.0);
        let query = conflicts.query(&parameters);
        let (transaction, rows) = PostgresTransaction::begin_with_query(
            pool,
            TenantLog { log: LogKind::Audit, tenant },
            tokens_max,
            query,
        )
        .await?;
        let conflicting = decode_conflicts(&rows)?;
        let versions = transaction.stored_key_versions().ok();
        for (index, member) in std::mem::take(&mut self.grouped).into_iter().enumerate() {
            // A write of a request before the promotion of a key must not fail the other writes.
            let is_current = versions.is_none_or(|it| member.work.is_current(it));
            let can_be_grouped = is_current && !conflicting.contains(&index);
            let target = if can_be_grouped { &mut self.grouped } else { &mut self.individual };
            target.push(member);
        }
        Ok(transaction)
    }

    /// Builds the records of the grouped writes. Their outcome is known: all their tokens are new.
    fn build_idempotency_records(&mut self) {
        let mut digests = HashSet::new();
        for mut member in std::mem::take(&mut self.grouped) {
            let insert_count = member.work.inserts().count();
            let can_be_grouped = |record: &IdempotencyRecord| {
                record.token_data.iter().all(|it| it.write_index < insert_count)
                    && digests.insert(record.digest)
            };
            match member.work.build_idempotency_record().map(|it| it.is_none_or(can_be_grouped)) {
                Ok(true) => self.grouped.push(member),
                // Another write of the set has the same idempotency key, so one of the two is a
                // repetition.
                Ok(false) => self.individual.push(member),
                Err(error) => self.replies.push((member.reply, Err(error))),
            }
        }
    }

    /// Returns the replies, which depend on the commit.
    fn into_replies(self, committed: Result<(), CommitError>) -> Vec<PendingReply> {
        let Err(commit_error) = committed else { return self.replies };
        let error = commit_error.into_store_error();
        let finished = self.replies.into_iter().map(|(reply, _)| reply);
        let unfinished = self.grouped.into_iter().chain(self.individual).map(|it| it.reply);
        finished.chain(unfinished).map(|reply| (reply, Err(clone_error(&error)))).collect()
    }
}

/// Writes tokens one by one. The caller rolls back a rejected batch.
async fn write_batch(
    transaction: &mut PostgresTransaction,
    writes: &[TokenWrite],
    record: &mut PendingIdempotencyRecord,
) -> Result<BatchOutcome, StoreError> {
    let tenant = transaction.tenant;
    let BatchAttempt { outcome, numbers } = write_tokens(transaction, tenant, writes).await?;
    if let BatchOutcome::Written(outcomes) = &outcome
        && let Some(record) = record.build_for(outcomes)?
    {
        insert_idempotency_record(transaction, tenant, record, &numbers).await?;
    }
    Ok(outcome)
}

/// Runs the only write of a transaction and ends the transaction.
async fn write_individual(
    mut transaction: PostgresTransaction,
    work: &mut AtomicWrite,
) -> Result<Result<BatchOutcome, StoreError>, StoreError> {
    let outcome = work.attempt(&mut transaction).await;
    match &outcome {
        Ok(BatchOutcome::Written(_)) => transaction.commit().await?,
        Ok(BatchOutcome::Rejected(_)) => transaction.roll_back().await?,
        // If the rollback also fails, the connection is closed, which rolls back the transaction
        // too.
        Err(_) => drop(transaction.roll_back().await),
    }
    Ok(outcome)
}

/// Runs a write in a savepoint. A failure does not affect the other writes of the transaction.
async fn write_in_savepoint(
    transaction: &mut PostgresTransaction,
    work: &mut AtomicWrite,
) -> Result<Result<BatchOutcome, StoreError>, StoreError> {
    let savepoint = transaction.savepoint().await?;
    let outcome = work.attempt(transaction).await;
    match &outcome {
        Ok(BatchOutcome::Written(_)) => transaction.release(savepoint).await?,
        Ok(BatchOutcome::Rejected(_)) | Err(_) => transaction.roll_back_to(savepoint).await?,
    }
    Ok(outcome)
}

/// Assigns numbers, appends audit records and deliveries, and counts usage for the rows of the
/// members.
fn build_write_set<'a>(
    transaction: &mut PostgresTransaction,
    members: &'a [GroupMember],
) -> Result<WriteSet<'a>, StoreError> {
    let mut write_set = WriteSet::default();
    for member in members {
        let mut numbers = Vec::new();
        for insert in member.work.inserts() {
            let record = &insert.token.record;
            let number = transaction.next_number();
            numbers.push(number);
            write_set.add_token(number, &insert.token);
            transaction.usage.count_created(
                transaction.tenant,
                record.token_type,
                record.created_at,
            );
            transaction.append_record(&insert.audit, record.id.as_str(), CREATED);
        }
        if let AtomicWrite::Intent(intent, extras) = &member.work {
            write_set.add_intent(intent);
            transaction.append_record(&extras.audit, &extras.entity, CREATED);
            transaction.append_deliveries(&extras.deliveries)?;
        }
        for write in member.work.token_writes() {
            transaction.append_deliveries(&write.deliveries(&WriteOutcome::New))?;
        }
        if let Some(record) = member.work.built_idempotency_record() {
            write_set.add_idempotency_record(record, numbers);
        }
    }
    Ok(write_set)
}

/// Outcome in the audit record.
const CREATED: &str = "created";

/// Ids and fingerprints of the writes in a write set.
struct ConflictSet {
    tenant: TenantId,
    ids: HashSet<TokenId>,
    fingerprints: HashSet<[u8; 32]>,
}

impl ConflictSet {
    /// Accepts only inserts that cannot conflict with another insert of the set.
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
        let is_new = |it: Fingerprint| self.fingerprints.insert(it.0);
        let has_new_fingerprint = record.fingerprint.is_none_or(is_new);
        insert.intent.is_none()
            && check_permit(insert.permit.tenant().id, self.tenant).is_ok()
            && (has_new_fingerprint || insert.deduplicate == Deduplicate::No)
            && self.ids.insert(record.id.clone())
    }
}

impl AtomicWrite {
    fn token_writes(&self) -> &[TokenWrite] {
        match self {
            Self::Tokens(writes, _) => writes,
            Self::Intent(..) => &[],
        }
    }

    fn inserts(&self) -> impl Iterator<Item = &InsertToken> {
        self.token_writes().iter().filter_map(|it| match it {
            TokenWrite::Insert(it) => Some(it),
            TokenWrite::Update(_) => None,
        })
    }

    /// Whether the current version of the sealing key sealed all values.
    fn is_current(&self, versions: KeyVersions) -> bool {
        let tokens = self.token_writes().iter().map(sealed_body);
        let intent = match self {
            Self::Tokens(..) => None,
            Self::Intent(intent, _) => Some(&intent.record.body),
        };
        tokens.chain(intent).all(|it| matches!(versions.check(it), Ok(SealedAge::Current)))
    }

    fn write_count(&self) -> usize {
        match self {
            Self::Tokens(writes, _) => writes.len(),
            Self::Intent(..) => 1,
        }
    }

    /// Returns the number of token numbers that the write may use: an insert that replaces an
    /// expired token is tried twice.
    fn numbers_needed(&self) -> usize {
        self.inserts().count().saturating_mul(2)
    }

    async fn attempt(
        &mut self,
        transaction: &mut PostgresTransaction,
    ) -> Result<BatchOutcome, StoreError> {
        match self {
            Self::Tokens(writes, record) => write_batch(transaction, writes, record).await,
            Self::Intent(intent, extras) => {
                insert_token_intent(transaction, intent, extras).await?;
                Ok(BatchOutcome::Written(Vec::new()))
            }
        }
    }

    /// Returns the outcome of a write in a set.
    fn grouped_outcome(&self) -> BatchOutcome {
        BatchOutcome::Written(self.inserts().map(|_| WriteOutcome::New).collect())
    }

    fn build_idempotency_record(&mut self) -> Result<Option<&IdempotencyRecord>, StoreError> {
        let outcomes: Vec<_> = self.inserts().map(|_| WriteOutcome::New).collect();
        match self {
            Self::Tokens(_, record) => record.build_for(&outcomes),
            Self::Intent(_, extras) => Ok(extras.idempotency.as_ref()),
        }
    }

    /// Returns the idempotency record, if it is built.
    fn built_idempotency_record(&self) -> Option<&IdempotencyRecord> {
        match self {
            Self::Tokens(_, PendingIdempotencyRecord::Built(_, record)) => record.as_ref(),
            Self::Tokens(
                _,
                PendingIdempotencyRecord::None
                | PendingIdempotencyRecord::NotBuilt(_)
                | PendingIdempotencyRecord::Panicked,
            ) => None,
            Self::Intent(_, extras) => extras.idempotency.as_ref(),
        }
    }
}

/// The idempotency record of a write. It is built once, from the first outcome of the write.
pub(crate) enum PendingIdempotencyRecord {
    None,
    NotBuilt(BuildIdempotencyRecord),
    Built(Vec<WriteOutcome>, Option<IdempotencyRecord>),
    /// Building the record panicked.
    Panicked,
}

impl PendingIdempotencyRecord {
    fn new(build_record: Option<BuildIdempotencyRecord>) -> Self {
        build_record.map_or(Self::None, Self::NotBuilt)
    }

    /// Returns the record for these outcomes and builds it at the first call. A write that is
    /// retried after a rollback may have another outcome. Then the error is `Busy`, and the client
    /// retries.
    fn build_for(
        &mut self,
        outcomes: &[WriteOutcome],
    ) -> Result<Option<&IdempotencyRecord>, StoreError> {
        if let Self::NotBuilt(_) = self
            && let Self::NotBuilt(build_record) = std::mem::replace(self, Self::Panicked)
            // A panic must not affect the other writes of the group.
            && let Ok(record) = catch_unwind(AssertUnwindSafe(|| build_record(outcomes)))
        {
            *self = Self::Built(outcomes.to_vec(), record);
        }
        match self {
            Self::None => Ok(None),
            Self::Built(built_outcomes, record) if built_outcomes.as_slice() == outcomes => {
                Ok(record.as_ref())
            }
            Self::Built(..) => Err(StoreError::Busy),
            Self::NotBuilt(_) | Self::Panicked => Err(unavailable("building the response failed")),
        }
    }
}
