//! What a vault records by itself, and how reads are recorded: on disk before the answer leaves.

use std::sync::{Arc, OnceLock};

use scrip_seal::AuditKey;

use crate::{
    Error, Timestamp,
    audit::{AuditRecord, Operation},
};

/// Whether reads, and requests that were refused, are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadRecording {
    /// On disk, before the answer.
    #[default]
    Durable,
    /// Not at all: nobody will know who saw what.
    Off,
}

/// The trail of a vault: closed until the root key has opened it.
#[derive(Debug, Default)]
pub struct AuditTrail {
    key: OnceLock<Arc<AuditKey>>,
    pub(super) read_recording: ReadRecording,
    /// The operating-system user of an operator's command.
    os_user: OnceLock<Arc<str>>,
}

impl AuditTrail {
    #[must_use]
    pub fn new(read_recording: ReadRecording) -> Self {
        Self { key: OnceLock::new(), read_recording, os_user: OnceLock::new() }
    }

    /// Names the operating-system user in all records of this command.
    pub fn set_os_user(&self, os_user: &Arc<str>) {
        self.os_user.get_or_init(|| Arc::clone(os_user));
    }

    /// The first key stays: it is the vault's.
    pub fn set_key(&self, key: &Arc<AuditKey>) {
        self.key.get_or_init(|| Arc::clone(key));
    }

    #[must_use]
    pub fn key(&self) -> Option<&Arc<AuditKey>> {
        self.key.get()
    }

    /// What nobody asked for; nothing while the vault is sealed.
    #[must_use]
    pub fn record_for_vault(&self, operation: Operation, at: Timestamp) -> Option<AuditRecord> {
        self.key().map(|key| AuditRecord::for_vault(operation, key, at))
    }

    pub(crate) fn record_for_operator(
        &self,
        operation: Operation,
        at: Timestamp,
    ) -> Result<AuditRecord, Error> {
        let key = self.key().ok_or_else(|| Error::Unavailable("the vault is sealed".into()))?;
        let os_user = self.os_user.get().cloned();
        Ok(AuditRecord { os_user, ..AuditRecord::for_operator(operation, key, at) })
    }
}
