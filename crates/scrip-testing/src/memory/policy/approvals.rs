//! The requests of dual control.

use scrip_core::{
    approval::{ApprovalChange, StoredApprovals, StoredDualControl},
    change::ChangeOutcome,
    store::ApprovalStore,
    types::StoreFuture,
};

use crate::memory::MemoryStore;

impl ApprovalStore for MemoryStore {
    fn load_approvals(&self) -> StoreFuture<'_, StoredApprovals> {
        self.with(|it| it.approvals.clone())
    }

    fn change_approvals(&self, change: ApprovalChange) -> StoreFuture<'_, ChangeOutcome> {
        self.with(move |it| {
            let approvals = &mut it.approvals;
            if approvals.dual_control != change.expected {
                return ChangeOutcome::Stale;
            }
            approvals.dual_control = StoredDualControl::Present(change.dual_control);
            approvals.requests.retain(|it| !change.deleted.contains(&it.id));
            if let Some(request) = change.put {
                approvals.requests.retain(|it| it.id != request.id);
                approvals.requests.push(request);
                approvals.requests.sort_by_key(|it| (it.requested_at, it.id.clone()));
            }
            ChangeOutcome::Done
        })
    }
}
