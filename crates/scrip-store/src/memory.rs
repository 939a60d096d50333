//! The model engine: obviously correct, and what the other engines are compared with.

mod listing;
mod status;
mod sweep;

use std::sync::{Mutex, MutexGuard, PoisonError};

use scrip_core::{
    access_session::{AccessSessionId, AccessSessionRecord},
    answer::AnswerRecord,
    audit::{AuditRecord, Operation},
    caller::{Inquiry, Mandate, Permit, TenantDeletion},
    directory::DirectoryRecords,
    error::Error,
    id::{TenantId, TokenId},
    listing::{ListTokens, Listing, SurveyTokens, Surveyed},
    operations::claim_answer::ANSWER_RETENTION,
    policy::{PolicyRecords, PolicyWrite, Signed},
    store::{
        AskedAnswer, Beside, Changed, Claimed, CvcChange, DecidePolicy, Deduplicate, DeleteToken,
        InsertToken, Inserted, KnownTime, Store, StoreError, StoreFuture, StoreStatus,
        StoredAnswer, StoredToken, TokenRecord, UpdateToken, Updated,
    },
    time::Timestamp,
};
use scrip_seal::Sealed;

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
    inserted: i64,
    answers: Vec<(TenantId, AnswerRecord, Option<TokenId>)>,
    audit: Vec<(TenantId, Operation)>,
    directory: DirectoryRecords,
    sessions: Vec<Signed<AccessSessionRecord>>,
    deleted_tenants: Vec<TenantId>,
    known_time: Option<KnownTime>,
}

#[derive(Debug, Clone)]
struct Row {
    number: i64,
    tenant: TenantId,
    token: StoredToken,
}

impl Row {
    fn age(&self) -> (Timestamp, i64) {
        (self.token.record.created_at, self.number)
    }
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
        let oldest = self.tokens.iter().filter(same).min_by_key(|it| it.age());
        oldest.map(|it| it.token.clone())
    }

    fn remember(
        &mut self,
        tenant: TenantId,
        answer: Option<AnswerRecord>,
        token: Option<&TokenId>,
    ) -> Result<(), StoreError> {
        let Some(answer) = answer else { return Ok(()) };
        let forgotten = answer.created_at.before(ANSWER_RETENTION);
        self.answers.retain(|(_, it, _)| it.digest != answer.digest || it.created_at > forgotten);
        if self.answers.iter().any(|(_, it, _)| it.digest == answer.digest) {
            return Err(StoreError::Corrupt("a request was answered twice"));
        }
        let token = answer.data.as_ref().and(token).cloned();
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

    /// A request that began before its tenant was deleted must not write after.
    fn check_tenant(&self, tenant: TenantId) -> Result<(), StoreError> {
        if self.directory.tenants.iter().any(|it| it.tenant.record.id == tenant) {
            return Ok(());
        }
        Err(StoreError::Unavailable("the tenant was deleted meanwhile".into()))
    }

    fn insert(&mut self, tenant: TenantId, insert: InsertToken) -> Result<Inserted, StoreError> {
        self.check_tenant(tenant)?;
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
                    self.expire(at, now);
                }
                self.inserted += 1;
                self.tokens.push(Row { number: self.inserted, tenant, token: insert.token });
                (Inserted::New, id)
            }
        };
        self.audit.push((tenant, insert.audit.operation));
        let answer = insert.render.and_then(|it| it(&outcome));
        self.remember(tenant, answer, Some(&id))?;
        Ok(outcome)
    }

    fn update(&mut self, tenant: TenantId, update: UpdateToken) -> Result<Updated, StoreError> {
        self.check_tenant(tenant)?;
        let UpdateToken { token, cvc, deduplicate, audit, render } = update;
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
        self.remember(tenant, answer, Some(&answered))?;
        Ok(outcome)
    }

    fn delete(&mut self, tenant: TenantId, delete: &DeleteToken) -> Changed {
        let at = self.live(tenant, &delete.id, delete.audit.at);
        let same = |it: &usize| {
            self.tokens.get(*it).is_some_and(|it| it.token.record.revision == delete.revision)
        };
        let Some(at) = at.filter(same) else { return Changed::Stale };
        self.remove(at);
        self.audit.push((tenant, delete.audit.operation));
        Changed::Done
    }

    fn change_policy(
        &mut self,
        tenant: TenantId,
        decide: DecidePolicy,
    ) -> Result<Result<(), Error>, StoreError> {
        let is = |it: &PolicyRecords| it.tenant.record.id == tenant;
        let Some(at) = self.directory.tenants.iter().position(is) else {
            return Ok(Err(Error::NotFound));
        };
        let Some(found) = self.directory.tenants.get(at) else { return Ok(Err(Error::NotFound)) };
        let edit = match decide(found.clone()) {
            Ok(edit) => edit,
            Err(error) => return Ok(Err(error)),
        };
        let mut known = self.directory.tenants.iter().flat_map(|it| &it.api_keys);
        let taken = |write: &PolicyWrite| {
            let PolicyWrite::PutApiKey(new) = write else { return false };
            known.any(|it| it.record.digest == new.record.digest && it.record.id != new.record.id)
        };
        if edit.writes.iter().any(taken) {
            return Ok(Err(Error::Conflict { reason: "this key is in use" }));
        }
        if let Some(records) = self.directory.tenants.get_mut(at) {
            edit.writes.iter().for_each(|it| records.apply(it));
            records.seal = edit.seal;
        }
        self.directory.version += 1;
        self.beside(tenant, edit.written)?;
        Ok(Ok(()))
    }

    fn beside(&mut self, tenant: TenantId, written: Beside) -> Result<(), StoreError> {
        self.audit.push((tenant, written.audit.operation));
        self.remember(tenant, written.answer, None)
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

    fn find_tokens<'a>(
        &'a self,
        inquiry: Inquiry,
        ids: &'a [TokenId],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<StoredToken>> {
        self.with(move |it| {
            let tenant = inquiry.tenant().id;
            let found = ids.iter().filter_map(|id| it.tokens.get(it.live(tenant, id, now)?));
            found.map(|it| it.token.clone()).collect()
        })
    }

    fn list_tokens(&self, inquiry: Inquiry, list: ListTokens) -> StoreFuture<'_, Listing> {
        self.with(move |it| it.list(inquiry.tenant().id, &list))
    }

    fn survey_tokens(&self, inquiry: Inquiry, survey: SurveyTokens) -> StoreFuture<'_, Surveyed> {
        self.with(move |it| it.survey(inquiry.tenant().id, &survey))
    }

    fn update_token(&self, permit: Permit, update: UpdateToken) -> StoreFuture<'_, Updated> {
        self.attempt(move |it| it.update(permit.tenant().id, update))
    }

    fn delete_token(&self, permit: Permit, delete: DeleteToken) -> StoreFuture<'_, Changed> {
        self.with(move |it| it.delete(permit.tenant().id, &delete))
    }

    fn sweep_tokens(&self, ended: Timestamp, audit: AuditRecord) -> StoreFuture<'_, usize> {
        self.with(move |it| it.sweep_tokens(ended, &audit))
    }

    fn sweep_cvcs(&self, ended: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| it.sweep_cvcs(ended))
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

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        self.with(|it| it.directory.version)
    }

    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()> {
        self.with(move |it| {
            it.audit.push((records.tenant.record.id, audit.operation));
            it.directory.tenants.push(records);
            it.directory.version += 1;
        })
    }

    fn change_policy(
        &self,
        mandate: Mandate,
        decide: DecidePolicy,
    ) -> StoreFuture<'_, Result<(), Error>> {
        self.attempt(move |it| it.change_policy(mandate.tenant().id, decide))
    }

    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<Changed, Error>> {
        self.with(move |it| {
            let id = deletion.tenant();
            let found = it.directory.tenants.iter().find(|it| it.tenant.record.id == id);
            let Some(found) = found else { return Ok(Changed::Stale) };
            deletion.check(found)?;
            it.directory.tenants.retain(|it| it.tenant.record.id != id);
            it.directory.version += 1;
            it.deleted_tenants.push(id);
            it.audit.push((id, audit.operation));
            Ok(Changed::Done)
        })
    }

    fn purge_tenants(&self, _now: Timestamp) -> StoreFuture<'_, usize> {
        self.with(|it| {
            let had = it.tokens.len();
            let deleted = &it.deleted_tenants;
            it.tokens.retain(|it| !deleted.contains(&it.tenant));
            had - it.tokens.len()
        })
    }

    fn insert_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, ()> {
        self.attempt(move |it| {
            it.beside(mandate.tenant().id, written)?;
            it.sessions.push(session);
            Ok(())
        })
    }

    fn find_access_session(
        &self,
        id: AccessSessionId,
    ) -> StoreFuture<'_, Option<Signed<AccessSessionRecord>>> {
        self.with(move |it| it.sessions.iter().find(|it| it.record.id == id).cloned())
    }

    fn find_access_session_by_nonce<'a>(
        &'a self,
        mandate: &'a Mandate,
        nonce: [u8; 32],
    ) -> StoreFuture<'a, Option<Signed<AccessSessionRecord>>> {
        self.with(move |it| {
            let tenant = mandate.tenant().id;
            let is = |it: &&Signed<AccessSessionRecord>| {
                it.record.nonce == nonce && it.record.tenant == tenant
            };
            it.sessions.iter().find(is).cloned()
        })
    }

    fn authorize_access_session(
        &self,
        mandate: Mandate,
        session: Signed<AccessSessionRecord>,
        written: Beside,
    ) -> StoreFuture<'_, Changed> {
        self.attempt(move |it| {
            let tenant = mandate.tenant().id;
            let is = |it: &&mut Signed<AccessSessionRecord>| {
                it.record.id == session.record.id
                    && it.record.tenant == tenant
                    && it.record.authorized.is_none()
            };
            let Some(found) = it.sessions.iter_mut().find(is) else { return Ok(Changed::Stale) };
            *found = session;
            it.beside(tenant, written)?;
            Ok(Changed::Done)
        })
    }

    fn forget_access_sessions(&self, before: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let had = it.sessions.len();
            it.sessions.retain(|it| it.record.expires_at > before);
            had - it.sessions.len()
        })
    }

    fn note_time(&self, time: KnownTime) -> StoreFuture<'_, ()> {
        self.with(move |it| it.known_time = Some(time))
    }

    fn known_time(&self) -> StoreFuture<'_, Option<KnownTime>> {
        self.with(|it| it.known_time)
    }

    fn waiting_writes(&self) -> u64 {
        0
    }

    fn status(&self) -> StoreFuture<'_, StoreStatus> {
        self.with(|it| it.status())
    }

    fn check_ready(&self) -> StoreFuture<'_, ()> {
        self.with(|_| ())
    }
}
