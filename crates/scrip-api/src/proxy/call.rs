//! A proxied call: from the request of a client to the answer of a destination.
//!
//! - Before the first byte leaves: proxy, sender, rate limits, body, idempotency key, destination,
//!   tokens and permissions, expressions, request transforms, header expressions, durable record.
//! - Afterwards: response transforms, the outcome of the call, response.
//!
//! Every error has the form of the proxy and says how far the call got.

mod answer;
mod exchange;
mod failure;
mod outgoing;
mod party;
mod plan;
pub(crate) mod received_call;
mod selection;
mod target;
mod transforms;
mod unsent_tokens;

use std::sync::Arc;

use axum::{body::HttpBody, response::Response};
use bytes::Bytes;
use hyper::{HeaderMap, StatusCode, http::request::Parts};
use scrip_core::{
    Error,
    idempotency::{CallContent, IdempotencyClaim},
    operations::{
        proxy_calls::{
            claim_proxy_call::{CallClaim, CallRejection, claim_proxy_call, end_rejected_claim},
            decrypt_call_data::decrypt_call_data,
            use_tokens::TokenUse,
        },
        reference_data::DecryptedCallData,
    },
    policy::{Caller, Directory, RequestOrigin, rate_limit::ClientNetwork},
    types::{Permission, error::Denial},
    work_meter::WorkMeter,
};
use tokio::time::Instant;
use tracing::Instrument;

pub use self::answer::StreamedAnswer;
use self::{
    answer::{AnswerBuilder, replay_response},
    exchange::PreparedCall,
    failure::{record_rejected_call, record_unselected_call},
    outgoing::{
        build_request, check_computed_headers, find_hidden_configuration, find_hidden_inputs,
        load_configuration, load_tokens, parse_message,
    },
    party::{CallParty, is_keyless},
    plan::CallPlan,
    received_call::{ReceivedCall, honors_idempotency_key},
    selection::SelectedProxy,
    target::AppendedTarget,
    transforms::CallTransforms,
    unsent_tokens::UnsentTokens,
};
pub(crate) use self::{received_call::method_name, selection::CallEntry};
use crate::{
    app::{App, body_memory::BodyReservation, failed_call_log::FailedCall, long_evaluation},
    metrics::{CallResult, IdempotencyOutcome},
    middleware::{
        admission,
        body::{ResponseBudget, read_body},
    },
    problem::{Problem, not_ready::not_ready},
    proxy::{
        error::{CallDelivery, ProxyError},
        headers::parse_encrypted_header,
        outgoing::{ExpressionInputs, OutgoingMessage, UsablePlaintext},
    },
    route::{IDEMPOTENCY_KEY, IncomingRequest, single_header},
    trace_id::TraceId,
};

/// Serves a call.
/// Errors: the call is rejected, or the destination does not answer.
pub(crate) async fn serve_call(
    app: &Arc<App>,
    entry: CallEntry,
    incoming: &mut IncomingRequest,
) -> Result<Response, ProxyError> {
    if method_name(&incoming.head.method).is_empty() {
        admission::count_anonymous(app, incoming.address).await?;
        return Err(Problem::MethodNotAllowed.into());
    }
    let origin = RequestOrigin { trace: Arc::clone(&incoming.trace.0), address: incoming.address };
    let mut has_key = has_idempotency_key(&incoming.head);
    let host = admission::check_host(app, &incoming.head, incoming.address).await;
    host.map_err(|problem| before_lookup(problem.into(), has_key))?;
    let (directory, selected) = select_proxy(app, entry, &incoming.head, &origin)
        .await
        .map_err(|error| before_lookup(error, has_key))?;
    // A call without an API key ignores the idempotency key.
    has_key &= !is_keyless(&selected, &incoming.head.headers);
    let before_lookup = |error| before_lookup(error, has_key);
    let party = identify_sender(app, entry, &incoming.head, &selected, origin).await;
    let identified = IdentifiedCall { directory, selected, party: party.map_err(before_lookup)? };
    let (party, selected) = (identified.party.clone(), identified.selected.clone());
    let method = method_name(&incoming.head.method);
    let result = match receive(app, entry, incoming, identified).await {
        Err(error) => Err(before_lookup(error)),
        Ok(received) => claim_and_run(app, &incoming.trace, received).await,
    };
    match result {
        Ok(response) => Ok(response),
        Err(error) => {
            record_rejected_call(app, &party, &selected, method, &error).await;
            Err(error)
        }
    }
}

/// The proxy and the sender of a call, and the policy by which they were found.
struct IdentifiedCall {
    directory: Arc<Directory>,
    selected: SelectedProxy,
    party: CallParty,
}

/// An error before the idempotency key is looked up: an earlier call with the same key may have been
/// sent.
fn before_lookup(error: ProxyError, has_key: bool) -> ProxyError {
    if has_key { error.with_delivery(CallDelivery::MaybeSent) } else { error }
}

async fn select_proxy(
    app: &App,
    entry: CallEntry,
    head: &Parts,
    origin: &RequestOrigin,
) -> Result<(Arc<Directory>, SelectedProxy), ProxyError> {
    admission::check_address(app, origin.address)?;
    let directory = app.directory.load_full().ok_or_else(|| not_ready(app))?;
    let selected = SelectedProxy::find(&directory, head, entry, app.settings.loopback_destinations);
    match selected {
        Ok(selected) => Ok((directory, selected)),
        Err(error) => {
            // Guesses of keys count.
            admission::count_anonymous(app, origin.address).await?;
            record_unselected_call(app, head, origin.clone(), &error).await;
            Err(error)
        }
    }
}

async fn identify_sender(
    app: &App,
    entry: CallEntry,
    head: &Parts,
    selected: &SelectedProxy,
    origin: RequestOrigin,
) -> Result<CallParty, ProxyError> {
    let address = origin.address;
    let party = CallParty::identify(app, head, entry, selected, origin).await?;
    ResponseBudget::new(app, address).check()?;
    Ok(party)
}

/// A received call, with the memory of its body and the current policy.
struct PendingCall {
    call: ReceivedCall,
    reservation: BodyReservation,
    directory: Arc<Directory>,
}

/// Reads the body.
async fn receive(
    app: &App,
    entry: CallEntry,
    incoming: &mut IncomingRequest,
    identified: IdentifiedCall,
) -> Result<PendingCall, ProxyError> {
    let IdentifiedCall { directory, selected, party } = identified;
    // Here and not earlier, so that a denial is recorded.
    if let Some(caller) = party.caller() {
        admission::check_origin(app, &incoming.head, caller)?;
    }
    check_sender(app, &incoming.head, entry, &selected, &party)?;
    let target = AppendedTarget::read(&incoming.head, entry)?;
    let network = ClientNetwork::from_address(incoming.address);
    let (mut reservation, deadline) = match &party {
        CallParty::Caller { .. } => {
            (app.memory.bodies.start_reservation(network), app.settings.limits.body_deadline)
        }
        CallParty::Keyless(_) => (
            app.memory.keyless_bodies.start_keyless_reservation(network),
            app.settings.limits.keyless_deadline(),
        ),
    };
    let bytes_max = app.egress.proxied_calls.limits.body_bytes_max;
    let body = match incoming.body.is_end_stream() {
        true => Bytes::new(),
        false => read_body(app, &mut incoming.body, deadline, bytes_max, &mut reservation).await?,
    };
    // While the body arrived, the proxy may have been changed, and its sender may have lost rights.
    let current = app.directory.load_full().ok_or_else(|| not_ready(app))?;
    let is_session = party.caller().is_some_and(|it| it.access_session().is_some());
    let is_current = Arc::ptr_eq(&directory, &current) && app.rejection_reason().is_none();
    let (selected, party) = if is_current && !is_session {
        (selected, party)
    } else {
        let head = &incoming.head;
        let selected =
            SelectedProxy::find(&current, head, entry, app.settings.loopback_destinations)?;
        let origin = party.origin().clone();
        let party = CallParty::identify_again(app, head, &selected, origin).await?;
        check_sender(app, head, entry, &selected, &party)?;
        (selected, party)
    };
    let method = incoming.head.method.clone();
    let headers = std::mem::take(&mut incoming.head.headers);
    let encrypted = decrypt_header(app, &headers, &party).await?;
    let call = ReceivedCall { method, headers, target, body, entry, selected, party, encrypted };
    Ok(PendingCall { call, reservation, directory: current })
}

/// Checks that the sender may use the proxy. Values of hosted fields pass only through a proxy that an
/// administrator configured for known senders: a page could name its own destination otherwise.
fn check_sender(
    app: &App,
    head: &Parts,
    entry: CallEntry,
    selected: &SelectedProxy,
    party: &CallParty,
) -> Result<(), ProxyError> {
    let needs_key = selected.proxy().is_some_and(|it| it.record().require_auth);
    if admission::has_field_values(&head.headers) && !needs_key {
        return Err(Error::Forbidden(Denial::OpenProxyForFields).into());
    }
    admission::check_field_key(app, &head.headers, party.caller())?;
    party.check_rights(selected, entry)
}

/// Decrypts the data of the header `BT-ENCRYPTED`. A client without an API key has no right to use
/// it.
async fn decrypt_header(
    app: &App,
    headers: &HeaderMap,
    party: &CallParty,
) -> Result<Option<Arc<DecryptedCallData<UsablePlaintext>>>, ProxyError> {
    let Some(encrypted) = parse_encrypted_header(headers)? else { return Ok(None) };
    let CallParty::Caller { caller, right } = party else {
        return Err(Error::Forbidden(Denial::NoRule(Permission::TokenUse)).into());
    };
    let destinations = app.egress.proxied_calls.destinations();
    let decrypted = decrypt_call_data(&app.vault, caller, &encrypted, *right, destinations).await?;
    Ok(Some(Arc::new(decrypted)))
}

fn has_idempotency_key(head: &Parts) -> bool {
    honors_idempotency_key(head.method.as_str()) && head.headers.contains_key(IDEMPOTENCY_KEY)
}

async fn claim_and_run(
    app: &Arc<App>,
    trace: &TraceId,
    pending: PendingCall,
) -> Result<Response, ProxyError> {
    let Some(claim) = claim_key(app, &pending.call).await? else {
        return run_call(app, pending, &mut None).await;
    };
    let claim = match claim {
        CallClaim::Proceed(claim) => claim,
        CallClaim::Replay(stored) => {
            app.metrics.proxy_calls.increment(CallResult::Replayed);
            return Ok(replay_response(stored, pending.call.entry));
        }
    };
    // In a separate task: a client that disconnects drops this future, and the outcome must be
    // stored.
    let (task_app, in_flight) = (Arc::clone(app), app.tasks.calls.track());
    let task = async move {
        let mut in_flight = in_flight;
        tokio::select! {
            result = run_claimed_call(&task_app, pending, claim) => result,
            () = in_flight.wait_for_stop() => {
                let (status, delivery) =
                    (StatusCode::SERVICE_UNAVAILABLE, CallDelivery::MaybeSent);
                Err(ProxyError::new(status, delivery, "the server stopped during the call"))
            }
        }
    };
    tokio::spawn(task.in_current_span()).await.unwrap_or_else(|_| {
        app.metrics.panics.increment();
        tracing::error!(trace = &*trace.0, "a proxied call panicked");
        let error = ProxyError::from(Error::Internal("a proxied call panicked".into()));
        Err(error.with_delivery(CallDelivery::MaybeSent))
    })
}

/// Runs a call with a claimed idempotency key.
async fn run_claimed_call(
    app: &App,
    pending: PendingCall,
    claim: IdempotencyClaim,
) -> Result<Response, ProxyError> {
    let caller = pending.call.party.caller().cloned();
    let mut unstarted = Some(claim);
    let result = match pending.call.party.check_idempotency_right() {
        Ok(()) => run_call(app, pending, &mut unstarted).await,
        Err(error) => Err(error),
    };
    match (result, caller, unstarted) {
        (Err(error), Some(caller), Some(claim)) => {
            let delivery = end_rejected_claim(&app.vault, &caller, claim).await;
            Err(error.with_delivery(delivery))
        }
        (result, ..) => result,
    }
}

/// Claims the idempotency key of a call; `None` if it has none. Calls without an API key ignore it.
async fn claim_key(app: &App, call: &ReceivedCall) -> Result<Option<CallClaim>, ProxyError> {
    let is_honored = honors_idempotency_key(call.method_name());
    let Some(caller) = call.party.caller().filter(|_| is_honored) else { return Ok(None) };
    let key = single_header(&call.headers, IDEMPOTENCY_KEY, "BT-IDEMPOTENCY-KEY")?;
    let Some(key) = key else { return Ok(None) };
    let destination = match &call.selected {
        SelectedProxy::Ephemeral(url) => url.as_str().to_owned(),
        SelectedProxy::PreConfigured(proxy) => proxy.record().id.to_string(),
    };
    let content = CallContent {
        method: call.method_name(),
        destination: &destination,
        path_and_query: call.target.as_str(),
        body: &call.body,
        encrypted: call.encrypted.as_ref().map(|it| it.comparison()),
    };
    let claim = claim_proxy_call(&app.vault, caller, key.as_bytes(), content).await;
    let outcome = match &claim {
        Ok(CallClaim::Proceed(_)) => Some(IdempotencyOutcome::First),
        Ok(CallClaim::Replay(_)) => Some(IdempotencyOutcome::Replay),
        Err(CallRejection { error: Error::Conflict { .. }, .. }) => {
            Some(IdempotencyOutcome::Conflict)
        }
        Err(_) => None,
    };
    if let Some(outcome) = outcome {
        app.metrics.idempotency.increment(outcome);
    }
    claim.map(Some).map_err(|CallRejection { error, delivery, answered_status }| {
        let status = answered_status.and_then(|it| StatusCode::from_u16(it).ok());
        ProxyError::from(error).with_delivery(delivery).with_destination_status(status)
    })
}

/// Runs the call and logs its failure.
async fn run_call(
    app: &App,
    pending: PendingCall,
    claim: &mut Option<IdempotencyClaim>,
) -> Result<Response, ProxyError> {
    let trace = Arc::clone(&pending.call.party.origin().trace);
    let proxy = pending.call.selected.proxy().map(|it| it.record().id);
    let result = exchange_messages(app, pending, claim).await;
    if let Err(error) = &result
        && let Some(cause) = &error.logged_cause
    {
        let (status, delivery) = (error.status().as_u16(), error.delivery());
        FailedCall { trace: &trace, proxy, delivery, status, cause }.log();
    }
    result
}

/// Sends the call and passes the answer on. Takes the claim when the call is started.
async fn exchange_messages(
    app: &App,
    pending: PendingCall,
    claim: &mut Option<IdempotencyClaim>,
) -> Result<Response, ProxyError> {
    let PendingCall { call, mut reservation, directory } = pending;
    let plan = CallPlan::new(app, &directory, &call)?;
    drop(directory);
    let tenant = call.party.tenant(&call.selected)?.id;
    let keyless_work = WorkMeter::new(Some(tenant), long_evaluation::run_in_slot);
    let work = call.party.caller().map_or(&keyless_work, Caller::work);
    let message = parse_message(&call, app.vault.disclosure, work)?;
    let configuration = load_configuration(&call, &plan, &message)?;
    let mut transforms = CallTransforms::prepare(app, &call, &plan, &configuration, work)?;
    let configuration_data = find_hidden_configuration(&call, &message);
    let computed = check_computed_headers(app, &call, &plan, &message, configuration_data).await?;
    let TokenUse { used, data } = load_tokens(app, &call, &message, computed.body).await?;
    let tokens = UnsentTokens::new(app, &call, &plan, used, configuration_data);
    if let Err(error) = OutgoingMessage::check_references(&message, &data) {
        return Err(tokens.reject_openly(error).await);
    }
    let is_answer_hidden = tokens.are_hidden() || admission::has_field_values(&call.headers);
    if let Some(transforms) = transforms.as_mut().filter(|_| is_answer_hidden)
        && let Err(error) = transforms.hide_answer(&plan, tokens.used.hidden_places())
    {
        return Err(tokens.reject_openly(error).await);
    }
    let hidden = find_hidden_inputs(&call, &plan, &message, configuration_data, &tokens, work);
    let hidden = match hidden {
        Ok(hidden) => hidden,
        Err(error) => return Err(tokens.reject_openly(error).await),
    };
    let inputs = ExpressionInputs {
        references: &data,
        configuration: &configuration,
        work,
        fill_random: app.vault.fill_random,
        bytes_max: app.egress.proxied_calls.limits.body_bytes_max,
        hidden,
    };
    let request = build_request(app, &call, &plan, &message, &inputs, transforms.as_mut()).await;
    let created = transforms.as_mut().map(CallTransforms::take_created_tokens).unwrap_or_default();
    let request = match request {
        Ok(request) => request,
        Err(error) => return Err(tokens.reject_after_storing(&created, error).await),
    };
    // The values that were parsed from the body are no longer needed while the destination works.
    drop(message);
    reservation.release_parsed(call.body.len());
    let is_stored = claim.is_some();
    let deadline = Instant::now() + plan.timeout;
    let claim = claim.take();
    let (is_explained, hidden_data) = (tokens.may_explain_answer(), tokens.hidden_data());
    let prepared = PreparedCall { request, created_tokens: created, deadline };
    let (sent, answer) = exchange::send(app, &call, &plan, prepared, tokens, claim).await?;
    if let Some(transforms) = &mut transforms {
        transforms.set_deadline(deadline);
    }
    let builder = AnswerBuilder {
        app,
        call: &call,
        plan: &plan,
        transforms: transforms.as_mut(),
        is_stored,
        is_explained,
        hidden_data,
        reservation,
    };
    builder.pass_on(sent, answer).await
}
