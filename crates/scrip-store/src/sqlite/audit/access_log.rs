//! The access log: a file of its own with a writer of its own.
//!
//! Whatever waits is written as one piece of work. So the more reads there are, the less each of
//! them costs.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rusqlite::Connection;
use scrip_core::{
    audit::{Access, Entry, Log},
    id::{TenantId, TokenId},
    store::StoreError,
    time::{Month, Ticks},
};
use tokio::sync::oneshot;

use crate::{
    rules::again,
    sqlite::{
        engine::{
            checkpoint::Checkpointer,
            connection::Pages,
            readers::Readers,
            transaction::Transaction,
            writer::{Worked, Writer, stopped},
        },
        maintenance::usage::note_active,
    },
};

/// Past this a read is refused at once.
const WAITING_MAX: usize = 4096;

/// Fields end in this order, as those of the vault do.
#[derive(Debug)]
pub(crate) struct AccessLog {
    _checkpointer: Option<Checkpointer>,
    pub(crate) readers: Readers,
    pub(crate) writer: Writer,
    waiting: Arc<Mutex<Vec<Waiting>>>,
}

#[derive(Debug)]
struct Waiting {
    access: Access,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

/// Where it is: beside the vault.
pub(crate) fn path_of(vault: &Path) -> PathBuf {
    vault.with_file_name("access.db")
}

impl AccessLog {
    pub(crate) fn start(
        path: &Path,
        pages: Pages,
        ticks: Ticks,
        connection: Connection,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            _checkpointer: None,
            readers: Readers::new(path, pages)?,
            writer: Writer::start(connection, ticks)?,
            waiting: Arc::default(),
        })
    }

    /// For a server: nobody else moves the log into the file.
    pub(crate) fn keep_short(&mut self, path: &Path) -> Result<(), StoreError> {
        self._checkpointer = Some(Checkpointer::start(path, Arc::clone(&self.writer.progress))?);
        Ok(())
    }

    /// Answers once it is on disk.
    pub(crate) async fn record(&self, access: Access) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let is_first = {
            let mut waiting = lock(&self.waiting);
            if waiting.len() >= WAITING_MAX {
                return Err(StoreError::Busy);
            }
            waiting.push(Waiting { access, reply });
            waiting.len() == 1
        };
        if is_first {
            // Whoever comes before the writer does is taken along.
            let group = Group(Some(Arc::clone(&self.waiting)));
            self.writer.submit(Box::new(move |transaction| group.write(transaction)))?;
        }
        answer.await.map_err(|_| stopped())?
    }

    /// After a write that used them, which waits for no second disk: should the process end before
    /// it comes to this, or have too much to do, a token is counted one use later.
    pub(crate) fn note_active(&self, tenant: TenantId, tokens: Vec<(Month, TokenId)>) {
        if tokens.is_empty() {
            return;
        }
        let work = move |connection: &mut Transaction<'_>| {
            let mut notes = tokens.iter();
            let noted = notes.try_for_each(|(month, token)| {
                note_active(connection, tenant, *month, token.as_str())
            });
            Worked { keep: noted.is_ok(), tell: Box::new(drop) }
        };
        drop(self.writer.submit(Box::new(work)));
    }

    /// Whether a read would be taken now.
    pub(crate) fn takes_work(&self) -> bool {
        self.writer.takes_work() && lock(&self.waiting).len() < WAITING_MAX
    }
}

fn lock(waiting: &Mutex<Vec<Waiting>>) -> MutexGuard<'_, Vec<Waiting>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that wait, until the writer takes them.
struct Group(Option<Arc<Mutex<Vec<Waiting>>>>);

impl Group {
    fn write(mut self, transaction: &mut Transaction<'_>) -> Worked {
        let waiting = self.0.take().map(|it| std::mem::take(&mut *lock(&it)));
        let (all, replies): (Vec<_>, Vec<_>) =
            waiting.unwrap_or_default().into_iter().map(|it| (it.access, it.reply)).unzip();
        let outcomes = match write_all(transaction, &all.iter().collect::<Vec<_>>()) {
            Ok(()) => all.iter().map(|_| Ok(())).collect(),
            Err(error) => write_apart(transaction, &all, &error),
        };
        let keep = outcomes.iter().any(Result::is_ok);
        let tell = move |commit: Result<(), StoreError>| {
            for (reply, outcome) in replies.into_iter().zip(outcomes) {
                // A client that has gone away does not want to hear it; the record stays.
                drop(reply.send(commit.as_ref().copied().map_err(again).and(outcome)));
            }
        };
        Worked { keep, tell: Box::new(tell) }
    }
}

/// When the writer never came to it, nobody is left waiting.
impl Drop for Group {
    fn drop(&mut self) {
        if let Some(waiting) = self.0.take() {
            lock(&waiting).clear();
        }
    }
}

/// All or nothing; whoever calls takes back what was written when it fails.
fn write_all(transaction: &mut Transaction<'_>, all: &[&Access]) -> Result<(), StoreError> {
    for access in all {
        let Access { tenant, audit, seen } = access;
        for it in seen {
            let (entity, outcome) = (&*it.entity, it.outcome);
            let entry = Entry { log: Log::Access, tenant: *tenant, entity, outcome };
            transaction.append_entry(audit, entry)?;
            if let Some(month) = access.active(it) {
                note_active(transaction, *tenant, month, entity)?;
            }
        }
    }
    Ok(())
}

/// Each tenant's by itself, after all together failed: what is wrong with one must not fail the
/// others that share its commit.
fn write_apart(
    transaction: &mut Transaction<'_>,
    all: &[Access],
    error: &StoreError,
) -> Vec<Result<(), StoreError>> {
    if transaction.take_back().is_err() {
        return all.iter().map(|_| Err(again(error))).collect();
    }
    let tenants: HashSet<_> = all.iter().map(|it| it.tenant).collect();
    let of = |tenant| all.iter().filter(|it| it.tenant == tenant).collect::<Vec<_>>();
    let write = |tenant| (tenant, transaction.or_nothing(|it| write_all(it, &of(tenant))));
    let outcomes: HashMap<_, _> = tenants.into_iter().map(write).collect();
    let outcome = |it: &Access| match outcomes.get(&it.tenant) {
        Some(outcome) => outcome.as_ref().copied().map_err(again),
        None => Err(again(error)),
    };
    all.iter().map(outcome).collect()
}
