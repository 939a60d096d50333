//! Writes of one tenant that share a transaction.
//!
//! Those that have nothing to do with each other, nor with what is there, are put by one statement
//! for each table. Every other is done by itself behind a savepoint, so that its refusal or its
//! error touches nobody else. Nobody hears of success before the commit; should that fail, all of
//! them hear so.

use std::collections::HashSet;

use scrip_core::{
    audit::Log,
    id::{TenantId, TokenId},
    idempotency::AnswerRecord,
    measure::LogMeasures,
    store::{Beside, StoreError},
    token::{
        Batched, Deduplicate, InsertToken, Outcome, StoredTokenIntent, TokenBatch, TokenWrite,
    },
};
use scrip_seal::Fingerprint;

use crate::{
    postgres::{
        engine::{
            gather::{Gathering, Reply, Turn, Waiting},
            lane::Lane,
            pool::Pool,
            set::{Obstacles, Set, hindered},
            transaction::{Ended, Transaction},
        },
        maintenance::answers::Answer,
        tokens::intents::insert_token_intent,
    },
    rules::{
        again,
        answers::insert_answer,
        tokens::writes::{BatchAttempt, check_permit, write_tokens},
    },
};

/// As many as there are clients on a busy node; more would only make the first wait for the last.
const GROUP_MAX: usize = 64;
/// Writes that are done one by one in a transaction. What is left then is the next one's: a tenant
/// is not held for longer.
const ALONE_MAX: usize = 128;

/// One write that is kept as a whole or not at all.
pub(crate) enum Work {
    Tokens(Vec<TokenWrite>, Answer),
    Intent(Box<StoredTokenIntent>, Beside),
}

type Member = Waiting<Work, Batched>;

/// What one is told after the commit.
type Told = (Reply<Batched>, Result<Batched, StoreError>);

#[derive(Debug)]
pub(crate) struct Writes {
    waiting: Gathering<Work, Batched>,
    pool: Pool,
}

impl Writes {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { waiting: Gathering::default(), pool }
    }

    pub(crate) async fn write_tokens(
        &self,
        tenant: TenantId,
        batch: TokenBatch,
    ) -> Result<Batched, StoreError> {
        let body = |it: &TokenWrite| match it {
            TokenWrite::Insert(it) => it.token.record.body.as_bytes().len(),
            TokenWrite::Update(it) => it.token.body.as_bytes().len(),
        };
        let bytes = batch.writes.iter().map(body).sum();
        let work = Work::Tokens(batch.writes, Answer::due(batch.render));
        let pool = self.pool.clone();
        self.waiting.done(tenant, work, bytes, |turn| write(turn, pool)).await
    }

    pub(crate) async fn insert_token_intent(
        &self,
        tenant: TenantId,
        intent: StoredTokenIntent,
        written: Beside,
    ) -> Result<(), StoreError> {
        let bytes = intent.record.body.as_bytes().len();
        let work = Work::Intent(Box::new(intent), written);
        let pool = self.pool.clone();
        self.waiting.done(tenant, work, bytes, |turn| write(turn, pool)).await.map(drop)
    }

    pub(crate) fn measures(&self) -> LogMeasures {
        // Called as the embedded engine's is, so that one dashboard does for both.
        self.waiting.measures("vault")
    }
}

async fn write(mut turn: Turn<Work, Batched>, pool: Pool) {
    while let Some(members) = turn.next(GROUP_MAX) {
        let size = members.len();
        let mut group = Group::of(members, turn.tenant);
        let mut ended = group.write(&pool, turn.tenant).await;
        if let Err(Ended::Undone) = ended {
            group.part();
            ended = group.write(&pool, turn.tenant).await;
        }
        let left = if ended.is_ok() { std::mem::take(&mut group.alone) } else { Vec::new() };
        // Before anybody hears of it: whoever then asks finds his write counted.
        turn.note(ended.is_ok().then_some(size.saturating_sub(left.len())));
        for (reply, outcome) in group.told(ended) {
            // A client that has gone away does not want to hear it; the effect stays.
            drop(reply.send(outcome));
        }
        turn.put_back(left);
    }
}

/// Those that share a transaction.
struct Group {
    /// Put as a set.
    plain: Vec<Member>,
    alone: Vec<Member>,
    /// What is known of those that are done, should the transaction be committed.
    told: Vec<Told>,
}

impl Group {
    fn of(members: Vec<Member>, tenant: TenantId) -> Self {
        let mut company = Company { tenant, ids: HashSet::new(), fingerprints: HashSet::new() };
        let (plain, alone) = members.into_iter().partition(|it| company.takes(&it.work));
        Self { plain, alone, told: Vec::new() }
    }

    /// Each by itself, from now on.
    fn part(&mut self) {
        self.alone.append(&mut self.plain);
    }

    /// Some of those that are done alone may be left.
    async fn write(&mut self, pool: &Pool, tenant: TenantId) -> Result<(), Ended> {
        let mut it = self.enter(pool, tenant).await?;
        if let Err(error) = it.check_present() {
            it.roll_back().await?;
            return Err(Ended::Failed(error));
        }
        self.render();
        let outcomes = match (self.plain.as_slice(), self.alone.as_mut_slice()) {
            ([], [lone]) => vec![write_lone(it, &mut lone.work).await?],
            (plain, []) => {
                let set = set(&mut it, plain);
                it.commit_with(&set).await?;
                Vec::new()
            }
            (plain, alone) => {
                let set = set(&mut it, plain);
                it.put(&set).await?;
                let (mut outcomes, mut writes) = (Vec::with_capacity(alone.len()), 0_usize);
                for member in alone {
                    if writes >= ALONE_MAX {
                        break;
                    }
                    writes = writes.saturating_add(member.work.writes());
                    outcomes.push(write_apart(&mut it, &mut member.work).await?);
                }
                it.commit().await?;
                outcomes
            }
        };
        let done = self.alone.drain(..outcomes.len());
        self.told.extend(done.map(|it| it.reply).zip(outcomes));
        self.told.extend(self.plain.drain(..).map(|it| (it.reply, Ok(it.work.written()))));
        Ok(())
    }

    /// Those that have something in their way are put aside.
    async fn enter(&mut self, pool: &Pool, tenant: TenantId) -> Result<Transaction, StoreError> {
        let all = self.plain.iter().chain(&self.alone);
        let tokens = all.map(|it| it.work.tokens()).sum();
        let mut obstacles = Obstacles::default();
        for (at, member) in self.plain.iter().enumerate() {
            member.work.inserts().for_each(|it| obstacles.of(at, it));
        }
        let parameters = obstacles.parameters(&tenant.0);
        let asked = obstacles.asked(&parameters);
        let (it, rows) =
            Transaction::begin_asking(pool, Lane { log: Log::Audit, tenant }, tokens, asked)
                .await?;
        let hindered = hindered(&rows)?;
        for (at, member) in std::mem::take(&mut self.plain).into_iter().enumerate() {
            let place = if hindered.contains(&at) { &mut self.alone } else { &mut self.plain };
            place.push(member);
        }
        Ok(it)
    }

    /// What became of those that are left is known: all of them are new.
    fn render(&mut self) {
        let mut digests = HashSet::new();
        for mut member in std::mem::take(&mut self.plain) {
            let tokens = member.work.inserts().count();
            let fits = |answer: &AnswerRecord| {
                answer.parts.iter().all(|it| it.at < tokens) && digests.insert(answer.digest)
            };
            match member.work.answer().map(|it| it.is_none_or(fits)) {
                Ok(true) => self.plain.push(member),
                // Another of the set answers the same request: one of them comes second.
                Ok(false) => self.alone.push(member),
                Err(error) => self.told.push((member.reply, Err(error))),
            }
        }
    }

    /// What everybody hears.
    fn told(self, ended: Result<(), Ended>) -> Vec<Told> {
        let Err(ended) = ended else { return self.told };
        let error = ended.error();
        let done = self.told.into_iter().map(|(reply, _)| reply);
        let undone = self.plain.into_iter().chain(self.alone).map(|it| it.reply);
        done.chain(undone).map(|reply| (reply, Err(again(&error)))).collect()
    }
}

/// Tokens one by one. Whoever calls takes back what a refused batch did.
async fn write_batch(
    it: &mut Transaction,
    writes: &[TokenWrite],
    answer: &mut Answer,
) -> Result<Batched, StoreError> {
    let tenant = it.tenant;
    let BatchAttempt { batched, numbers } = write_tokens(it, tenant, writes).await?;
    if let Batched::Written(outcomes) = &batched
        && let Some(answer) = answer.to(outcomes)?
    {
        insert_answer(it, tenant, answer, &numbers).await?;
    }
    Ok(batched)
}

/// Nobody else is in the transaction.
async fn write_lone(
    mut it: Transaction,
    work: &mut Work,
) -> Result<Result<Batched, StoreError>, StoreError> {
    let outcome = work.attempt(&mut it).await;
    match &outcome {
        Ok(Batched::Written(_)) => it.commit().await?,
        Ok(Batched::Refused(_)) => it.roll_back().await?,
        // Should this fail, too, the connection is closed, and all is taken back as well.
        Err(_) => drop(it.roll_back().await),
    }
    Ok(outcome)
}

/// The others of the transaction know nothing of it.
async fn write_apart(
    it: &mut Transaction,
    work: &mut Work,
) -> Result<Result<Batched, StoreError>, StoreError> {
    let mark = it.mark().await?;
    let outcome = work.attempt(it).await;
    match &outcome {
        Ok(Batched::Written(_)) => it.keep(mark).await?,
        Ok(Batched::Refused(_)) | Err(_) => it.take_back(mark).await?,
    }
    Ok(outcome)
}

/// Their rows, numbered, recorded and counted.
fn set<'a>(it: &mut Transaction, plain: &'a [Member]) -> Set<'a> {
    let mut set = Set::default();
    for member in plain {
        let mut numbers = Vec::new();
        for insert in member.work.inserts() {
            let record = &insert.token.record;
            let number = it.next_number();
            numbers.push(number);
            set.token(number, &insert.token);
            it.tally.made(it.tenant, record.token_type, record.created_at);
            it.append_record(&insert.audit, record.id.as_str(), CREATED);
        }
        if let Work::Intent(intent, written) = &member.work {
            set.intent(intent);
            it.append_record(&written.audit, &written.entity, CREATED);
        }
        if let Some(answer) = member.work.made() {
            set.answer(answer, numbers);
        }
    }
    set
}

const CREATED: &str = "created";

/// Those that are in a set so far.
struct Company {
    tenant: TenantId,
    ids: HashSet<TokenId>,
    fingerprints: HashSet<[u8; 32]>,
}

impl Company {
    /// Only inserts, none of which could meet another one of the set.
    fn takes(&mut self, work: &Work) -> bool {
        match work {
            Work::Intent(..) => true,
            Work::Tokens(writes, _) => writes.iter().all(|it| match it {
                TokenWrite::Insert(it) => self.takes_insert(it),
                TokenWrite::Update(_) => false,
            }),
        }
    }

    fn takes_insert(&mut self, insert: &InsertToken) -> bool {
        let record = &insert.token.record;
        let is_first = |it: Fingerprint| self.fingerprints.insert(it.0);
        let is_other = record.fingerprint.is_none_or(is_first);
        insert.intent.is_none()
            && check_permit(insert.permit.tenant().id, self.tenant).is_ok()
            && (is_other || insert.deduplicate == Deduplicate::No)
            && self.ids.insert(record.id.clone())
    }
}

impl Work {
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

    fn writes(&self) -> usize {
        match self {
            Self::Tokens(writes, _) => writes.len(),
            Self::Intent(..) => 1,
        }
    }

    /// How many numbers it may need: an id that has expired is tried twice.
    fn tokens(&self) -> usize {
        self.inserts().count().saturating_mul(2)
    }

    async fn attempt(&mut self, it: &mut Transaction) -> Result<Batched, StoreError> {
        match self {
            Self::Tokens(writes, answer) => write_batch(it, writes, answer).await,
            Self::Intent(intent, written) => {
                insert_token_intent(it, intent, written).await?;
                Ok(Batched::Written(Vec::new()))
            }
        }
    }

    /// Of one that is put in a set.
    fn written(&self) -> Batched {
        Batched::Written(self.inserts().map(|_| Outcome::New).collect())
    }

    fn answer(&mut self) -> Result<Option<&AnswerRecord>, StoreError> {
        let new: Vec<_> = self.inserts().map(|_| Outcome::New).collect();
        match self {
            Self::Tokens(_, answer) => answer.to(&new),
            Self::Intent(_, written) => Ok(written.answer.as_ref()),
        }
    }

    /// The answer, once it was made.
    fn made(&self) -> Option<&AnswerRecord> {
        match self {
            Self::Tokens(_, Answer::Made(_, answer)) => answer.as_ref(),
            Self::Tokens(_, Answer::Nothing | Answer::Due(_) | Answer::Broken) => None,
            Self::Intent(_, written) => written.answer.as_ref(),
        }
    }
}
