//! What a change of policy writes, decided inside the transaction.

use crate::{
    error::Error,
    policy::{PolicyRecords, PolicySeal, PolicyWrite},
    store::CommitExtras,
};

/// Runs inside the transaction, on a tenant's policy as it is then.
pub type DecidePolicy = Box<dyn FnOnce(PolicyRecords) -> Result<PolicyEdit, Error> + Send>;

/// What a change of policy writes.
#[derive(Debug)]
pub struct PolicyEdit {
    pub writes: Vec<PolicyWrite>,
    pub seal: PolicySeal,
    pub extras: CommitExtras,
}
