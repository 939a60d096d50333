//! Authenticate Session.
//!
//! What goes out cannot be taken back, so first it is written that it goes; then it is sent; then
//! what became of it is written. A process that dies in between leaves a session that is spent.

use scrip_threeds::{
    fault::Fault,
    message::{ARes, Document, Erro, Message, MessageType, TransactionContext},
    request::{
        AReqCard, AReqInput, AReqSession, AuthenticateContext, AuthenticateRequest, ServerIdentity,
        Strictness, Violation, build_areq, fill_defaults,
    },
    session::{StateMachineEffect, StateMachineEvent, ThreeDsRejection},
};
use zeroize::Zeroizing;

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::Operation,
    id::ThreeDsSessionId,
    idempotency::{ResponseRecorder, response::seal_permitted_response},
    policy::{Caller, Permission, Permit},
    store::ChangeOutcome,
    threeds::{
        AuthenticationView, DirectoryServerError, FailureReason, FoundCard, LoadedSession,
        OpenedSession, SESSION_ATTEMPTS_MAX, SchemeConnection, SchemeSupport, ServiceFailure,
        SessionChange, load_session, rejection_error, session_conflict_error,
    },
};

const REQUIRED_PERMISSION: Permission = Permission::ThreeDsSessionAuthenticate;
const OPERATION: Operation = Operation::AuthenticateThreeDsSession;

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
pub async fn authenticate_threeds_session(
    vault: &Vault,
    caller: &Caller,
    id: ThreeDsSessionId,
    new: NewAuthentication,
    recorder: Option<ResponseRecorder<AuthenticationView>>,
) -> Result<AuthenticationView, Error> {
    for _ in 0..SESSION_ATTEMPTS_MAX {
        let opened = load_session(vault, caller, REQUIRED_PERMISSION, id).await?;
        opened.check_number()?;
        let OpenedSession { session, card, permit } = opened;
        let prepared = prepare(vault, caller, &session, card, &new)?;
        let PreparedRequest { session: mut next, effects, rail, message } = prepared;
        let (used, _) = next.card(caller.tenant())?;
        let session_change = SessionChange::new(caller, OPERATION, "asked", vault.clock.now());
        let session_change = SessionChange { used_card: Some(used), ..session_change };
        if next.write(vault, &effects, session_change).await? == ChangeOutcome::Stale {
            continue;
        }
        let kind = caller.tenant().kind;
        let answered = vault.directory_servers.send_message(kind, rail.scheme, message).await;
        return save_outcome(vault, &permit, next, answered, recorder).await;
    }
    Err(session_conflict_error())
}

/// A session that is about to ask, and what it asks.
struct PreparedRequest {
    session: LoadedSession,
    effects: Vec<StateMachineEffect>,
    rail: SchemeSupport,
    message: Zeroizing<Vec<u8>>,
}

fn prepare(
    vault: &Vault,
    caller: &Caller,
    session: &LoadedSession,
    card: Option<FoundCard>,
    new: &NewAuthentication,
) -> Result<PreparedRequest, Error> {
    let id = session.record.id;
    if session.body.state.method_state().is_none() {
        return Err(rejection_error(&ThreeDsRejection::AlreadyAuthenticated));
    }
    let rail = choose_scheme(session, new)?;
    let kind = caller.tenant().kind;
    let link = vault.directory_servers.connection(kind, rail.scheme);
    let link = link
        .ok_or_else(|| service_error(ServiceFailure::new(FailureReason::NotConnected, Some(id))))?;
    let card = card.ok_or(Error::NotFound)?;
    let number = card.number.ok_or(Error::NotFound)?;
    let card = AReqCard { number, expiry: card.expiry };

    let terms = vault.directory_servers.settings();
    let strictness = if terms.lenient {
        let (server_name, requestor_url) = (&*terms.server_name, &*terms.public_url);
        Strictness::Lenient { scheme: rail.scheme, server_name, requestor_url }
    } else {
        Strictness::Strict
    };
    let request = fill_defaults(&new.request, strictness);
    let situation = AuthenticateContext {
        request: &request,
        device_info: &session.body.device_info,
        session: session.body.state.kind,
        device: session.body.device,
        version: rail.recommended,
    };
    let asked = situation.authentication_parameters(rail.scheme);
    // What the machine refuses comes before what is wrong with the request, unless nobody could
    // know what was asked for.
    let now = vault.clock.now();
    let stepped = asked.map(|asked| {
        session.apply_event(&StateMachineEvent::Authenticate { parameters: asked }, now)
    });
    let stepped = stepped.transpose().map_err(|it| rejection_error(&it))?;
    let effects = stepped.as_ref().map(|(_, it)| it.as_slice()).unwrap_or_default();
    let method = effects.iter().find_map(|it| match it {
        StateMachineEffect::SendAReq { method } => Some(*method),
        StateMachineEffect::RespondToResult { .. } | StateMachineEffect::Emit { .. } => None,
    });
    let subject = AReqSession {
        id: session.body.state.id.clone(),
        method_completion: method.unwrap_or(scrip_threeds::code::MethodCompletion::Unavailable),
    };
    let server = server_details(session, &link, &terms.public_url);
    let question =
        AReqInput { context: situation, session: &subject, server: &server, card: &card };
    let message = build_areq(&question).map_err(|it| invalid_request(&it))?.to_json();
    let (mut next, effects) =
        stepped.ok_or_else(|| FieldError::new("authentication_category", "is required"))?;
    next.body.sent_method_completion = Some(subject.method_completion);
    next.body.set_modified(caller.application(), now);
    Ok(PreparedRequest { session: next, effects, rail, message })
}

fn choose_scheme(session: &LoadedSession, new: &NewAuthentication) -> Result<SchemeSupport, Error> {
    let rails = &session.body.schemes;
    let found = match &new.card_brand {
        None => rails.first(),
        Some(brand) => {
            let named = |it: &&SchemeSupport| it.scheme.name().eq_ignore_ascii_case(brand);
            let found = rails.iter().find(named);
            let wrong = || FieldError::new("card_brand", "is no brand of this card");
            Some(found.ok_or_else(wrong)?)
        }
    };
    found.cloned().ok_or_else(|| Error::Internal("a session without a scheme".into()))
}

/// Who we are, and where the results and the browser come to.
fn server_details(
    session: &LoadedSession,
    link: &SchemeConnection,
    public_url: &str,
) -> ServerIdentity {
    let id = session.record.id;
    ServerIdentity {
        reference_number: link.reference_number.clone(),
        operator_id: link.operator_id.clone(),
        results_url: format!(
            "{}/3ds/sessions/{id}/results/{}",
            link.results_url, session.body.secret
        ),
        notification_url: format!("{public_url}/3ds/sessions/{id}/challenge-notification"),
    }
}

fn invalid_request(violations: &[Violation]) -> Error {
    let field = |it: &Violation| FieldError::new(it.path.clone(), it.message);
    Error::Invalid(violations.iter().map(field).collect())
}

fn service_error(failure: ServiceFailure) -> Error {
    Error::Service(Box::new(failure))
}

/// What became of it, written before anybody is told. Nobody else moves a session that asks, so a
/// row that is not as we left it is gone.
async fn save_outcome(
    vault: &Vault,
    permit: &Permit,
    session: LoadedSession,
    response: Result<Vec<u8>, DirectoryServerError>,
    recorder: Option<ResponseRecorder<AuthenticationView>>,
) -> Result<AuthenticationView, Error> {
    let now = vault.clock.now();
    let (mut next, effects, failure) = apply_response(&session, response, now)?;
    let view = next.body.state.authentication().cloned().map(|authentication| {
        let card = next.body.card()?;
        Ok::<_, Error>(AuthenticationView { session_id: next.record.id, card, authentication })
    });
    let view = view.transpose()?;
    let outcome = view.as_ref().map_or("failed", |it| it.authentication.status.name());
    let seal = |(remember, view): (&ResponseRecorder<AuthenticationView>, &AuthenticationView)| {
        let rendered = (remember.render)(view);
        let session = Some(next.record.id);
        seal_permitted_response(permit, remember.claim.digests, rendered, session, now)
    };
    let idempotency = recorder.as_ref().zip(view.as_ref()).map(seal).transpose()?;
    let session_change = SessionChange::new(permit.caller(), OPERATION, outcome, vault.clock.now());
    let session_change = SessionChange { idempotency, ..session_change };
    if next.write(vault, &effects, session_change).await? == ChangeOutcome::Stale {
        return Err(Error::NotFound);
    }
    match (view, failure) {
        (_, Some(failure)) => Err(service_error(failure)),
        (Some(view), None) => Ok(view),
        (None, None) => Err(Error::Internal("an authentication without an outcome".into())),
    }
}

/// The session after what came back, and what is wrong with that.
fn apply_response(
    session: &LoadedSession,
    response: Result<Vec<u8>, DirectoryServerError>,
    now: Timestamp,
) -> Result<(LoadedSession, Vec<StateMachineEffect>, Option<ServiceFailure>), Error> {
    let id = session.record.id;
    // Whoever looked meanwhile was told that its fate is unknown, and so it stays.
    let answered =
        if session.has_timed_out(now) { Err(DirectoryServerError::TimedOut) } else { response };
    let (event, failure) = match answered {
        Err(DirectoryServerError::NotSent) => {
            let failure =
                ServiceFailure::from_directory_server_error(DirectoryServerError::NotSent, id);
            (StateMachineEvent::RequestNotSent, Some(failure))
        }
        Err(why @ (DirectoryServerError::TimedOut | DirectoryServerError::Broken)) => {
            (StateMachineEvent::Timeout, Some(ServiceFailure::from_directory_server_error(why, id)))
        }
        Ok(bytes) => parse_response(session, &bytes),
    };
    let unexpected = |_| Error::Internal("a session that asks was moved".into());
    match session.apply_event(&event, now) {
        Ok((next, effects)) => Ok((next, effects, failure)),
        Err(ThreeDsRejection::Expired) => Err(Error::NotFound),
        Err(refusal) => {
            let failure = ServiceFailure::from_fault(&refusal.fault(), id);
            let (next, effects) =
                session.apply_event(&StateMachineEvent::Error, now).map_err(unexpected)?;
            Ok((next, effects, Some(failure)))
        }
    }
}

fn parse_response(
    session: &LoadedSession,
    bytes: &[u8],
) -> (StateMachineEvent, Option<ServiceFailure>) {
    let id = session.record.id;
    let wrong =
        |fault: Fault| (StateMachineEvent::Error, Some(ServiceFailure::from_fault(&fault, id)));
    let document = match Document::parse(bytes) {
        Ok(document) => document,
        Err(fault) => return wrong(fault),
    };
    let scene = session.body.state.transaction_context();
    let scene = scene
        .unwrap_or_else(|| TransactionContext::for_version(scrip_threeds::format::Version::V220));
    if document.message_type() == MessageType::Erro {
        return match document.parse_as::<Erro>(&scene) {
            Ok(error) => {
                (StateMachineEvent::Error, Some(ServiceFailure::from_error_message(&error, id)))
            }
            Err(fault) => wrong(fault),
        };
    }
    match document.parse_as::<ARes>(&scene) {
        Ok(answer) => (StateMachineEvent::Response { ares: Box::new(answer) }, None),
        Err(fault) => wrong(fault),
    }
}
