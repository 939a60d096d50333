//! A session in hand: read, moved on by the machine, and written back if nobody else did meanwhile.

use std::sync::Arc;

use scrip_seal::Sealed;
use scrip_threeds::session::{
    StateMachineEffect, StateMachineEvent, ThreeDsPhase, ThreeDsRejection, ThreeDsSession,
    UnixSeconds,
};

use crate::{
    Timestamp, Vault,
    audit::{AuditRecord, Operation},
    error::{self, Error, FieldError},
    id::{CardNumberVersion, ThreeDsSessionId},
    idempotency::IdempotencyRecord,
    policy::{AccessTarget, Caller, Directory, Permission, Permit, Tenant},
    store::ChangeOutcome,
    threeds::{
        CardReference, ConvertedIntent, EventCause, FoundCard, SessionTransition,
        ThreeDsSessionBody, ThreeDsSessionRecord, ThreeDsSessionWrite, find_card,
    },
    token::Containers,
};

/// Whoever was overtaken so often stands in a crowd.
pub(crate) const SESSION_ATTEMPTS_MAX: u32 = 16;

pub(crate) fn session_conflict_error() -> Error {
    Error::Conflict { reason: "the session is being changed by others; try again" }
}

/// A session's row, and what was in it.
#[derive(Debug, Clone)]
pub(crate) struct LoadedSession {
    pub(crate) record: ThreeDsSessionRecord,
    pub(crate) body: ThreeDsSessionBody,
}

/// The operator decides who has 3-D Secure.
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
    /// Nothing when the card is gone.
    pub(crate) card: Option<FoundCard>,
    /// In the containers of the card; when the card is gone, in those that it had.
    pub(crate) permit: Permit,
}

/// A session of the caller's tenant that has not expired.
///
/// # Errors
/// There is no such session, or the caller has no right in the containers of its card.
pub(crate) async fn load_session(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    id: ThreeDsSessionId,
) -> Result<OpenedSession, Error> {
    check_threeds_enabled(caller.tenant())?;
    let lookup = caller.permit_lookup(permission)?;
    let found = vault.store.find_threeds_session(lookup, id, vault.clock.latest()).await?;
    let session =
        LoadedSession::open(caller.tenant(), found.ok_or(Error::NotFound)?, vault.clock.latest())?;
    let (reference, containers) = session.card(caller.tenant())?;
    let card = find_card(vault, caller, permission, &reference).await?;
    let permit = match &card {
        Some(card) => card.permit.recheck()?,
        None => {
            let subject = AccessTarget { containers: &containers, id: reference.token() };
            caller.permit(permission, subject)?
        }
    };
    Ok(OpenedSession { session, card, permit })
}

impl OpenedSession {
    /// By the number and by its writing: with the number alone a session would tell whether a number
    /// that was written without a reveal right is the right one.
    ///
    /// # Errors
    /// The card has another number than the session was created for, or it was written since.
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

/// Before an outcome that was given once is given again.
///
/// # Errors
/// As for [`find_held`] and [`OpenedSession::check_number`].
pub(crate) async fn check_replayed_outcome(
    vault: &Vault,
    caller: &Caller,
    id: ThreeDsSessionId,
) -> Result<(), Error> {
    load_session(vault, caller, Permission::ThreeDsSessionAuthenticate, id).await?.check_number()
}

/// A session that somebody without a key speaks of: whose it is, only its row says, and opening it
/// proves. [`Error::NotFound`] for one that is not there, and for one that is not to be used.
pub(crate) async fn load_notified_session(
    vault: &Vault,
    directory: &Directory,
    id: ThreeDsSessionId,
) -> Result<(Arc<Tenant>, LoadedSession), Error> {
    let found = vault.store.find_notified_threeds_session(id, vault.clock.latest()).await?;
    let record = found.ok_or(Error::NotFound)?;
    let tenant = Arc::clone(directory.tenant(record.tenant).ok_or(Error::NotFound)?);
    if !tenant.quotas.threeds_access {
        return Err(Error::NotFound);
    }
    let session = LoadedSession::open(&tenant, record, vault.clock.latest())?;
    Ok((tenant, session))
}

/// What a write of a session needs besides what the step gave.
pub(crate) struct SessionChange<'a> {
    pub(crate) tenant: &'a Tenant,
    pub(crate) cause: EventCause<'a>,
    pub(crate) audit: AuditRecord,
    pub(crate) outcome: &'static str,
    /// The card, where its number was opened.
    pub(crate) used_card: Option<CardReference>,
    pub(crate) idempotency: Option<IdempotencyRecord>,
}

impl<'a> SessionChange<'a> {
    /// What a caller does, if it opens no number and has no answer to remember.
    pub(crate) fn new(
        caller: &'a Caller,
        operation: Operation,
        outcome: &'static str,
        now: Timestamp,
    ) -> Self {
        let (tenant, cause) = (caller.tenant(), EventCause::Caller(caller));
        let audit = AuditRecord::new(operation, caller, now);
        Self { tenant, cause, audit, outcome, used_card: None, idempotency: None }
    }
}

impl LoadedSession {
    /// What time alone did to it happens now: nobody has to be there when a session's time is over.
    fn open(tenant: &Tenant, record: ThreeDsSessionRecord, now: Timestamp) -> Result<Self, Error> {
        let mut body = ThreeDsSessionBody::open(tenant, &record)?;
        body.state = apply_elapsed_time(&body.state, to_moment(now));
        if matches!(body.state.phase, ThreeDsPhase::Expired) {
            return Err(Error::NotFound);
        }
        Ok(Self { record, body })
    }

    /// The card as it is now, and the containers that it has or last had: those of the token, once
    /// the intent was converted.
    pub(crate) fn card(&self, tenant: &Tenant) -> Result<(CardReference, Containers), Error> {
        let Some(converted) = self.record.card.conversion() else {
            return Ok((self.body.card()?, self.body.containers()?));
        };
        let ConvertedIntent { tenant: of, intent, token, containers, .. } = &converted.record;
        let is_same = *of == tenant.id && Some(*intent) == self.record.card.intent();
        if !is_same || !converted.has_valid_mac(&tenant.keys) {
            return Err(Error::Internal("the card of a session was altered".into()));
        }
        Ok((CardReference::Token(token.clone()), containers.clone()))
    }

    /// Which writing of the number the session is bound to: that of its token, or the one that the
    /// conversion of its intent made or found. To be asked after [`Held::card`], which checks it.
    fn number_version(&self) -> Option<CardNumberVersion> {
        match self.record.card.conversion() {
            Some(converted) => converted.record.number_version,
            None => self.body.number_version(),
        }
    }

    /// After an event. The row is the next one of the same session, not yet sealed.
    pub(crate) fn apply_event(
        &self,
        event: &StateMachineEvent,
        now: Timestamp,
    ) -> Result<(Self, Vec<StateMachineEffect>), ThreeDsRejection> {
        let (state, effects) = self.body.state.step(event, to_moment(now))?;
        let body = ThreeDsSessionBody { state, ..self.body.clone() };
        Ok((Self { record: self.record.clone(), body }, effects))
    }

    /// Whether time alone has ended it since it was read: then others were told so already.
    pub(crate) fn has_timed_out(&self, now: Timestamp) -> bool {
        apply_elapsed_time(&self.body.state, to_moment(now)) != self.body.state
    }

    /// Whether anything is to be written: a step that changes nothing and tells nobody is not.
    pub(crate) fn needs_write(&self, previous: &Self, effects: &[StateMachineEffect]) -> bool {
        let emits = effects.iter().any(|it| matches!(it, StateMachineEffect::Emit { .. }));
        emits || self.body.state != previous.body.state
    }

    /// In place of the row that it was read from. Stale when somebody else was faster.
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
        let SessionChange { tenant, cause, audit, outcome, used_card: used, idempotency: answer } =
            change;
        self.record.deletes_at = self.body.deletes_at();
        self.record.body = Sealed::from_stored(Vec::new());
        self.record.body = self.body.seal(tenant, &self.record)?;
        let (record, body) = (&self.record, &self.body);
        let step = SessionTransition { vault, tenant, record, body, cause, now: audit.at };
        let events = step.events(effects)?;
        let session = self.record.clone();
        Ok(ThreeDsSessionWrite {
            session,
            events,
            audit,
            outcome,
            used_card: used,
            idempotency: answer,
        })
    }
}

pub(crate) fn to_moment(now: Timestamp) -> UnixSeconds {
    UnixSeconds(now.unix_ms.div_euclid(1000))
}

/// Expired, given up, or no longer waited for.
fn apply_elapsed_time(state: &ThreeDsSession, now: UnixSeconds) -> ThreeDsSession {
    let late = state.pending_challenge().and_then(|(_, until)| until).is_some_and(|it| now >= it);
    let event = if late { StateMachineEvent::Timeout } else { StateMachineEvent::Expire };
    state.step(&event, now).map_or_else(|_| state.clone(), |(state, _)| state)
}

/// A refusal, to a client that asked for it.
pub(crate) fn rejection_error(refusal: &ThreeDsRejection) -> Error {
    match refusal {
        ThreeDsRejection::Expired => Error::NotFound,
        ThreeDsRejection::DeviceInfoMissing => {
            FieldError::new("device_info", "has not been sent yet: update the session first").into()
        }
        ThreeDsRejection::DeviceInfoTooLate => {
            Error::Conflict { reason: "the session was authenticated already" }
        }
        ThreeDsRejection::ResultNotReady => {
            Error::NotReady { reason: "there is no challenge result for this session yet" }
        }
        ThreeDsRejection::AlreadyAuthenticated
        | ThreeDsRejection::OtherSession(_)
        | ThreeDsRejection::Mismatch(_)
        | ThreeDsRejection::ResultTooLate
        | ThreeDsRejection::NoChallenge
        | ThreeDsRejection::Unexpected => Error::Conflict {
            reason: "the session was authenticated already, or what became of it is not known; \
                     create a new one",
        },
    }
}
