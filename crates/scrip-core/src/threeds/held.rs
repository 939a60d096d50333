//! A session in hand: read, moved on by the machine, and written back if nobody else did meanwhile.

use std::sync::Arc;

use scrip_seal::Sealed;
use scrip_threeds::session::{Effect, Event, Moment, Phase, Refusal, Session};

use crate::{
    Timestamp, Vault,
    audit::{AuditRecord, Operation},
    error::{self, Error, FieldError},
    id::{NumberVersion, SessionId},
    idempotency::AnswerRecord,
    policy::{Caller, Directory, Permission, Permit, Subject, Tenant},
    store::Changed,
    threeds::{
        CardReference, Cause, ConvertedIntent, FoundCard, SessionBody, SessionRecord, SessionStep,
        SessionWrite, find_card,
    },
    token::Containers,
};

/// Whoever was overtaken so often stands in a crowd.
pub(crate) const TRIES_MAX: u32 = 16;

pub(crate) fn overtaken() -> Error {
    Error::Conflict { reason: "the session is being changed by others; try again" }
}

/// A session's row, and what was in it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) record: SessionRecord,
    pub(crate) body: SessionBody,
}

/// The operator decides who has 3-D Secure.
pub(crate) fn check_access(tenant: &Tenant) -> Result<(), Error> {
    if tenant.quotas.threeds_access {
        return Ok(());
    }
    Err(Error::Forbidden(error::Refusal::NoThreeds))
}

/// A session that the caller may use, and its card.
#[derive(Debug)]
pub(crate) struct OpenedSession {
    pub(crate) held: Held,
    /// Nothing when the card is gone.
    pub(crate) card: Option<FoundCard>,
    /// In the containers of the card; when the card is gone, in those that it had.
    pub(crate) permit: Permit,
}

/// A session of the caller's tenant that has not expired.
///
/// # Errors
/// There is no such session, or the caller has no right in the containers of its card.
pub(crate) async fn find_held(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    id: SessionId,
) -> Result<OpenedSession, Error> {
    check_access(caller.tenant())?;
    let inquiry = caller.inquire(permission)?;
    let found = vault.store.find_session(inquiry, id, vault.clock.latest()).await?;
    let held = Held::open(caller.tenant(), found.ok_or(Error::NotFound)?, vault.clock.latest())?;
    let (reference, containers) = held.card(caller.tenant())?;
    let card = find_card(vault, caller, permission, &reference).await?;
    let permit = match &card {
        Some(card) => card.permit.again()?,
        None => {
            let subject = Subject { containers: &containers, id: reference.token() };
            caller.permit(permission, subject)?
        }
    };
    Ok(OpenedSession { held, card, permit })
}

impl OpenedSession {
    /// By the number and by its writing: with the number alone a session would tell whether a number
    /// that was written without a reveal right is the right one.
    ///
    /// # Errors
    /// The card has another number than the session was created for, or it was written since.
    pub(crate) fn check_number(&self) -> Result<(), Error> {
        let Some(card) = &self.card else { return Ok(()) };
        let held = &self.held;
        if card.digest == held.body.number && card.number_version == held.number_version() {
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
pub(crate) async fn check_outcome(
    vault: &Vault,
    caller: &Caller,
    id: SessionId,
) -> Result<(), Error> {
    find_held(vault, caller, Permission::SessionAuthenticate, id).await?.check_number()
}

/// A session that somebody without a key speaks of: whose it is, only its row says, and opening it
/// proves. [`Error::NotFound`] for one that is not there, and for one that is not to be used.
pub(crate) async fn find_notified(
    vault: &Vault,
    directory: &Directory,
    id: SessionId,
) -> Result<(Arc<Tenant>, Held), Error> {
    let found = vault.store.find_notified_session(id, vault.clock.latest()).await?;
    let record = found.ok_or(Error::NotFound)?;
    let tenant = Arc::clone(directory.tenant(record.tenant).ok_or(Error::NotFound)?);
    if !tenant.quotas.threeds_access {
        return Err(Error::NotFound);
    }
    let held = Held::open(&tenant, record, vault.clock.latest())?;
    Ok((tenant, held))
}

/// What a write of a session needs besides what the step gave.
pub(crate) struct Writing<'a> {
    pub(crate) tenant: &'a Tenant,
    pub(crate) cause: Cause<'a>,
    pub(crate) audit: AuditRecord,
    pub(crate) outcome: &'static str,
    /// The card, where its number was opened.
    pub(crate) used: Option<CardReference>,
    pub(crate) answer: Option<AnswerRecord>,
}

impl<'a> Writing<'a> {
    /// What a caller does, if it opens no number and has no answer to remember.
    pub(crate) fn new(
        caller: &'a Caller,
        operation: Operation,
        outcome: &'static str,
        now: Timestamp,
    ) -> Self {
        let (tenant, cause) = (caller.tenant(), Cause::Caller(caller));
        let audit = AuditRecord::new(operation, caller, now);
        Self { tenant, cause, audit, outcome, used: None, answer: None }
    }
}

impl Held {
    /// What time alone did to it happens now: nobody has to be there when a session's time is over.
    fn open(tenant: &Tenant, record: SessionRecord, now: Timestamp) -> Result<Self, Error> {
        let mut body = SessionBody::open(tenant, &record)?;
        body.state = settled(&body.state, moment(now));
        if matches!(body.state.phase, Phase::Expired) {
            return Err(Error::NotFound);
        }
        Ok(Self { record, body })
    }

    /// The card as it is now, and the containers that it has or last had: those of the token, once
    /// the intent was converted.
    pub(crate) fn card(&self, tenant: &Tenant) -> Result<(CardReference, Containers), Error> {
        let Some(converted) = self.record.card.converted() else {
            return Ok((self.body.card()?, self.body.containers()?));
        };
        let ConvertedIntent { tenant: of, intent, token, containers, .. } = &converted.record;
        let is_same = *of == tenant.id && Some(*intent) == self.record.card.intent();
        if !is_same || !converted.is_ours(&tenant.keys) {
            return Err(Error::Internal("the card of a session was altered".into()));
        }
        Ok((CardReference::Token(token.clone()), containers.clone()))
    }

    /// Which writing of the number the session is bound to: that of its token, or the one that the
    /// conversion of its intent made or found. To be asked after [`Held::card`], which checks it.
    fn number_version(&self) -> Option<NumberVersion> {
        match self.record.card.converted() {
            Some(converted) => converted.record.number_version,
            None => self.body.number_version(),
        }
    }

    /// After an event. The row is the next one of the same session, not yet sealed.
    pub(crate) fn after(
        &self,
        event: &Event,
        now: Timestamp,
    ) -> Result<(Self, Vec<Effect>), Refusal> {
        let (state, effects) = self.body.state.step(event, moment(now))?;
        let body = SessionBody { state, ..self.body.clone() };
        Ok((Self { record: self.record.clone(), body }, effects))
    }

    /// Whether time alone has ended it since it was read: then others were told so already.
    pub(crate) fn is_given_up(&self, now: Timestamp) -> bool {
        settled(&self.body.state, moment(now)) != self.body.state
    }

    /// Whether anything is to be written: a step that changes nothing and tells nobody is not.
    pub(crate) fn differs(&self, before: &Self, effects: &[Effect]) -> bool {
        let told = effects.iter().any(|it| matches!(it, Effect::Emit { .. }));
        told || self.body.state != before.body.state
    }

    /// In place of the row that it was read from. Stale when somebody else was faster.
    pub(crate) async fn write(
        &mut self,
        vault: &Vault,
        effects: &[Effect],
        writing: Writing<'_>,
    ) -> Result<Changed, Error> {
        self.record.revision = self.record.revision.saturating_add(1);
        let write = self.sealed_write(vault, effects, writing)?;
        Ok(vault.store.update_session(write).await?)
    }

    pub(crate) fn sealed_write(
        &mut self,
        vault: &Vault,
        effects: &[Effect],
        writing: Writing<'_>,
    ) -> Result<SessionWrite, Error> {
        let Writing { tenant, cause, audit, outcome, used, answer } = writing;
        self.record.ends_at = self.body.ends_at();
        self.record.body = Sealed::from_stored(Vec::new());
        self.record.body = self.body.seal(tenant, &self.record)?;
        let (record, body) = (&self.record, &self.body);
        let step = SessionStep { vault, tenant, record, body, cause, now: audit.at };
        let events = step.events(effects)?;
        let session = self.record.clone();
        Ok(SessionWrite { session, events, audit, outcome, used, answer })
    }
}

pub(crate) fn moment(now: Timestamp) -> Moment {
    Moment(now.unix_ms.div_euclid(1000))
}

/// Expired, given up, or no longer waited for.
fn settled(state: &Session, now: Moment) -> Session {
    let late = state.waiting().and_then(|(_, until)| until).is_some_and(|it| now >= it);
    let event = if late { Event::Timeout } else { Event::Expire };
    state.step(&event, now).map_or_else(|_| state.clone(), |(state, _)| state)
}

/// A refusal, to a client that asked for it.
pub(crate) fn not_possible(refusal: &Refusal) -> Error {
    match refusal {
        Refusal::Expired => Error::NotFound,
        Refusal::DeviceMissing => {
            FieldError::new("device_info", "has not been sent yet: update the session first").into()
        }
        Refusal::TooLateForDevice => {
            Error::Conflict { reason: "the session was authenticated already" }
        }
        Refusal::NoResultYet => {
            Error::NothingYet { reason: "there is no challenge result for this session yet" }
        }
        Refusal::AlreadyAuthenticated
        | Refusal::OtherSession(_)
        | Refusal::Unfitting(_)
        | Refusal::TooLate
        | Refusal::NoChallenge
        | Refusal::Unexpected => Error::Conflict {
            reason: "the session was authenticated already, or what became of it is not known; \
                     create a new one",
        },
    }
}
