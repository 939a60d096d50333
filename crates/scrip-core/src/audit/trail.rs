//! The audit trail of a vault: its key, and whether reads are recorded.

use std::sync::{Arc, OnceLock};

use scrip_seal::AuditKey;

use crate::{Error, Timestamp, audit::AuditRecord, types::Operation};

/// Whether reads and rejected requests are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadRecording {
    /// On disk, before the response.
    #[default]
    Durable,
    /// Not recorded: the vault cannot show who read which data.
    Off,
}

/// The audit trail of a vault. It has no key until the vault is unsealed.
#[derive(Debug, Default)]
pub struct AuditTrail {
    key: OnceLock<Arc<AuditKey>>,
    pub(crate) read_recording: ReadRecording,
    /// The operating-system user of an operator's command.
    os_user: OnceLock<Arc<str>>,
}

impl AuditTrail {
    pub fn new(read_recording: ReadRecording) -> Self {
        Self { key: OnceLock::new(), read_recording, os_user: OnceLock::new() }
    }

    /// Sets the operating-system user for all records of this command.
    pub fn set_os_user(&self, os_user: &Arc<str>) {
        self.os_user.get_or_init(|| Arc::clone(os_user));
    }

    /// A trail with the same key, for the action of an operator on a running server. All its records
    /// name the operating-system user.
    pub fn for_os_user(&self, os_user: &Arc<str>) -> Self {
        let Self { key, read_recording, os_user: _ } = self;
        let trail = Self::new(*read_recording);
        if let Some(key) = key.get() {
            trail.set_key(key);
        }
        trail.set_os_user(os_user);
        trail
    }

    /// Sets the key of the vault. A later call replaces the keys of the first one, for all holders.
    pub fn set_key(&self, key: &Arc<AuditKey>) {
        let present = self.key.get_or_init(|| Arc::clone(key));
        if !Arc::ptr_eq(present, key) {
            present.replace_with(key);
        }
    }

    pub fn key(&self) -> Option<&Arc<AuditKey>> {
        self.key.get()
    }

    /// A record of an action of the vault; `None` while the vault is sealed.
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
