//! Changes of policy.

use scrip_core::{
    audit::{AuditRecord, DeletedTenant},
    error::Error,
    id::TenantId,
    policy::{
        DecidePolicy, DirectoryRecords, PolicyPermit, PolicyRecords, PolicyWrite, SystemKeys,
        TenantDeletion,
    },
    store::{ChangeOutcome, DirectoryStore, PolicyStore, StoreError, StoreFuture},
    time::Timestamp,
};

use crate::memory::{MemoryStore, MemoryStoreState};

impl DirectoryStore for MemoryStore {
    fn load_directory(&self) -> StoreFuture<'_, DirectoryRecords> {
        self.with(|it| it.directory.clone())
    }

    fn insert_system_keys(&self, keys: SystemKeys) -> StoreFuture<'_, ()> {
        self.attempt(move |it| {
            if it.directory.system_keys.is_some() {
                return Err(StoreError::Unavailable("there are keys".into()));
            }
            it.directory.system_keys = Some(keys);
            Ok(())
        })
    }

    fn directory_version(&self) -> StoreFuture<'_, i64> {
        self.with(|it| it.directory.version)
    }
}

impl PolicyStore for MemoryStore {
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()> {
        self.with(move |state| {
            let audit = &audit;
            let id = records.tenant.record.id;
            state.append_audit_record(id, audit, &id.to_string(), "done");
            state.directory.tenants.push(records);
            state.directory.version += 1;
        })
    }

    fn change_policy(
        &self,
        permit: PolicyPermit,
        decide: DecidePolicy,
    ) -> StoreFuture<'_, Result<(), Error>> {
        self.attempt(move |state| {
            let tenant = permit.tenant().id;
            let is = |it: &PolicyRecords| it.tenant.record.id == tenant;
            let Some(at) = state.directory.tenants.iter().position(is) else {
                return Ok(Err(Error::NotFound));
            };
            let Some(found) = state.directory.tenants.get(at) else {
                return Ok(Err(Error::NotFound));
            };
            let edit = match decide(found.clone()) {
                Ok(edit) => edit,
                Err(error) => return Ok(Err(error)),
            };
            let mut known = state.directory.tenants.iter().flat_map(|it| &it.api_keys);
            let taken = |write: &PolicyWrite| {
                let PolicyWrite::PutApiKey(new) = write else { return false };
                known.any(|it| {
                    it.record.digest == new.record.digest && it.record.id != new.record.id
                })
            };
            if edit.writes.iter().any(taken) {
                return Ok(Err(Error::Conflict { reason: "this key is in use" }));
            }
            if let Some(records) = state.directory.tenants.get_mut(at) {
                edit.writes.iter().for_each(|it| records.apply(it));
                records.seal = edit.seal;
            }
            state.directory.version += 1;
            state.insert_commit_extras(tenant, edit.extras, "done")?;
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
            state.audit.set_tenant_end(id, audit, deletion.retention_seconds());
            Ok(ChangeOutcome::Done)
        })
    }

    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>> {
        self.with(|it| it.deleted_tenants.clone())
    }

    fn purge_tenants(&self, tenants: Vec<TenantId>, _now: Timestamp) -> StoreFuture<'_, usize> {
        self.with(move |it| {
            let rows = |it: &MemoryStoreState| {
                it.tokens.len() + it.threeds_sessions.len() + it.events.len()
            };
            let had = rows(it);
            let existing: Vec<_> =
                it.directory.tenants.iter().map(|it| it.tenant.record.id).collect();
            let deleted: Vec<_> = tenants.into_iter().filter(|it| !existing.contains(it)).collect();
            it.tokens.retain(|it| !deleted.contains(&it.tenant));
            it.intents.retain(|(tenant, _)| !deleted.contains(tenant));
            it.threeds_sessions.retain(|it| !deleted.contains(&it.tenant));
            it.events.retain(|(_, it)| !deleted.contains(&it.tenant));
            it.usage.remove_tenants(&deleted);
            it.guesses.retain(|(tenant, _)| !deleted.contains(tenant));
            had - rows(it)
        })
    }
}
