//! What a vault records by itself, and how reads are recorded: on disk before the answer leaves.

use std::sync::{Arc, OnceLock};

use scrip_seal::AuditKey;

use crate::{
    Vault,
    audit::{AuditRecord, Operation, seen},
    card::holds_number,
    error::Error,
    id::TenantId,
    policy::{
        caller::{Caller, Mandate},
        permission::Transform,
    },
    store::TokenRecord,
    time::{Month, Timestamp},
    token::TokenView,
};

/// Whether reads, and requests that were refused, are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reads {
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
    reads: Reads,
    /// The operating-system user of an operator's command.
    os_user: OnceLock<Arc<str>>,
}

/// What one request saw, or was refused: one record for each entity, in one transaction.
#[derive(Debug)]
pub struct Access {
    pub tenant: TenantId,
    pub audit: AuditRecord,
    pub seen: Vec<Seen>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Nothing where there is none to name.
    pub entity: String,
    pub outcome: &'static str,
    /// When the token was made that was read: see [`Access::active`].
    pub created_at: Option<Timestamp>,
}

impl Access {
    /// The month in which an older token was read. One that was made in it is counted already.
    #[must_use]
    pub fn active(&self, seen: &Seen) -> Option<Month> {
        seen.created_at.and_then(|it| active(it, self.audit.at))
    }
}

/// The month of a use, when the token is from before it.
#[must_use]
pub fn active(created_at: Timestamp, used_at: Timestamp) -> Option<Month> {
    let month = Month::of(used_at);
    (Month::of(created_at) < month).then_some(month)
}

impl Seen {
    pub fn new(entity: impl Into<String>, outcome: &'static str) -> Self {
        Self { entity: entity.into(), outcome, created_at: None }
    }

    /// A token that is about to be shown by itself. To be in a list does not make it active.
    #[must_use]
    pub fn token(record: &TokenRecord, transform: Transform) -> Self {
        let created_at = Some(record.created_at);
        Self { created_at, ..Self::new(record.id.as_str(), seen(transform)) }
    }

    /// For a text that a client made up: one with a number in it that could be a card's is not
    /// written down.
    #[must_use]
    pub fn named(entity: &str, outcome: &'static str) -> Self {
        Self::new(if holds_number(entity) { "" } else { entity }, outcome)
    }
}

impl Seen {
    /// A list is one record: where it looked, and the most that it shows of any token.
    #[must_use]
    pub fn list(container: &str, tokens: &[TokenView]) -> Self {
        let shown = tokens.iter().filter_map(|it| it.detail.as_ref());
        let most = shown.map(|it| it.shown.transform).max();
        Self::named(container, most.map_or("empty", seen))
    }
}

impl AuditTrail {
    #[must_use]
    pub fn new(reads: Reads) -> Self {
        Self { key: OnceLock::new(), reads, os_user: OnceLock::new() }
    }

    /// Names the operating-system user in all records of this command.
    pub fn set_os_user(&self, os_user: &Arc<str>) {
        self.os_user.get_or_init(|| Arc::clone(os_user));
    }

    /// The first key stays: it is the vault's.
    pub fn open(&self, key: &Arc<AuditKey>) {
        self.key.get_or_init(|| Arc::clone(key));
    }

    #[must_use]
    pub fn key(&self) -> Option<&Arc<AuditKey>> {
        self.key.get()
    }

    /// What nobody asked for; nothing while the vault is sealed.
    #[must_use]
    pub fn of_vault(&self, operation: Operation, at: Timestamp) -> Option<AuditRecord> {
        self.key().map(|key| AuditRecord::of_vault(operation, key, at))
    }

    pub(crate) fn of_operator(
        &self,
        operation: Operation,
        at: Timestamp,
    ) -> Result<AuditRecord, Error> {
        let key = self.key().ok_or_else(|| Error::Unavailable("the vault is sealed".into()))?;
        let os_user = self.os_user.get().cloned();
        Ok(AuditRecord { os_user, ..AuditRecord::of_operator(operation, key, at) })
    }
}

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
        let now = self.clock.now();
        let audit = AuditRecord::of_failed_authentication(address, repeats, key, now);
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
