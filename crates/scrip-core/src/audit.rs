//! What is written down of every operation: who, what, when, from where. Never a value.

use std::{net::IpAddr, sync::Arc};

use crate::{caller::Caller, id::ApplicationId, time::Timestamp};

/// One name for an operation everywhere: its file, its tests, its metrics and its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    CreateToken,
    GetToken,
    UpdateToken,
    DeleteToken,
}

impl Operation {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateToken => "create_token",
            Self::GetToken => "get_token",
            Self::UpdateToken => "update_token",
            Self::DeleteToken => "delete_token",
        }
    }
}

/// Committed in the transaction of what it records. The entity is the token that the transaction
/// touched, and the outcome what became of it; only the engine knows both.
#[derive(Debug, Clone)]
pub struct AuditRecord {
    pub operation: Operation,
    pub actor: ApplicationId,
    pub trace: Arc<str>,
    pub address: IpAddr,
    pub at: Timestamp,
}

impl AuditRecord {
    #[must_use]
    pub fn new(operation: Operation, caller: &Caller, at: Timestamp) -> Self {
        let origin = caller.origin();
        Self {
            operation,
            actor: caller.application(),
            trace: Arc::clone(&origin.trace),
            address: origin.address,
            at,
        }
    }
}
