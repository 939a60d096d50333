//! The requests of dual control.

use crate::{
    approval::{ApprovalChange, StoredApprovals},
    change::ChangeOutcome,
    types::StoreFuture,
};

/// The state of dual control and its requests. Each method is one transaction.
pub trait ApprovalStore: Send + Sync {
    fn load_approvals(&self) -> StoreFuture<'_, StoredApprovals>;

    /// Writes the state and the changed requests. [`ChangeOutcome::Stale`] if the state is not the
    /// expected one, so that an approval is used once.
    fn change_approvals(&self, change: ApprovalChange) -> StoreFuture<'_, ChangeOutcome>;
}
