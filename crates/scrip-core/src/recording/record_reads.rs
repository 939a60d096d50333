//! Writes reads and commands to the read log, on disk before the response is sent.

use std::sync::Arc;

use crate::{
    Error, Vault,
    audit::{AuditRecord, ReadRecording},
    card::TokenType,
    events::{EventSource, payload::token::describe_token_read},
    policy::{Actor, Caller, PolicyPermit},
    read_log::{ReadLogBatch, ReadLogEntry},
    types::{
        EventType, Operation,
        id::{TenantId, TokenId},
    },
};

/// The maximum number of deliveries that one transaction stores for the tokens of a page. A page of a
/// hundred tokens has a delivery for each token and webhook.
const DELIVERIES_PER_TRANSACTION: usize = 100;

impl Vault {
    /// Records the reads of a caller. Call it before the data is returned.
    /// Errors: the reads cannot be recorded, so no data may be returned.
    pub async fn record_reads(
        &self,
        caller: &Caller,
        operation: Operation,
        entries: Vec<ReadLogEntry>,
    ) -> Result<(), Error> {
        let audit = AuditRecord::new(operation, caller, self.clock.now());
        self.append_to_read_log(ReadLogBatch {
            tenant: caller.tenant().id,
            audit,
            entries,
            deliveries: Vec::new(),
        })
        .await
    }

    /// As [`Vault::record_reads`], for a response that shows these tokens. Each of them has an event,
    /// which is the same for all callers: it does not say how much a caller saw.
    ///
    /// Errors: as [`Vault::record_reads`].
    pub(crate) async fn record_token_reads<'a>(
        &self,
        caller: &Caller,
        operation: Operation,
        entries: Vec<ReadLogEntry>,
        tokens: impl Iterator<Item = (&'a TokenId, TokenType)>,
    ) -> Result<(), Error> {
        let tenant = caller.tenant();
        let audit = AuditRecord::new(operation, caller, self.clock.now());
        let mut deliveries = Vec::new();
        if tenant.wants_event(EventType::TokenRead) {
            let source = EventSource::new(tenant, &audit, self.fill_random);
            deliveries.extend(tokens.flat_map(|(id, token_type)| {
                source.raise(EventType::TokenRead, || describe_token_read(id, token_type))
            }));
        }
        let batch = |entries, deliveries| ReadLogBatch {
            tenant: tenant.id,
            audit: audit.clone(),
            entries,
            deliveries,
        };
        // The data is returned after the last transaction. Other writes take turns with them.
        while deliveries.len() > DELIVERIES_PER_TRANSACTION {
            let last =
                deliveries.split_off(deliveries.len().saturating_sub(DELIVERIES_PER_TRANSACTION));
            self.append_to_read_log(batch(Vec::new(), last)).await?;
        }
        self.append_to_read_log(batch(entries, deliveries)).await
    }

    /// As [`Vault::record_reads`], for a read of policy.
    /// Errors: as [`Vault::record_reads`].
    pub(crate) async fn record_policy_read(
        &self,
        permit: &PolicyPermit,
        operation: Operation,
        entity: impl Into<String>,
    ) -> Result<(), Error> {
        let audit = AuditRecord::for_policy(operation, permit, self.clock.now());
        let entries = vec![ReadLogEntry::new(entity, "read")];
        self.append_to_read_log(ReadLogBatch {
            tenant: permit.tenant().id,
            audit,
            entries,
            deliveries: Vec::new(),
        })
        .await
    }

    /// Records an operator's command in the vault's own chain, even if the recording of reads is
    /// off.
    /// Errors: the vault is sealed, or the store is unavailable.
    pub async fn record_command(&self, command: &str, outcome: &'static str) -> Result<(), Error> {
        self.record_in_vault_chain(Operation::RunCommand, ReadLogEntry::new(command, outcome)).await
    }

    pub(crate) async fn record_in_vault_chain(
        &self,
        operation: Operation,
        entry: ReadLogEntry,
    ) -> Result<(), Error> {
        let audit = self.audit_trail.record_for_operator(operation, self.clock.now())?;
        let batch = ReadLogBatch {
            tenant: TenantId::VAULT,
            audit,
            entries: vec![entry],
            deliveries: Vec::new(),
        };
        Ok(self.store.append_read_log(batch).await?)
    }

    /// Records the number of requests without a valid API key from one client address, in the
    /// vault's own chain. Does nothing while the vault is sealed.
    pub async fn record_failed_authentication(
        &self,
        address: Arc<str>,
        repeats: i64,
    ) -> Result<(), Error> {
        let Some(key) = self.audit_trail.key() else { return Ok(()) };
        let (operation, now) = (Operation::Authenticate, self.clock.now());
        let mut audit = AuditRecord::without_request(Actor::Unauthenticated, operation, key, now);
        audit.address = address;
        audit.repeats = Some(repeats);
        let entries = vec![ReadLogEntry::new("", "unauthenticated")];
        self.append_to_read_log(ReadLogBatch {
            tenant: TenantId::VAULT,
            audit,
            entries,
            deliveries: Vec::new(),
        })
        .await
    }

    /// Without the recording of reads, the events of the reads are still stored: a tenant that
    /// subscribes to them does not depend on a setting of the server.
    async fn append_to_read_log(&self, mut batch: ReadLogBatch) -> Result<(), Error> {
        match self.audit_trail.read_recording {
            ReadRecording::Off => batch.entries.clear(),
            ReadRecording::Durable => (),
        }
        if batch.entries.is_empty() && batch.deliveries.is_empty() {
            return Ok(());
        }
        Ok(self.store.append_read_log(batch).await?)
    }
}
