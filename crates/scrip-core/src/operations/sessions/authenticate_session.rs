//! Authenticate Session.
//!
//! What goes out cannot be taken back, so first it is written that it goes; then it is sent; then
//! what became of it is written. A process that dies in between leaves a session that is spent.

use scrip_threeds::{
    fault::Fault,
    message::{ARes, Document, Erro, Message, MessageType, Scene},
    request::{
        AuthenticateRequest, Card, Question, Server, Situation, Strictness, Subject, Violation,
        completed, make_areq,
    },
    session::{Effect, Event, Refusal},
};
use zeroize::Zeroizing;

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::Operation,
    id::SessionId,
    idempotency::{Remember, answer::seal_permitted_answer},
    policy::{Caller, Permission, Permit},
    store::Changed,
    threeds::{
        AuthenticationView, FailureReason, FoundCard, Held, Link, OpenedSession, Rail,
        ServiceFailure, TRIES_MAX, Unanswered, Writing, find_held, not_possible, overtaken,
    },
};

const NEEDED: Permission = Permission::SessionAuthenticate;
const OPERATION: Operation = Operation::AuthenticateSession;

/// An authenticate request after parsing; its attributes are checked here, all at once.
#[derive(Debug)]
pub struct NewAuthentication {
    pub request: AuthenticateRequest,
    /// Which of the brands of the card, where it has several.
    pub card_brand: Option<String>,
}

/// # Errors
/// The request breaks a rule, the session cannot be authenticated (again), or somebody whom we
/// asked failed.
pub async fn authenticate_session(
    vault: &Vault,
    caller: &Caller,
    id: SessionId,
    new: NewAuthentication,
    remember: Option<Remember<AuthenticationView>>,
) -> Result<AuthenticationView, Error> {
    for _ in 0..TRIES_MAX {
        let opened = find_held(vault, caller, NEEDED, id).await?;
        opened.check_number()?;
        let OpenedSession { held, card, permit } = opened;
        let prepared = prepare(vault, caller, &held, card, &new)?;
        let Prepared { mut next, effects, rail, message } = prepared;
        let (used, _) = next.card(caller.tenant())?;
        let writing = Writing::new(caller, OPERATION, "asked", vault.clock.now());
        let writing = Writing { used: Some(used), ..writing };
        if next.write(vault, &effects, writing).await? == Changed::Stale {
            continue;
        }
        let kind = caller.tenant().kind;
        let answered = vault.directory_servers.ask(kind, rail.scheme, message).await;
        return conclude(vault, &permit, next, answered, remember).await;
    }
    Err(overtaken())
}

/// A session that is about to ask, and what it asks.
struct Prepared {
    next: Held,
    effects: Vec<Effect>,
    rail: Rail,
    message: Zeroizing<Vec<u8>>,
}

fn prepare(
    vault: &Vault,
    caller: &Caller,
    held: &Held,
    card: Option<FoundCard>,
    new: &NewAuthentication,
) -> Result<Prepared, Error> {
    let id = held.record.id;
    if held.body.state.method().is_none() {
        return Err(not_possible(&Refusal::AlreadyAuthenticated));
    }
    let rail = choose(held, new)?;
    let kind = caller.tenant().kind;
    let link = vault.directory_servers.link(kind, rail.scheme);
    let link =
        link.ok_or_else(|| failed(ServiceFailure::new(FailureReason::NotConnected, Some(id))))?;
    let card = card.ok_or(Error::NotFound)?;
    let number = card.number.ok_or(Error::NotFound)?;
    let card = Card { number, expiry: card.expiry };

    let terms = vault.directory_servers.terms();
    let strictness = if terms.lenient {
        let (server_name, requestor_url) = (&*terms.server_name, &*terms.public_url);
        Strictness::Lenient { scheme: rail.scheme, server_name, requestor_url }
    } else {
        Strictness::Strict
    };
    let request = completed(&new.request, strictness);
    let situation = Situation {
        request: &request,
        device_info: &held.body.device_info,
        session: held.body.state.kind,
        device: held.body.device,
        version: rail.recommended,
    };
    let asked = situation.asked(rail.scheme);
    // What the machine refuses comes before what is wrong with the request, unless nobody could
    // know what was asked for.
    let now = vault.clock.now();
    let stepped = asked.map(|asked| held.after(&Event::Authenticate { asked }, now));
    let stepped = stepped.transpose().map_err(|it| not_possible(&it))?;
    let effects = stepped.as_ref().map(|(_, it)| it.as_slice()).unwrap_or_default();
    let method = effects.iter().find_map(|it| match it {
        Effect::SendRequest { method } => Some(*method),
        Effect::AnswerResult { .. } | Effect::Emit { .. } => None,
    });
    let subject = Subject {
        id: held.body.state.id.clone(),
        method: method.unwrap_or(scrip_threeds::code::MethodCompletion::Unavailable),
    };
    let server = server(held, &link, &terms.public_url);
    let question = Question { situation, subject: &subject, server: &server, card: &card };
    let message = make_areq(&question).map_err(|it| invalid(&it))?.to_json();
    let (mut next, effects) =
        stepped.ok_or_else(|| FieldError::new("authentication_category", "is required"))?;
    next.body.method_sent = Some(subject.method);
    next.body.modify(caller.application(), now);
    Ok(Prepared { next, effects, rail, message })
}

fn choose(held: &Held, new: &NewAuthentication) -> Result<Rail, Error> {
    let rails = &held.body.rails;
    let found = match &new.card_brand {
        None => rails.first(),
        Some(brand) => {
            let named = |it: &&Rail| it.scheme.name().eq_ignore_ascii_case(brand);
            let found = rails.iter().find(named);
            let wrong = || FieldError::new("card_brand", "is no brand of this card");
            Some(found.ok_or_else(wrong)?)
        }
    };
    found.cloned().ok_or_else(|| Error::Internal("a session without a scheme".into()))
}

/// Who we are, and where the results and the browser come to.
fn server(held: &Held, link: &Link, public_url: &str) -> Server {
    let id = held.record.id;
    Server {
        reference_number: link.reference_number.clone(),
        operator_id: link.operator_id.clone(),
        results_url: format!("{}/3ds/sessions/{id}/results/{}", link.results_url, held.body.secret),
        notification_url: format!("{public_url}/3ds/sessions/{id}/challenge-notification"),
    }
}

fn invalid(violations: &[Violation]) -> Error {
    let field = |it: &Violation| FieldError::new(it.path.clone(), it.message);
    Error::Invalid(violations.iter().map(field).collect())
}

fn failed(failure: ServiceFailure) -> Error {
    Error::Service(Box::new(failure))
}

/// What became of it, written before anybody is told. Nobody else moves a session that asks, so a
/// row that is not as we left it is gone.
async fn conclude(
    vault: &Vault,
    permit: &Permit,
    held: Held,
    answered: Result<Vec<u8>, Unanswered>,
    remember: Option<Remember<AuthenticationView>>,
) -> Result<AuthenticationView, Error> {
    let now = vault.clock.now();
    let (mut next, effects, failure) = believe(&held, answered, now)?;
    let view = next.body.state.authentication().cloned().map(|authentication| {
        let card = next.body.card()?;
        Ok::<_, Error>(AuthenticationView { session_id: next.record.id, card, authentication })
    });
    let view = view.transpose()?;
    let outcome = view.as_ref().map_or("failed", |it| it.authentication.status.name());
    let seal = |(remember, view): (&Remember<AuthenticationView>, &AuthenticationView)| {
        let rendered = (remember.render)(view);
        let session = Some(next.record.id);
        seal_permitted_answer(permit, remember.claim.digest, rendered, session, now)
    };
    let answer = remember.as_ref().zip(view.as_ref()).map(seal).transpose()?;
    let writing = Writing::new(permit.caller(), OPERATION, outcome, vault.clock.now());
    let writing = Writing { answer, ..writing };
    if next.write(vault, &effects, writing).await? == Changed::Stale {
        return Err(Error::NotFound);
    }
    match (view, failure) {
        (_, Some(failure)) => Err(failed(failure)),
        (Some(view), None) => Ok(view),
        (None, None) => Err(Error::Internal("an authentication without an outcome".into())),
    }
}

/// The session after what came back, and what is wrong with that.
fn believe(
    held: &Held,
    answered: Result<Vec<u8>, Unanswered>,
    now: Timestamp,
) -> Result<(Held, Vec<Effect>, Option<ServiceFailure>), Error> {
    let id = held.record.id;
    // Whoever looked meanwhile was told that its fate is unknown, and so it stays.
    let answered = if held.is_given_up(now) { Err(Unanswered::TimedOut) } else { answered };
    let (event, failure) = match answered {
        Err(Unanswered::NotSent) => {
            let failure = ServiceFailure::unanswered(Unanswered::NotSent, id);
            (Event::RequestNotSent, Some(failure))
        }
        Err(why @ (Unanswered::TimedOut | Unanswered::Broken)) => {
            (Event::Timeout, Some(ServiceFailure::unanswered(why, id)))
        }
        Ok(bytes) => read(held, &bytes),
    };
    let unexpected = |_| Error::Internal("a session that asks was moved".into());
    match held.after(&event, now) {
        Ok((next, effects)) => Ok((next, effects, failure)),
        Err(Refusal::Expired) => Err(Error::NotFound),
        Err(refusal) => {
            let failure = ServiceFailure::invalid(&refusal.fault(), id);
            let (next, effects) = held.after(&Event::Error, now).map_err(unexpected)?;
            Ok((next, effects, Some(failure)))
        }
    }
}

fn read(held: &Held, bytes: &[u8]) -> (Event, Option<ServiceFailure>) {
    let id = held.record.id;
    let wrong = |fault: Fault| (Event::Error, Some(ServiceFailure::invalid(&fault, id)));
    let document = match Document::read(bytes) {
        Ok(document) => document,
        Err(fault) => return wrong(fault),
    };
    let scene = held.body.state.scene();
    let scene = scene.unwrap_or_else(|| Scene::of(scrip_threeds::format::Version::V220));
    if document.kind() == MessageType::Erro {
        return match document.read_as::<Erro>(&scene) {
            Ok(error) => (Event::Error, Some(ServiceFailure::refused(&error, id))),
            Err(fault) => wrong(fault),
        };
    }
    match document.read_as::<ARes>(&scene) {
        Ok(answer) => (Event::Response { answer: Box::new(answer) }, None),
        Err(fault) => wrong(fault),
    }
}
