//! Rotations of sealing keys.

use scrip_core::{
    change::ChangeOutcome,
    keys::{
        RotatedTable, RowKey, SealedRows,
        key_rotation::{KeyRotation, VersionCount},
    },
    store::{
        DigestChanges, KeyRotationStore, RotationLease, RotationMark, RotationStep, VersionPage,
    },
    types::{StoreFuture, id::TenantId},
};

use crate::{
    shared::key_rotations::{
        advance_key_rotation, claim_key_rotation, count_key_versions, insert_key_rotation,
        list_key_rotations, list_sealed_rows, mark_key_rotation, replace_digests,
    },
    stores::both_engines::for_both_engines,
};

for_both_engines! {
impl KeyRotationStore {
    fn list_key_rotations(&self) -> StoreFuture<'_, Vec<KeyRotation>> {
        Box::pin(async move { list_key_rotations(&self.for_all_tenants()).await })
    }

    fn insert_key_rotation(&self, rotation: KeyRotation) -> StoreFuture<'_, ChangeOutcome> {
        let tenant = rotation.tenant;
        Box::pin(self.write(tenant, async move |it| insert_key_rotation(it, &rotation).await))
    }

    fn mark_key_rotation(
        &self,
        tenant: TenantId,
        mark: RotationMark,
    ) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(tenant, async move |it| mark_key_rotation(it, tenant, mark).await))
    }

    fn claim_key_rotation(
        &self,
        tenant: TenantId,
        lease: RotationLease,
    ) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(tenant, async move |it| claim_key_rotation(it, tenant, lease).await))
    }

    fn advance_key_rotation(&self, step: RotationStep) -> StoreFuture<'_, ChangeOutcome> {
        let tenant = step.tenant;
        Box::pin(self.write(tenant, async move |it| advance_key_rotation(it, &step).await))
    }

    fn list_sealed_rows(
        &self,
        tenant: TenantId,
        table: RotatedTable,
        after: Option<RowKey>,
        rows_max: usize,
    ) -> StoreFuture<'_, SealedRows> {
        Box::pin(async move {
            list_sealed_rows(&self.for_tenant(tenant), tenant, table, after, rows_max).await
        })
    }

    fn replace_digests(&self, changes: DigestChanges) -> StoreFuture<'_, ()> {
        let tenant = changes.tenant;
        Box::pin(self.write(tenant, async move |it| replace_digests(it, &changes).await))
    }

    fn count_key_versions(
        &self,
        tenant: TenantId,
        table: RotatedTable,
        after: Option<RowKey>,
        rows_max: usize,
    ) -> StoreFuture<'_, VersionPage> {
        Box::pin(async move {
            count_key_versions(&self.for_tenant(tenant), tenant, table, after, rows_max).await
        })
    }

    fn count_other_key_versions(&self, tenant: TenantId) -> StoreFuture<'_, Vec<VersionCount>> {
        Box::pin(self.count_other_versions(tenant))
    }
}
}
