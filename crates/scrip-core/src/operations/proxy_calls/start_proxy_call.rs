//! Records that a call is about to be sent, on disk before its first byte leaves.

use std::sync::Arc;

use crate::{
    Error, Timestamp, Vault,
    audit::AuditRecord,
    card::contains_card_number,
    events::{
        EventSource,
        payload::proxy::{ProxyInvocation, describe_invocation},
    },
    idempotency::{
        IdempotencyClaim,
        proxy_call::{CallSealer, CallState, CallTarget},
    },
    operations::proxy_calls::use_tokens::{UsePurpose, UsedTokens},
    policy::{Actor, Caller, LookupPermit, RequestOrigin, Tenant, UseRight},
    read_log::{ReadLogBatch, ReadLogEntry},
    types::{EventType, Operation, id::TenantId},
};

/// The sender of a call.
#[derive(Debug, Clone, Copy)]
pub enum CallSender<'a> {
    Caller {
        caller: &'a Caller,
        right: UseRight,
    },
    /// A client without an API key, which has the key or host name of the proxy.
    Keyless {
        tenant: &'a Arc<Tenant>,
        origin: &'a RequestOrigin,
    },
}

impl<'a> CallSender<'a> {
    fn tenant(self) -> &'a Arc<Tenant> {
        match self {
            Self::Caller { caller, .. } => caller.principal().tenant(),
            Self::Keyless { tenant, .. } => tenant,
        }
    }
}

/// The destination of a call, for its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDestination {
    /// The id of the proxy; `None` for an ephemeral one.
    pub proxy: Option<String>,
    pub host: String,
    pub method: &'static str,
}

/// A call that may have been sent. Pass it to `finish_proxy_call`.
#[derive(Debug)]
pub struct StartedCall {
    pub(super) audit: CallAudit,
    pub(super) record: Option<StartedRecord>,
    /// The tokens that the transforms of the call created.
    created_tokens: Vec<String>,
    event: Option<Box<InvocationEvent>>,
}

/// The event of a call, which is raised with its outcome.
#[derive(Debug)]
struct InvocationEvent {
    tenant: Arc<Tenant>,
    invocation: ProxyInvocation,
}

/// The common parts of all log entries of a call.
#[derive(Debug)]
pub(super) struct CallAudit {
    tenant: TenantId,
    audit: AuditRecord,
    destination: CallDestination,
}

/// The record of the idempotency key of a started call.
#[derive(Debug)]
pub(super) struct StartedRecord {
    pub(super) permit: LookupPermit,
    pub(super) caller: Caller,
    /// Blocks other calls with the key until the outcome is stored.
    pub(super) claim: IdempotencyClaim,
    pub(super) created_at: Timestamp,
    right: UseRight,
    targets: Vec<CallTarget>,
    tokens: Vec<String>,
    answer_ends_at: Option<Timestamp>,
}

/// Records the tokens that the call uses, or the call itself if it uses none. With an idempotency
/// key, also records that the call may have been sent, in the same transaction.
///
/// A proxied call is recorded even if the recording of reads is off.
///
/// `describe` is called if a webhook wants the event of the call. Its result has no answer yet: see
/// [`StartedCall::invocation_mut`].
/// Errors: the call cannot be recorded, or another node sent a call with the same key: the call
/// must not be sent.
pub async fn start_proxy_call(
    vault: &Vault,
    sender: CallSender<'_>,
    destination: CallDestination,
    used: &UsedTokens,
    claim: Option<IdempotencyClaim>,
    describe: impl FnOnce() -> ProxyInvocation,
) -> Result<StartedCall, Error> {
    let now = vault.clock.now();
    let tenant = sender.tenant();
    let event = tenant
        .wants_event(EventType::ProxyInvoked)
        .then(|| Box::new(InvocationEvent { tenant: Arc::clone(tenant), invocation: describe() }));
    let audit = CallAudit::new(sender, destination, now);
    let mut started = StartedCall { audit, record: None, created_tokens: Vec::new(), event };
    let batch = started.audit.start_batch(used);
    match (sender, claim) {
        (CallSender::Caller { caller, right }, Some(claim)) => {
            let record = StartedRecord {
                permit: caller.permit_use_lookup(right)?,
                caller: caller.clone(),
                claim,
                created_at: now,
                right,
                targets: used.targets(caller),
                tokens: used.token_ids(),
                answer_ends_at: used.answer_ends_at(),
            };
            let sealed =
                record.sealer().seal_record(&vault.epoch_keys, &CallState::MaybeSent, now)?;
            vault.store.insert_call_record(&record.permit, sealed, batch).await?;
            started.record = Some(record);
        }
        (CallSender::Caller { .. } | CallSender::Keyless { .. }, _) => {
            vault.store.append_read_log(batch).await?;
        }
    }
    Ok(started)
}

impl StartedCall {
    /// The data of the event of the call, to complete it before the outcome is recorded. `None` if
    /// no webhook wants the event.
    pub fn invocation_mut(&mut self) -> Option<&mut ProxyInvocation> {
        self.event.as_mut().map(|it| &mut it.invocation)
    }

    /// Adds tokens that transforms of the call created. The record of the outcome names them and the
    /// sender of the call; the records of their creation name the application of the proxy.
    pub fn add_created_tokens(&mut self, ids: &[String]) {
        self.created_tokens.extend_from_slice(ids);
    }

    /// The log entry for the outcome of the call, with its event.
    pub(super) fn outcome_batch(
        &self,
        outcome: &'static str,
        status: Option<u16>,
        now: Timestamp,
        fill_random: fn(&mut [u8]),
    ) -> ReadLogBatch {
        let mut batch = self.audit.outcome_batch(outcome, status, now, &self.created_tokens);
        if let Some(event) = &self.event {
            batch.deliveries = EventSource::new(&event.tenant, &batch.audit, fill_random)
                .raise(EventType::ProxyInvoked, || describe_invocation(&event.invocation));
        }
        batch
    }
}

impl StartedRecord {
    pub(super) fn sealer(&self) -> CallSealer<'_> {
        CallSealer {
            caller: &self.caller,
            digests: self.claim.digests,
            created_at: self.created_at,
            right: self.right,
            targets: self.targets.clone(),
            tokens: self.tokens.clone(),
            answer_ends_at: self.answer_ends_at,
        }
    }
}

/// The outcome of a token that a proxied call stored.
const COLLECTED: &str = "collected_in_call";

impl CallAudit {
    pub(super) fn new(
        sender: CallSender<'_>,
        destination: CallDestination,
        now: Timestamp,
    ) -> Self {
        let audit = match sender {
            CallSender::Caller { caller, .. } => {
                AuditRecord::new(Operation::InvokeProxy, caller, now)
            }
            CallSender::Keyless { tenant, origin } => {
                let (actor, operation) = (Actor::Unauthenticated, Operation::InvokeProxy);
                AuditRecord::for_request(actor, operation, origin, &tenant.audit_key, now)
            }
        };
        Self { tenant: sender.tenant().id, audit, destination }
    }

    fn start_batch(&self, used: &UsedTokens) -> ReadLogBatch {
        let mut entries = used.entries(UsePurpose::Call);
        if entries.is_empty() {
            entries.push(ReadLogEntry::new(self.entity(), "call_started"));
        }
        self.batch(self.audit.at, None, entries)
    }

    /// The entries for the tokens of a call that was rejected.
    pub(super) fn rejection_batch(&self, used: &UsedTokens) -> ReadLogBatch {
        self.batch(self.audit.at, None, used.entries(UsePurpose::RejectedCall))
    }

    /// The entry for a call that is not sent, and for the tokens that it created before.
    pub(super) fn unsent_batch(&self, outcome: &'static str, created: &[String]) -> ReadLogBatch {
        self.outcome_batch(outcome, None, self.audit.at, created)
    }

    /// The entry for the outcome of the call.
    fn outcome_batch(
        &self,
        outcome: &'static str,
        status: Option<u16>,
        now: Timestamp,
        created_tokens: &[String],
    ) -> ReadLogBatch {
        let mut entries = vec![ReadLogEntry::new(self.entity(), outcome)];
        entries.extend(created_tokens.iter().map(|id| ReadLogEntry {
            operation: Some(Operation::CreateToken),
            ..ReadLogEntry::new(id.as_str(), COLLECTED)
        }));
        self.batch(now, status, entries)
    }

    fn entity(&self) -> String {
        self.destination.proxy.clone().unwrap_or_default()
    }

    fn batch(
        &self,
        at: Timestamp,
        status: Option<u16>,
        entries: Vec<ReadLogEntry>,
    ) -> ReadLogBatch {
        let mut audit = self.audit.clone();
        (audit.at, audit.detail) = (at, Some(self.destination.describe(status).into()));
        ReadLogBatch { tenant: self.tenant, audit, entries, deliveries: Vec::new() }
    }
}

impl CallDestination {
    /// Method, host, status of the answer, and proxy. A client can choose the host, so a host that
    /// may contain a card number is omitted.
    fn describe(&self, status: Option<u16>) -> String {
        let Self { proxy, host, method } = self;
        let host = if contains_card_number(host) { "(host omitted)" } else { host };
        let mut description = format!("{method} {host}");
        if let Some(status) = status {
            description.push_str(&format!(" {status}"));
        }
        if let Some(proxy) = proxy {
            description.push_str(", proxy ");
            description.push_str(proxy);
        }
        description
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_of_a_call_omits_a_host_with_a_card_number() {
        let describe = |host: &str, proxy: Option<&str>, status| {
            let (proxy, host) = (proxy.map(str::to_owned), host.to_owned());
            CallDestination { proxy, host, method: "POST" }.describe(status)
        };
        assert_eq!(describe("api.example.com", None, None), "POST api.example.com");
        assert_eq!(
            describe("api.example.com", Some("p-1"), Some(402)),
            "POST api.example.com 402, proxy p-1"
        );
        assert_eq!(describe("4242424242424242.example.com", None, None), "POST (host omitted)");
    }
}
