//! Authenticate Session.
//!
//! A sent message cannot be recalled. The session is therefore written before the message is sent,
//! and the outcome is written afterwards. If the process dies in between, the session cannot be
//! authenticated again.

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
    change::ChangeOutcome,
    idempotency::{ResponseRecorder, response::seal_permitted_response},
    policy::{Caller, Permit},
    threeds::{AuthenticationView, DirectoryServerError, SchemeConnection, SchemeSupport},
    threeds_session::{
        FoundCard, LoadedSession, OpenedSession, SESSION_ATTEMPTS_MAX, SessionChange, load_session,
        rejection_error, session_conflict_error,
    },
    types::{FailureReason, Operation, Permission, ServiceFailure, id::ThreeDsSessionId},
};

const REQUIRED_PERMISSION: Permission = Permission::ThreeDsSessionAuthenticate;
const OPERATION: Operation = Operation::AuthenticateThreeDsSession;

/// A parsed authenticate request. All of its attributes are checked here, in one step.
#[derive(Debug)]
pub struct NewAuthentication {
    pub request: AuthenticateRequest,
    /// The brand to use, if the card has several.
    pub card_brand: Option<String>,
}

/// Sends the `AReq` of a session to a directory server, and returns the outcome.
/// Errors: the request is invalid, the session cannot be authenticated (again), or the directory
/// server failed.
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
        let PreparedRequest { session: mut next, effects, scheme_support, message } = prepared;
        let (used_card, _) = next.card(caller.tenant())?;
        let session_change =
            SessionChange::new(caller, OPERATION, "authentication_requested", vault.clock.now());
        let session_change = SessionChange { used_card: Some(used_card), ..session_change };
        if next.write(vault, &effects, session_change).await? == ChangeOutcome::Stale {
            continue;
        }
        let kind = caller.tenant().kind;
        let response =
            vault.directory_servers.send_message(kind, scheme_support.scheme, message).await;
        return save_outcome(vault, &permit, next, response, recorder).await;
    }
    Err(session_conflict_error())
}

/// A session that is ready to send, and its message.
struct PreparedRequest {
    session: LoadedSession,
    effects: Vec<StateMachineEffect>,
    scheme_support: SchemeSupport,
    message: Zeroizing<Vec<u8>>,
}

/// Checks the request, applies it to the session and builds the `AReq`.
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
    let scheme_support = choose_scheme(session, new)?;
    let kind = caller.tenant().kind;
    let connection = vault.directory_servers.connection(kind, scheme_support.scheme);
    let connection = connection
        .ok_or_else(|| service_error(ServiceFailure::new(FailureReason::NotConnected, Some(id))))?;
    let card = card.ok_or(Error::NotFound)?;
    let number = card.number.ok_or(Error::NotFound)?;
    let card = AReqCard { number, expiry: card.expiry };

    let settings = vault.directory_servers.settings();
    let strictness = if settings.lenient {
        let (server_name, requestor_url) = (&*settings.server_name, &*settings.public_url);
        Strictness::Lenient { scheme: scheme_support.scheme, server_name, requestor_url }
    } else {
        Strictness::Strict
    };
    let request = fill_defaults(&new.request, strictness);
    let context = AuthenticateContext {
        request: &request,
        device_info: &session.body.device_info,
        session: session.body.state.kind,
        device: session.body.device,
        version: scheme_support.recommended,
    };
    let parameters = context.authentication_parameters(scheme_support.scheme);
    // Errors of the state machine have priority over errors of the request, unless the requested
    // authentication is unknown.
    let now = vault.clock.now();
    let transition = parameters.map(|parameters| {
        session.apply_event(&StateMachineEvent::Authenticate { parameters }, now)
    });
    let transition = transition.transpose().map_err(|it| rejection_error(&it))?;
    let effects = transition.as_ref().map(|(_, it)| it.as_slice()).unwrap_or_default();
    let method = effects.iter().find_map(|it| match it {
        StateMachineEffect::SendAReq { method } => Some(*method),
        StateMachineEffect::RespondToResult { .. } | StateMachineEffect::Emit { .. } => None,
    });
    let areq_session = AReqSession {
        id: session.body.state.id.clone(),
        method_completion: method.unwrap_or(scrip_threeds::code::MethodCompletion::Unavailable),
    };
    let server = server_details(session, &connection, &settings.public_url);
    let areq_input = AReqInput { context, session: &areq_session, server: &server, card: &card };
    let message = build_areq(&areq_input).map_err(|it| invalid_request_error(&it))?.to_json();
    let (mut next, effects) =
        transition.ok_or_else(|| FieldError::new("authentication_category", "is required"))?;
    next.body.sent_method_completion = Some(areq_session.method_completion);
    next.body.set_modified(caller.application(), now);
    Ok(PreparedRequest { session: next, effects, scheme_support, message })
}

fn choose_scheme(session: &LoadedSession, new: &NewAuthentication) -> Result<SchemeSupport, Error> {
    let supported_schemes = &session.body.schemes;
    let chosen = match &new.card_brand {
        None => supported_schemes.first(),
        Some(brand) => {
            let has_name = |it: &&SchemeSupport| it.scheme.name().eq_ignore_ascii_case(brand);
            let named_scheme = supported_schemes.iter().find(has_name);
            let brand_error = || FieldError::new("card_brand", "is not a brand of this card");
            Some(named_scheme.ok_or_else(brand_error)?)
        }
    };
    chosen.cloned().ok_or_else(|| Error::Internal("a 3DS session has no card scheme".into()))
}

/// The identity of this 3DS server, and the URLs for results and for the browser.
fn server_details(
    session: &LoadedSession,
    connection: &SchemeConnection,
    public_url: &str,
) -> ServerIdentity {
    let id = session.record.id;
    ServerIdentity {
        reference_number: connection.reference_number.clone(),
        operator_id: connection.operator_id.clone(),
        results_url: format!(
            "{}/3ds/sessions/{id}/results/{}",
            connection.results_url, session.body.secret
        ),
        notification_url: format!("{public_url}/3ds/sessions/{id}/challenge-notification"),
    }
}

fn invalid_request_error(violations: &[Violation]) -> Error {
    let to_field_error = |it: &Violation| FieldError::new(it.path.clone(), it.message);
    Error::Invalid(violations.iter().map(to_field_error).collect())
}

fn service_error(failure: ServiceFailure) -> Error {
    Error::Service(Box::new(failure))
}

/// Writes the outcome before the caller gets it. No other request changes a session that is being
/// authenticated, so a changed row means that the session was deleted.
async fn save_outcome(
    vault: &Vault,
    permit: &Permit,
    session: LoadedSession,
    response: Result<Zeroizing<Vec<u8>>, DirectoryServerError>,
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
    let seal = |(recorder, view): (&ResponseRecorder<AuthenticationView>, &AuthenticationView)| {
        let rendered = (recorder.render)(view);
        let session = Some(next.record.id);
        seal_permitted_response(permit, recorder.claim.digests, rendered, session, now)
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
        (None, None) => Err(Error::Internal("a 3DS authentication has no outcome".into())),
    }
}

/// Applies the response: returns the new session, and the failure if there is one.
fn apply_response(
    session: &LoadedSession,
    response: Result<Zeroizing<Vec<u8>>, DirectoryServerError>,
    now: Timestamp,
) -> Result<(LoadedSession, Vec<StateMachineEffect>, Option<ServiceFailure>), Error> {
    let id = session.record.id;
    // A request during the authentication may have reported the timeout already, so it stays final.
    let response =
        if session.has_timed_out(now) { Err(DirectoryServerError::TimedOut) } else { response };
    let (event, failure) = match response {
        Err(DirectoryServerError::NotSent) => {
            let failure =
                ServiceFailure::from_directory_server_error(DirectoryServerError::NotSent, id);
            (StateMachineEvent::RequestNotSent, Some(failure))
        }
        Err(error @ (DirectoryServerError::TimedOut | DirectoryServerError::Broken)) => (
            StateMachineEvent::Timeout,
            Some(ServiceFailure::from_directory_server_error(error, id)),
        ),
        Ok(bytes) => parse_response(session, &bytes),
    };
    let to_internal_error =
        |_| Error::Internal("a 3DS session changed during authentication".into());
    match session.apply_event(&event, now) {
        Ok((next, effects)) => Ok((next, effects, failure)),
        Err(ThreeDsRejection::Expired) => Err(Error::NotFound),
        Err(rejection) => {
            let failure = ServiceFailure::from_fault(&rejection.fault(), id);
            let (next, effects) =
                session.apply_event(&StateMachineEvent::Error, now).map_err(to_internal_error)?;
            Ok((next, effects, Some(failure)))
        }
    }
}

fn parse_response(
    session: &LoadedSession,
    bytes: &[u8],
) -> (StateMachineEvent, Option<ServiceFailure>) {
    let id = session.record.id;
    let fail =
        |fault: Fault| (StateMachineEvent::Error, Some(ServiceFailure::from_fault(&fault, id)));
    let document = match Document::parse(bytes) {
        Ok(document) => document,
        Err(fault) => return fail(fault),
    };
    let context = session.body.state.transaction_context();
    let context = context
        .unwrap_or_else(|| TransactionContext::for_version(scrip_threeds::format::Version::V220));
    if document.message_type() == MessageType::Erro {
        return match document.parse_as::<Erro>(&context) {
            Ok(error) => {
                (StateMachineEvent::Error, Some(ServiceFailure::from_error_message(&error, id)))
            }
            Err(fault) => fail(fault),
        };
    }
    match document.parse_as::<ARes>(&context) {
        Ok(ares) => (StateMachineEvent::Response { ares: Box::new(ares) }, None),
        Err(fault) => fail(fault),
    }
}
