//! The model engine: obviously correct, and what the other engines are compared with.

use std::sync::{Mutex, MutexGuard, PoisonError};

use scrip_core::{
    answer::AnswerRecord,
    application::{ApiKeyRecord, ApplicationRecord},
    audit::Operation,
    caller::{Inquiry, Permit},
    directory::DirectoryRecords,
    id::{TenantId, TokenId},
    operations::claim_answer::ANSWER_RETENTION,
    store::{
        AskedAnswer, Claimed, CvcChange, Deduplicate, DeleteToken, Deleted, InsertToken, Inserted,
        Store, StoreError, StoreFuture, StoredAnswer, StoredToken, TokenRecord, UpdateToken,
        Updated,
    },
    tenant::TenantRecord,
    time::Timestamp,
};
use scrip_seal::{IndexDigest, Sealed};

use crate::claims::Claims;

#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    claims: Claims,
}

#[derive(Debug, Default, Clone)]
struct State {
    /// In the order of their making.
    tokens: Vec<Row>,
    answers: Vec<(TenantId, AnswerRecord, Option<TokenId>)>,
    audit: Vec<(TenantId, Operation)>,
    directory: DirectoryRecords,
}

#[derive(Debug, Clone)]
struct Row {
    tenant: TenantId,
    token: StoredToken,
    indexes: Vec<IndexDigest>,
}

impl State {
    fn live(&self, tenant: TenantId, id: &TokenId, now: Timestamp) -> Option<usize> {
        let is = |it: &Row| it.tenant == tenant && it.token.record.id == *id;
        self.tokens.iter().position(|it| is(it) && it.token.record.is_live(now))
    }

    fn duplicate(
        &self,
        tenant: TenantId,
        token: &TokenRecord,
        deduplicate: Deduplicate,
        (own_id, now): (Option<&TokenId>, Timestamp),
    ) -> Option<StoredToken> {
        if deduplicate == Deduplicate::No || token.fingerprint.is_none() {
            return None;
        }
        let same = |it: &&Row| {
            let record = &it.token.record;
            it.tenant == tenant
                && record.token_type == token.token_type
                && record.fingerprint == token.fingerprint
                && record.containers.set_text() == token.containers.set_text()
                && Some(&record.id) != own_id
                && record.is_live(now)
        };
        self.tokens.iter().find(same).map(|it| it.token.clone())
    }

    fn remember(
        &mut self,
        tenant: TenantId,
        answer: Option<AnswerRecord>,
        token: &TokenId,
    ) -> Result<(), StoreError> {
        let Some(answer) = answer else { return Ok(()) };
        let forgotten = answer.created_at.before(ANSWER_RETENTION);
        self.answers.retain(|(_, it, _)| it.digest != answer.digest || it.created_at > forgotten);
        if self.answers.iter().any(|(_, it, _)| it.digest == answer.digest) {
            return Err(StoreError::Corrupt("a request was answered twice"));
        }
        let token = answer.data.is_some().then(|| token.clone());
        self.answers.push((tenant, answer, token));
        Ok(())
    }

    fn remove(&mut self, at: usize) {
        let row = self.tokens.remove(at);
        for (tenant, answer, token) in &mut self.answers {
            if *tenant == row.tenant && token.as_ref() == Some(&row.token.record.id) {
                answer.data = None;
                *token = None;
            }
        }
    }

    fn insert(&mut self, tenant: TenantId, insert: InsertToken) -> Result<Inserted, StoreError> {
        let now = insert.audit.at;
        let record = &insert.token.record;
        let found = self.duplicate(tenant, record, insert.deduplicate, (None, now));
        let (outcome, id) = match found {
            Some(found) => {
                let id = found.record.id.clone();
                (Inserted::Existing(Box::new(found)), id)
            }
            None if self.live(tenant, &record.id, now).is_some() => return Ok(Inserted::IdTaken),
            None => {
                let id = record.id.clone();
                let expired = |it: &Row| it.tenant == tenant && it.token.record.id == id;
                if let Some(at) = self.tokens.iter().position(expired) {
                    self.remove(at);
                }
                self.tokens.push(Row { tenant, token: insert.token, indexes: insert.indexes });
                (Inserted::New, id)
            }
        };
        self.audit.push((tenant, insert.audit.operation));
        let answer = insert.render.and_then(|it| it(&outcome));
        self.remember(tenant, answer, &id)?;
        Ok(outcome)
    }

    fn update(&mut self, tenant: TenantId, update: UpdateToken) -> Result<Updated, StoreError> {
        let UpdateToken { token, cvc, indexes, deduplicate, audit, render } = update;
        let id = token.id.clone();
        let found = self.duplicate(tenant, &token, deduplicate, (Some(&id), audit.at));
        let at = self.live(tenant, &id, audit.at);
        let row = at.and_then(|it| self.tokens.get_mut(it));
        let Some(row) = row.filter(|it| it.token.record.revision + 1 == token.revision) else {
            return Ok(Updated::Stale);
        };
        let (outcome, answered) = match found {
            Some(found) => {
                let id = found.record.id.clone();
                (Updated::Duplicate(Box::new(found)), id)
            }
            None => {
                row.token.record = token;
                row.indexes = indexes;
                match cvc {
                    CvcChange::Keep => (),
                    CvcChange::Remove => row.token.cvc = None,
                    CvcChange::Replace(cvc) => row.token.cvc = Some(cvc),
                }
                (Updated::Done, id)
            }
        };
        self.audit.push((tenant, audit.operation));
        let answer = render.and_then(|it| it(&outcome));
        self.remember(tenant, answer, &answered)?;
        Ok(outcome)
    }

    fn delete(&mut self, tenant: TenantId, delete: &DeleteToken) -> Deleted {
        let at = self.live(tenant, &delete.id, delete.audit.at);
        let same = |it: &usize| {
            self.tokens.get(*it).is_some_and(|it| it.token.record.revision == delete.revision)
        };
        let Some(at) = at.filter(same) else { return Deleted::Stale };
        self.remove(at);
        self.audit.push((tenant, delete.audit.operation));
        Deleted::Done
    }

    fn answer(&self, asked: &AskedAnswer) -> Option<StoredAnswer> {
        let is = |it: &&(TenantId, AnswerRecord, Option<TokenId>)| {
            it.0 == asked.tenant && it.1.digest == asked.digest && it.1.created_at > asked.since
        };
        let (tenant, answer, token) = self.answers.iter().find(is)?;
        let live = token.as_ref().and_then(|it| self.live(*tenant, it, asked.now));
        let live = live.and_then(|it| self.tokens.get(it));
        Some(StoredAnswer {
            digest: answer.digest,
            created_at: answer.created_at,
            containers: live.map(|it| it.token.record.containers.clone()),
            head: answer.head.clone(),
            data: answer.data.clone().filter(|_| live.is_some()),
        })
    }
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut State) -> T + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { Ok(work(&mut self.lock())) })
    }

    /// Work that fails takes back what it did.
    fn attempt<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&mut State) -> Result<T, StoreError> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let mut state = self.lock();
            let mut after = state.clone();
            let outcome = work(&mut after)?;
            *state = after;
            Ok(outcome)
        })
    }
}

impl Store for MemoryStore {
    fn insert_token(&self, permit: Permit, insert: InsertToken) -> StoreFuture<'_, Inserted> {
        self.attempt(move |it| it.insert(permit.tenant().id, insert))
    }

    fn find_token<'a>(
        &'a self,
        inquiry: Inquiry,
        id: &'a TokenId,
        now: Timestamp,
    ) -> StoreFuture<'a, Option<StoredToken>> {
        self.with(move |it| {
            let at = it.live(inquiry.tenant().id, id, now)?;
            it.tokens.get(at).map(|it| it.token.clone())
        })
    }

    fn update_token(&self, permit: Permit, update: UpdateToken) -> StoreFuture<'_, Updated> {
        self.attempt(move |it| it.update(permit.tenant().id, update))
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Deleted> {
        self.with(move |it| it.delete(permit.tenant().id, &delete))
    }

    fn claim_answer(&self, asked: AskedAnswer) -> StoreFuture<'_, Claimed> {
        let Some(claim) = self.claims.take(asked.digest) else {
            return self.with(|_| Claimed::InFlight);
        };
        self.with(move |it| it.answer(&asked).map_or(Claimed::Claim(claim), Claimed::Answered))
    }

    fn forget_answers(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let had = it.answers.len();
            it.answers.retain(|(_, it, _)| it.created_at > before);
            had - it.answers.len()
        })
    }

    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        self.with(|it| it.directory.clone())
    }

    fn insert_pepper(&self, pepper: Sealed) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let directory = &mut self.lock().directory;
            if directory.pepper.is_some() {
                return Err(StoreError::Unavailable("there is a pepper".into()));
            }
            directory.pepper = Some(pepper);
            Ok(())
        })
    }

    fn insert_tenant(&self, tenant: TenantRecord) -> StoreFuture<'_, ()> {
        self.with(move |it| it.directory.tenants.push(tenant))
    }

    fn insert_application(
        &self,
        application: ApplicationRecord,
        api_key: ApiKeyRecord,
    ) -> StoreFuture<'_, ()> {
        self.with(move |it| {
            it.directory.applications.push(application);
            it.directory.api_keys.push(api_key);
        })
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        self.with(|_| ())
    }
}
