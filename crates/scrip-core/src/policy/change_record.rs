//! The writes of a policy change, decided inside the transaction.

use crate::{
    error::Error,
    policy::{PolicyRecords, PolicySeal, PolicyWrite},
    store::CommitExtras,
};

/// Decides a policy change inside the transaction, on the current policy of a tenant.
pub type DecidePolicy = Box<dyn FnOnce(PolicyRecords) -> Result<PolicyEdit, Error> + Send>;

/// The writes of a policy change and the new seal.
#[derive(Debug)]
pub struct PolicyEdit {
    pub writes: Vec<PolicyWrite>,
    pub seal: PolicySeal,
    pub extras: CommitExtras,
}
