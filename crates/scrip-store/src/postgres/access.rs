//! The access log. While one transaction of a tenant is made durable, what comes meanwhile gathers,
//! and is written as one: the more reads there are, the less each of them costs.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use scrip_core::{
    audit::{chain::Log, trail::Access},
    id::{TenantId, TokenId},
    store::StoreError,
    time::Month,
};
use tokio::sync::oneshot;

use crate::postgres::{
    pool::Pool, statement::unavailable, transaction::Transaction, usage::note_active,
};

/// Past this a read is refused at once.
const WAITING_MAX: usize = 4096;

/// A tenant is in it while somebody writes for it.
#[derive(Debug, Clone, Default)]
pub(super) struct AccessLog(Arc<Mutex<HashMap<TenantId, Vec<Waiting>>>>);

#[derive(Debug)]
struct Waiting {
    access: Access,
    reply: oneshot::Sender<Result<(), StoreError>>,
}

impl AccessLog {
    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, Vec<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers once it is durable.
    pub(super) async fn record(&self, pool: &Pool, access: Access) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        let tenant = access.tenant;
        let is_first = match self.lock().entry(tenant) {
            Entry::Occupied(it) if it.get().len() >= WAITING_MAX => return Err(StoreError::Busy),
            Entry::Occupied(mut it) => {
                it.get_mut().push(Waiting { access, reply });
                false
            }
            Entry::Vacant(it) => {
                it.insert(vec![Waiting { access, reply }]);
                true
            }
        };
        if is_first {
            // Not by the one who asked: should that go away, the others would wait for nobody.
            drop(tokio::spawn(Turn { log: self.clone(), tenant }.write(pool.clone())));
        }
        answer.await.map_err(|_| unavailable("the server is stopping"))?
    }
}

/// Somebody writes for this tenant, until nobody waits.
struct Turn {
    log: AccessLog,
    tenant: TenantId,
}

impl Turn {
    async fn write(self, pool: Pool) {
        while let Some(waiting) = self.next() {
            let (all, replies): (Vec<_>, Vec<_>) =
                waiting.into_iter().map(|it| (it.access, it.reply)).unzip();
            let written = write_all(&pool, self.tenant, &all).await;
            for reply in replies {
                // A client that has gone away does not want to hear it; the record stays.
                drop(reply.send(written.as_ref().copied().map_err(again)));
            }
        }
    }

    /// All that wait; nothing, and the turn is over, when nobody does.
    fn next(&self) -> Option<Vec<Waiting>> {
        let mut all = self.log.lock();
        let waiting = all.get_mut(&self.tenant).map(std::mem::take).filter(|it| !it.is_empty());
        if waiting.is_none() {
            all.remove(&self.tenant);
        }
        waiting
    }
}

/// Also when the writing is broken off: nobody is left waiting for it.
impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.log.lock().remove(&self.tenant));
    }
}

fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Busy => StoreError::Busy,
        StoreError::Answered => StoreError::Answered,
        StoreError::Unavailable(cause) => StoreError::Unavailable(cause.to_string().into()),
        StoreError::Corrupt(what) => StoreError::Corrupt(what),
    }
}

async fn write_all(pool: &Pool, tenant: TenantId, all: &[Access]) -> Result<(), StoreError> {
    let mut transaction = Transaction::begin(pool, (Log::Access, tenant), 0).await?;
    let mut active = Vec::new();
    for access in all {
        for it in &access.seen {
            transaction.append(&access.audit, &it.entity, it.outcome);
            active.extend(access.active(it).map(|month| (month, it.entity.as_str())));
        }
    }
    note_active(&transaction, &active).await?;
    transaction.commit().await
}

/// After a write that used them. Should the process end before it comes to this, a token is counted
/// one use later.
pub(super) async fn note_used(pool: &Pool, tenant: TenantId, tokens: &[(Month, TokenId)]) {
    if tokens.is_empty() {
        return;
    }
    let tokens: Vec<_> = tokens.iter().map(|(month, it)| (*month, it.as_str())).collect();
    let noted = async {
        let transaction = Transaction::begin(pool, (Log::Access, tenant), 0).await?;
        note_active(&transaction, &tokens).await?;
        transaction.commit().await
    };
    drop(noted.await);
}
