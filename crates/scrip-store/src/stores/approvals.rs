//! The requests of dual control.

use scrip_core::{
    approval::{ApprovalChange, StoredApprovals},
    change::ChangeOutcome,
    store::ApprovalStore,
    types::{StoreFuture, id::TenantId},
};

use crate::{
    shared::policy::approvals::{change_approvals, load_approvals},
    stores::both_engines::for_both_engines,
};

for_both_engines! {
impl ApprovalStore {
    fn load_approvals(&self) -> StoreFuture<'_, StoredApprovals> {
        Box::pin(async move { load_approvals(&self.for_all_tenants()).await })
    }

    fn change_approvals(&self, change: ApprovalChange) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(TenantId::VAULT, async move |it| change_approvals(it, &change).await))
    }
}
}
