//! A loaded 3DS session: read, changed by the state machine, and written if no other request
//! changed it.

use std::sync::Arc;

use scrip_seal::Sealed;
use scrip_threeds::{
    code::MethodCompletion,
    session::{
        MethodState, StateMachineEffect, StateMachineEvent, ThreeDsPhase, ThreeDsRejection,
        ThreeDsSession, UnixSeconds,
    },
};

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::AuditRecord,
    change::ChangeOutcome,
    events::EventSource,
    idempotency::IdempotencyRecord,
    policy::{AccessTarget, Actor, Caller, Directory, Permit, RequestOrigin, Tenant},
    threeds::{
        CardReference, ConvertedIntent, ThreeDsSessionBody, ThreeDsSessionRecord,
        ThreeDsSessionView, ThreeDsSessionWrite,
    },
    threeds_session::{FoundCard, find_card, raise_session_events},
    types::{
        Containers, Operation, Permission, error,
        id::{CardNumberVersion, ThreeDsSessionId},
    },
};

/// The number of attempts before a conflict is reported.
pub(crate) const SESSION_ATTEMPTS_MAX: u32 = 16;

pub(crate) fn session_conflict_error() -> Error {
    Error::Conflict { reason: "other requests are changing the session; try again" }
}

/// A session's row and its opened body.
#[derive(Debug, Clone)]
pub(crate) struct LoadedSession {
    pub(crate) record: ThreeDsSessionRecord,
    pub(crate) body: ThreeDsSessionBody,
}

/// Checks that the operator enabled 3-D Secure for the tenant.
pub(crate) fn check_threeds_enabled(tenant: &Tenant) -> Result<(), Error> {
    if tenant.quotas.threeds_access {
        return Ok(());
    }
    Err(Error::Forbidden(error::Denial::ThreeDsDisabled))
}

/// A session that the caller may use, and its card.
#[derive(Debug)]
pub(crate) struct OpenedSession {
    pub(crate) session: LoadedSession,
    /// `None` when the card was deleted.
    pub(crate) card: Option<FoundCard>,
    /// The permit for the containers of the card; after its deletion, for its last known
    /// containers.
    pub(crate) permit: Permit,
}

/// Loads a live session of the caller's tenant, and its card.
/// Errors: there is no such session, or the caller has no right in the containers of its card.
pub(crate) async fn load_session(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    id: ThreeDsSessionId,
) -> Result<OpenedSession, Error> {
    check_threeds_enabled(caller.tenant())?;
    let lookup = caller.permit_lookup(permission)?;
    let row = vault.store.find_threeds_session(lookup, id, vault.clock.latest()).await?;
    let session =
        LoadedSession::open(caller.tenant(), row.ok_or(Error::NotFound)?, vault.clock.latest())?;
    let (reference, containers) = session.card(caller.tenant())?;
    let card = find_card(vault, caller, permission, &reference).await?;
    let permit = match &card {
        Some(card) => card.permit.recheck()?,
        None => {
            let target = AccessTarget { containers: &containers, id: reference.token() };
            caller.permit(permission, target)?
        }
    };
    Ok(OpenedSession { session, card, permit })
}

impl OpenedSession {
    /// Compares the number and its version. With the number alone, a session would confirm whether
    /// a number that was written without a reveal right is correct.
    ///
    /// Errors: the card has another number than the session was created for, or its number was
    /// written again.
    pub(crate) fn check_number(&self) -> Result<(), Error> {
        let Some(card) = &self.card else { return Ok(()) };
        let session = &self.session;
        if card.number_digest == session.body.number_digest
            && card.number_version == session.number_version()
        {
            return Ok(());
        }
        let reason = "the number of the card was changed or written again after the session was \
                      created; create a new session";
        Err(Error::Conflict { reason })
    }
}

/// Checks the card of a session before its stored outcome is replayed.
/// Errors: as for [`load_session`] and [`OpenedSession::check_number`].
pub(crate) async fn check_replayed_outcome(
    vault: &Vault,
    caller: &Caller,
    id: ThreeDsSessionId,
) -> Result<(), Error> {
    load_session(vault, caller, Permission::ThreeDsSessionAuthenticate, id).await?.check_number()
}

/// Loads a session for an unauthenticated caller. Only its row names the tenant; the decryption
/// fails if the tenant is wrong. [`Error::NotFound`] for a session that is missing or cannot be
/// used.
pub(crate) async fn load_notified_session(
    vault: &Vault,
    directory: &Directory,
    id: ThreeDsSessionId,
) -> Result<(Arc<Tenant>, LoadedSession), Error> {
    let row = vault.store.find_notified_threeds_session(id, vault.clock.latest()).await?;
    let record = row.ok_or(Error::NotFound)?;
    let tenant = Arc::clone(directory.tenant(record.tenant).ok_or(Error::NotFound)?);
    if !tenant.quotas.threeds_access {
        return Err(Error::NotFound);
    }
    let session = LoadedSession::open(&tenant, record, vault.clock.latest())?;
    Ok((tenant, session))
}

/// The audit record, events and idempotency record of a session write.
pub(crate) struct SessionChange<'a> {
    pub(crate) tenant: &'a Tenant,
    pub(crate) audit: AuditRecord,
    pub(crate) outcome: &'static str,
    /// The card, if its number was opened.
    pub(crate) used_card: Option<CardReference>,
    pub(crate) idempotency: Option<IdempotencyRecord>,
}

impl<'a> SessionChange<'a> {
    /// A change by a caller that opens no number and stores no response.
    pub(crate) fn new(
        caller: &'a Caller,
        operation: Operation,
        outcome: &'static str,
        now: Timestamp,
    ) -> Self {
        let tenant = caller.tenant();
        let audit = AuditRecord::new(operation, caller, now);
        Self { tenant, audit, outcome, used_card: None, idempotency: None }
    }
}

impl LoadedSession {
    /// Applies the elapsed time when the session is loaded, so no background task is needed for
    /// timeouts.
    fn open(tenant: &Tenant, record: ThreeDsSessionRecord, now: Timestamp) -> Result<Self, Error> {
        let mut body = ThreeDsSessionBody::open(tenant, &record)?;
        body.state = apply_elapsed_time(&body.state, to_moment(now));
        if matches!(body.state.phase, ThreeDsPhase::Expired) {
            return Err(Error::NotFound);
        }
        Ok(Self { record, body })
    }

    /// The current card, and its current or last known containers: those of the token, if the
    /// intent was converted.
    pub(crate) fn card(&self, tenant: &Tenant) -> Result<(CardReference, Containers), Error> {
        let Some(conversion) = self.record.card.conversion() else {
            return Ok((self.body.card()?, self.body.containers()?));
        };
        let ConvertedIntent { tenant: tenant_id, intent, token, containers, .. } =
            &conversion.record;
        let is_same = *tenant_id == tenant.id && Some(*intent) == self.record.card.intent();
        if !is_same || !conversion.has_valid_mac(&tenant.keys) {
            return Err(Error::Internal("the card columns of a 3DS session were altered".into()));
        }
        Ok((CardReference::Token(token.clone()), containers.clone()))
    }

    /// The number version that the session is bound to: that of its token, or the one at the
    /// conversion of its intent. Call it after [`LoadedSession::card`], which checks the columns.
    fn number_version(&self) -> Option<CardNumberVersion> {
        match self.record.card.conversion() {
            Some(conversion) => conversion.record.number_version,
            None => self.body.number_version(),
        }
    }

    /// The session after an event: the next revision of the row, not yet sealed.
    pub(crate) fn apply_event(
        &self,
        event: &StateMachineEvent,
        now: Timestamp,
    ) -> Result<(Self, Vec<StateMachineEffect>), ThreeDsRejection> {
        let (state, effects) = self.body.state.step(event, to_moment(now))?;
        let body = ThreeDsSessionBody { state, ..self.body.clone() };
        Ok((Self { record: self.record.clone(), body }, effects))
    }

    /// Whether the session timed out since it was read. Other requests may have reported that
    /// already.
    pub(crate) fn has_timed_out(&self, now: Timestamp) -> bool {
        apply_elapsed_time(&self.body.state, to_moment(now)) != self.body.state
    }

    /// Whether a transition needs a write: one without a state change and without events does not.
    pub(crate) fn needs_write(&self, previous: &Self, effects: &[StateMachineEffect]) -> bool {
        let has_event = effects.iter().any(|it| matches!(it, StateMachineEffect::Emit { .. }));
        has_event || self.body.state != previous.body.state
    }

    /// Replaces the row that was read. Stale when another request changed it first.
    pub(crate) async fn write(
        &mut self,
        vault: &Vault,
        effects: &[StateMachineEffect],
        change: SessionChange<'_>,
    ) -> Result<ChangeOutcome, Error> {
        self.record.revision = self.record.revision.saturating_add(1);
        let write = self.seal_write(vault, effects, change)?;
        Ok(vault.store.update_threeds_session(write).await?)
    }

    pub(crate) fn seal_write(
        &mut self,
        vault: &Vault,
        effects: &[StateMachineEffect],
        change: SessionChange<'_>,
    ) -> Result<ThreeDsSessionWrite, Error> {
        let SessionChange { tenant, audit, outcome, used_card, idempotency } = change;
        self.record.deletes_at = self.body.deletes_at();
        self.record.body = Sealed::from_stored(Vec::new());
        self.record.body = self.body.seal(tenant, &self.record)?;
        let source = EventSource::new(tenant, &audit, vault.fill_random);
        let deliveries = raise_session_events(&source, &self.record, &self.body, effects)?;
        let session = self.record.clone();
        Ok(ThreeDsSessionWrite { session, deliveries, audit, outcome, used_card, idempotency })
    }
}

pub(crate) fn to_moment(now: Timestamp) -> UnixSeconds {
    UnixSeconds(now.unix_ms.div_euclid(1000))
}

/// The state after the elapsed time: the session may have expired, or its challenge timed out.
fn apply_elapsed_time(state: &ThreeDsSession, now: UnixSeconds) -> ThreeDsSession {
    let is_overdue =
        state.pending_challenge().and_then(|(_, deadline)| deadline).is_some_and(|it| now >= it);
    let event = if is_overdue { StateMachineEvent::Timeout } else { StateMachineEvent::Expire };
    state.step(&event, now).map_or_else(|_| state.clone(), |(state, _)| state)
}

/// The error for a client when the state machine rejects its request.
pub(crate) fn rejection_error(rejection: &ThreeDsRejection) -> Error {
    match rejection {
        ThreeDsRejection::Expired => Error::NotFound,
        ThreeDsRejection::DeviceInfoMissing => {
            FieldError::new("device_info", "has not been sent yet: update the session first").into()
        }
        ThreeDsRejection::DeviceInfoTooLate => {
            Error::Conflict { reason: "the session was already authenticated" }
        }
        ThreeDsRejection::ResultNotReady => {
            Error::NotFoundBecause { reason: "there is no challenge result for this session yet" }
        }
        ThreeDsRejection::AlreadyAuthenticated
        | ThreeDsRejection::OtherSession(_)
        | ThreeDsRejection::Mismatch(_)
        | ThreeDsRejection::ResultTooLate
        | ThreeDsRejection::NoChallenge
        | ThreeDsRejection::Unexpected => Error::Conflict {
            reason: "the session was already authenticated, or its outcome is unknown; \
                     create a new one",
        },
    }
}

/// The method completion indicator; `None` while the method page may still run.
fn method_completion(body: &ThreeDsSessionBody) -> Option<MethodCompletion> {
    match body.state.method_state() {
        Some(MethodState::Pending) => None,
        Some(MethodState::Created) => Some(MethodCompletion::Unavailable),
        Some(MethodState::Completed) => Some(MethodCompletion::Completed),
        Some(MethodState::TimedOut) => Some(MethodCompletion::NotCompleted),
        None => body.sent_method_completion,
    }
}

impl ThreeDsSessionView {
    pub(crate) fn new(vault: &Vault, session: &LoadedSession) -> Result<Self, Error> {
        let LoadedSession { record, body } = session;
        let public_url = &vault.directory_servers.settings().public_url;
        Ok(Self {
            id: record.id,
            tenant_id: record.tenant,
            card: body.card()?,
            created_by: record.created_by,
            created_at: record.created_at,
            expires_at: body.expires_at(),
            method_notification_url: format!(
                "{public_url}/3ds/sessions/{}/method-notification",
                record.id
            ),
            method_completion: method_completion(body),
            body: body.clone(),
        })
    }
}

/// Applies an event and writes the session. Returns the session and the effects, or the rejection
/// by the state machine.
pub(crate) async fn apply_notification(
    vault: &Vault,
    directory: &Directory,
    operation: Operation,
    origin: &RequestOrigin,
    id: ThreeDsSessionId,
    event: &StateMachineEvent,
) -> Result<Result<(LoadedSession, Vec<StateMachineEffect>), ThreeDsRejection>, Error> {
    for _ in 0..SESSION_ATTEMPTS_MAX {
        let (tenant, session) = load_notified_session(vault, directory, id).await?;
        let now = vault.clock.now();
        let (mut next, effects) = match session.apply_event(event, now) {
            Ok(transition) => transition,
            Err(rejection) => return Ok(Err(rejection)),
        };
        if !next.needs_write(&session, &effects) {
            return Ok(Ok((next, effects)));
        }
        let key = &tenant.audit_key;
        let change = SessionChange {
            tenant: &tenant,
            audit: AuditRecord::for_request(Actor::Unauthenticated, operation, origin, key, now),
            outcome: "done",
            used_card: None,
            idempotency: None,
        };
        if next.write(vault, &effects, change).await? == ChangeOutcome::Done {
            return Ok(Ok((next, effects)));
        }
    }
    Err(session_conflict_error())
}
