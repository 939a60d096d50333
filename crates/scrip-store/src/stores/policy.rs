//! Tenants and policy changes.

use scrip_core::{
    Error, Timestamp,
    audit::{AuditRecord, DeletedTenant},
    change::{ChangeOutcome, DecidePolicyRestore, LoadedPolicy, PolicyEdit},
    policy::{PolicyPermit, PolicyRecords, TenantDeletion},
    store::{FinishedPass, PolicyStore},
    types::{StoreError, StoreFuture, id::TenantId},
};

use crate::{
    policy_turns::ChangeTurn,
    shared::{
        key_rotations::finish_pass,
        policy::{
            changes::{change_policy, delete_tenant, insert_tenant},
            deletions::list_deleted_tenants,
            restore::restore_policy,
        },
    },
    stores::both_engines::for_both_engines,
};

for_both_engines! {
impl PolicyStore {
    fn insert_tenant(&self, records: PolicyRecords, audit: AuditRecord) -> StoreFuture<'_, ()> {
        let tenant = records.tenant.record.id;
        Box::pin(self.write(tenant, async move |it| insert_tenant(it, &records, &audit).await))
    }

    fn load_policy<'a>(
        &'a self,
        permit: &'a PolicyPermit,
    ) -> StoreFuture<'a, Result<LoadedPolicy, Error>> {
        let tenant = permit.tenant().id;
        Box::pin(async move {
            let guard = self.policy_turns.wait(tenant).await;
            let turn = ChangeTurn::new(guard, self.wait_for_processes().await);
            let loaded = self.read_policy(tenant).await;
            let records = match loaded {
                Ok(Some(records)) => records,
                Ok(None) => return Ok(Err(Error::NotFound)),
                Err(StoreError::Corrupt(reason)) => {
                    return Ok(Err(Error::Unavailable(reason.into())));
                }
                Err(
                    error @ (StoreError::Busy
                    | StoreError::AlreadyCompleted
                    | StoreError::Unavailable(_)),
                ) => return Err(error),
            };
            Ok(Ok(LoadedPolicy { records, turn: Some(Box::new(turn)) }))
        })
    }

    fn change_policy(
        &self,
        permit: PolicyPermit,
        edit: PolicyEdit,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| change_policy(it, tenant, edit).await))
    }

    fn destroy_sealing_keys(
        &self,
        permit: PolicyPermit,
        finished: Option<FinishedPass>,
        edit: PolicyEdit,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>> {
        let tenant = permit.tenant().id;
        let change = self.write(tenant, async move |it| {
            let outcome = match finished {
                Some(finished) => finish_pass(it, tenant, finished).await?,
                None => ChangeOutcome::Done,
            };
            if outcome == ChangeOutcome::Stale {
                let reason = "the rotation changed since the values were counted";
                return Ok(Err(Error::Conflict { reason }));
            }
            change_policy(it, tenant, edit).await
        });
        Box::pin(async move {
            let outcome = change.await?;
            self.erase_log().await?;
            Ok(outcome)
        })
    }

    fn restore_policy(
        &self,
        permit: PolicyPermit,
        decide: DecidePolicyRestore,
    ) -> StoreFuture<'_, Result<(), Error>> {
        let tenant = permit.tenant().id;
        Box::pin(self.write(tenant, async move |it| restore_policy(it, tenant, decide).await))
    }

    fn delete_tenant(
        &self,
        deletion: TenantDeletion,
        audit: AuditRecord,
    ) -> StoreFuture<'_, Result<ChangeOutcome, Error>> {
        let tenant = deletion.tenant();
        let delete = self.write(tenant, async move |it| delete_tenant(it, &deletion, &audit).await);
        Box::pin(async move {
            let outcome = delete.await?;
            self.erase_log().await?;
            Ok(outcome)
        })
    }

    fn list_deleted_tenants(&self) -> StoreFuture<'_, Vec<DeletedTenant>> {
        Box::pin(async move { list_deleted_tenants(&self.for_all_tenants()).await })
    }

    fn purge_tenants(&self, tenants: Vec<TenantId>, now: Timestamp) -> StoreFuture<'_, usize> {
        Box::pin(self.purge(tenants, now))
    }
}
}
