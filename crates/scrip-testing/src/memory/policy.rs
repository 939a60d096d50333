//! Changes of policy.

use scrip_core::{
    audit::AuditRecord,
    caller::TenantDeletion,
    error::Error,
    id::TenantId,
    policy::{PolicyRecords, PolicyWrite},
    store::{Changed, DecidePolicy, StoreError},
};

use super::State;

impl State {
    pub(super) fn change_policy(
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
        self.beside(tenant, edit.written, "done")?;
        Ok(Ok(()))
    }

    pub(super) fn insert_tenant(&mut self, records: PolicyRecords, audit: &AuditRecord) {
        let id = records.tenant.record.id;
        self.record(id, audit, &id.to_string(), "done");
        self.directory.tenants.push(records);
        self.directory.version += 1;
    }

    pub(super) fn delete_tenant(
        &mut self,
        deletion: &TenantDeletion,
        audit: &AuditRecord,
    ) -> Result<Changed, Error> {
        let id = deletion.tenant();
        let found = self.directory.tenants.iter().find(|it| it.tenant.record.id == id);
        let Some(found) = found else { return Ok(Changed::Stale) };
        deletion.check(found)?;
        self.directory.tenants.retain(|it| it.tenant.record.id != id);
        self.directory.version += 1;
        self.deleted_tenants.push(audit.deleted_tenant(id));
        self.record(id, audit, &id.to_string(), "done");
        self.audit.end(id, audit, deletion.retention_seconds());
        Ok(Changed::Done)
    }
}
