//! Reads are recorded: on disk before the response leaves.

use std::sync::Arc;

use crate::{
    Error, Vault,
    audit::{Access, AuditRecord, Operation, Reads, Seen},
    id::TenantId,
    policy::{Actor, Caller, Mandate},
};

impl Vault {
    /// Records what a caller is about to be shown. Only then may it be.
    ///
    /// # Errors
    /// It could not be written down, so nothing may be shown.
    pub async fn record_seen(
        &self,
        caller: &Caller,
        operation: Operation,
        seen: Vec<Seen>,
    ) -> Result<(), Error> {
        let audit = AuditRecord::new(operation, caller, self.clock.now());
        self.record(Access { tenant: caller.tenant().id, audit, seen }).await
    }

    /// The same of policy, which the caller's mandate lets it see.
    ///
    /// # Errors
    /// As [`Vault::record_seen`].
    pub(crate) async fn record_read(
        &self,
        mandate: &Mandate,
        operation: Operation,
        entity: impl Into<String>,
    ) -> Result<(), Error> {
        let audit = AuditRecord::of(operation, mandate, self.clock.now());
        let seen = vec![Seen::new(entity, "read")];
        self.record(Access { tenant: mandate.tenant().id, audit, seen }).await
    }

    /// Records an operator's command in the vault's own chain, whatever the settings say about
    /// reads.
    ///
    /// # Errors
    /// The vault is sealed, or the store did not answer.
    pub async fn record_command(&self, command: &str, outcome: &'static str) -> Result<(), Error> {
        self.record_of_vault(Operation::RunCommand, Seen::new(command, outcome)).await
    }

    pub(crate) async fn record_of_vault(
        &self,
        operation: Operation,
        seen: Seen,
    ) -> Result<(), Error> {
        let audit = self.audit.of_operator(operation, self.clock.now())?;
        let access = Access { tenant: TenantId::VAULT, audit, seen: vec![seen] };
        Ok(self.store.record_access(access).await?)
    }

    /// Records how many requests of one client address had no valid API key, in the vault's own
    /// chain. Nothing while the vault is sealed.
    ///
    /// # Errors
    /// The store did not answer.
    pub async fn record_failed_authentication(
        &self,
        address: Arc<str>,
        repeats: i64,
    ) -> Result<(), Error> {
        let Some(key) = self.audit.key() else { return Ok(()) };
        let (operation, now) = (Operation::Authenticate, self.clock.now());
        let record = AuditRecord::of_nobody(Actor::Outsider, operation, key, now);
        let audit = AuditRecord { address, repeats: Some(repeats), ..record };
        let seen = vec![Seen::new("", "unauthenticated")];
        self.record(Access { tenant: TenantId::VAULT, audit, seen }).await
    }

    async fn record(&self, access: Access) -> Result<(), Error> {
        match self.audit.reads {
            Reads::Off => Ok(()),
            Reads::Durable if access.seen.is_empty() => Ok(()),
            Reads::Durable => Ok(self.store.record_access(access).await?),
        }
    }
}
