//! Policy changes.

mod approvals;
mod unlocks;

use scrip_core::{
    Error, Timestamp,
    audit::{AuditRecord, DeletedTenant},
    change::{ChangeOutcome, DecidePolicyRestore, LoadedPolicy, PolicyEdit, StoredPolicy},
    policy::{
        DirectoryRecords, EntityRow, PolicyPermit, PolicyRecords, PolicyWrite, SystemKeys,
        TenantDeletion,
    },
    store::{DirectoryStore, FinishedPass, KeyRotationStore, PolicyStore, RotationMark},
    types::{StoreError, StoreFuture, id::TenantId},
};
use scrip_seal::Sealed;

use crate::memory::{MemoryStore, state::MemoryStoreState};

impl DirectoryStore for MemoryStore {
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        self.with(|it| it.directory.clone())
    }

    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()> {
        self.attempt(move |it| {
            if it.directory.system_keys.is_some() {
                return Err(StoreError::Unavailable("the vault keys exist already".into()));
            }
            it.directory.system_keys = Some(keys);
            Ok(())
        })
    }

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        self.with(|it| it.directory.version)
    }

    fn find_webhook_signing_key(&self) -> StoreFuture<'_, Option<Sealed>> {
        self.with(|it| it.webhook_signing_key.clone())
    }

    fn insert_webhook_signing_key(&self, wrapped: Sealed) -> StoreFuture<'_, Sealed> {
        self.attempt(|it| {
            it.check_wrapping_version(&wrapped)?;
            Ok(it.webhook_signing_key.get_or_insert(wrapped).clone())
        })
    }
}

impl PolicyStore for MemoryStore {
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()> {
        self.attempt(move |state| {
            let audit = &audit;
            let id = records.tenant.record.id;
            state.check_wrapping_version(&records.tenant.record.keys.permanent)?;
            state.append_audit_record(id, audit, &id.to_string(), "done");
            state.directory.tenants.push(records);
            state.directory.version += 1;
            Ok(())
        })
    }

    fn load_policy<'a>(
        &'a self,
        permit: &'a PolicyPermit,
    ) -> StoreFuture<'a, Result<LoadedPolicy, Error>> {
        let tenant = permit.tenant().id;
        self.with(move |state| {
            let mut policies = state.directory.tenants.iter();
            let records = policies.find(|it| it.tenant.record.id == tenant).cloned();
            let records = records.ok_or(Error::NotFound)?;
            Ok(LoadedPolicy { records, turn: None })
        })
    }

    fn change_policy(
        &self,
        permit: PolicyPermit,
        edit: PolicyEdit,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>> {
        self.attempt(move |state| {
            let tenant = permit.tenant().id;
            let is_tenant = |it: &PolicyRecords| it.tenant.record.id == tenant;
            let Some(index) = state.directory.tenants.iter().position(is_tenant) else {
                return Ok(Err(Error::NotFound));
            };
            let Some(records) = state.directory.tenants.get(index) else {
                return Ok(Err(Error::NotFound));
            };
            if records.seal != edit.base {
                return Ok(Ok(ChangeOutcome::Stale));
            }
            let mut api_keys = state.directory.tenants.iter().flat_map(|it| &it.api_keys);
            let is_key_taken = |write: &PolicyWrite| {
                let PolicyWrite::Put(EntityRow::ApiKey(new_key)) = write else { return false };
                api_keys.any(|it| {
                    it.record.digest == new_key.record.digest && it.record.id != new_key.record.id
                })
            };
            if edit.writes.iter().any(is_key_taken) {
                return Ok(Err(Error::Conflict { reason: "this key is in use" }));
            }
            let is_proxy_taken = |write: &PolicyWrite| {
                let PolicyWrite::Put(EntityRow::Proxy(new)) = write else { return false };
                let mut proxies = state.directory.tenants.iter().flat_map(|it| &it.proxies);
                proxies.any(|it| {
                    let is_same_host =
                        it.record.host.is_some() && it.record.host == new.record.host;
                    (it.record.digest == new.record.digest || is_same_host)
                        && it.record.id != new.record.id
                })
            };
            if edit.writes.iter().any(is_proxy_taken) {
                return Ok(Err(Error::Conflict { reason: "another proxy has this host" }));
            }
            if let Some(records) = state.directory.tenants.get_mut(index) {
                edit.writes.iter().for_each(|it| records.apply(it));
                records.seal = edit.seal;
            }
            state.directory.version += 1;
            state.insert_commit_extras(tenant, edit.extras, "done")?;
            Ok(Ok(ChangeOutcome::Done))
        })
    }

    fn destroy_sealing_keys(
        &self,
        permit: PolicyPermit,
        finished: Option<FinishedPass>,
        edit: PolicyEdit,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>> {
        Box::pin(async move {
            let tenant = permit.tenant().id;
            let is_finished = |it: FinishedPass| self.lock().is_at_end_of_pass(tenant, it.pass);
            if !finished.is_none_or(is_finished) {
                return Ok(Err(Error::Conflict { reason: "the rotation changed" }));
            }
            let outcome = self.change_policy(permit, edit).await?;
            let is_done = matches!(outcome, Ok(ChangeOutcome::Done));
            if let Some(finished) = finished.filter(|_| is_done) {
                self.mark_key_rotation(tenant, RotationMark::Finished(finished.at)).await?;
            }
            Ok(outcome)
        })
    }

    fn restore_policy(
        &self,
        permit: PolicyPermit,
        decide: DecidePolicyRestore,
    ) -> StoreFuture<'_, Result<(), Error>> {
        self.attempt(move |state| {
            let tenant = permit.tenant().id;
            let policies = &state.directory.tenants;
            let records = policies.iter().find(|it| it.tenant.record.id == tenant).cloned();
            let deletions = state.deleted_tenants.iter().filter(|it| it.tenant == tenant);
            let deletions = deletions.copied().collect();
            let unreadable = Vec::new();
            let restore = match decide(StoredPolicy { records, unreadable, deletions }) {
                Ok(restore) => restore,
                Err(error) => return Ok(Err(error)),
            };
            state.directory.tenants.retain(|it| it.tenant.record.id != tenant);
            state.directory.tenants.push(restore.records);
            state.directory.version += 1;
            state.append_audit_record(tenant, &restore.audit, &tenant.to_string(), "done");
            Ok(Ok(()))
        })
    }

    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>> {
        self.with(move |state| {
            let audit = &audit;
            let id = deletion.tenant();
            let found = state.directory.tenants.iter().find(|it| it.tenant.record.id == id);
            let Some(found) = found else { return Ok(ChangeOutcome::Stale) };
            deletion.check(found)?;
            state.directory.tenants.retain(|it| it.tenant.record.id != id);
            state.directory.version += 1;
            state.deleted_tenants.push(audit.sign_deleted_tenant(id));
            state.append_audit_record(id, audit, &id.to_string(), "done");
            state.audit.close_tenant_chain(id, audit, deletion.retention_seconds());
            Ok(ChangeOutcome::Done)
        })
    }

    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>> {
        self.with(|it| it.deleted_tenants.clone())
    }

    fn purge_tenants(&self, tenants: Vec<TenantId>, _now: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let count_rows = |it: &MemoryStoreState| {
                it.tokens.len() + it.threeds_sessions.len() + it.deliveries.len()
            };
            let count_before = count_rows(it);
            let existing_tenants: Vec<_> =
                it.directory.tenants.iter().map(|it| it.tenant.record.id).collect();
            let deleted_tenants: Vec<_> =
                tenants.into_iter().filter(|it| !existing_tenants.contains(it)).collect();
            it.tokens.retain(|it| !deleted_tenants.contains(&it.tenant));
            it.intents.retain(|(tenant, _)| !deleted_tenants.contains(tenant));
            it.threeds_sessions.retain(|it| !deleted_tenants.contains(&it.tenant));
            it.deliveries.retain(|it| !deleted_tenants.contains(&it.key.tenant));
            it.usage.remove_tenants(&deleted_tenants);
            it.guesses.retain(|(tenant, _)| !deleted_tenants.contains(tenant));
            count_before - count_rows(it)
        })
    }
}
