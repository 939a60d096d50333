//! Builds the `ARes` for an `AReq`.

use std::{sync::Arc, time::Duration};

use scrip_threeds::{
    code::{
        AcsInterface, ChallengePreference, ChallengeType, DeviceChannel, Scheme, SdkInterface,
        Status, StatusReason, UiType, YesNo,
    },
    fault::{ErrorCode, Fault},
    format::{Alphanumeric, TransId, Url, Version},
    message::{AReq, ARes, AcsRendering, Message, TransactionContext},
};

use crate::{
    acs::{cryptogram::authentication_value, timers},
    app_encryption::AppKeys,
    card::{
        CardScenario, ChallengeKind, ChallengeMandate, ChallengeScenario, ScenarioOutcome,
        scenario_for_number,
    },
    page::Purchase,
    state::{SimulatorState, new_id},
    transaction::{ChallengeFlow, Transaction, TransactionDetails},
};

/// The properties of an open challenge that the `ARes` and the stored transaction need.
struct OpenedChallenge {
    flow: ChallengeFlow,
    challenge: ChallengeScenario,
    app: Option<(AppKeys, AcsRendering)>,
}

pub(crate) fn authenticate(
    state: &Arc<SimulatorState>,
    scheme: Scheme,
    request: &AReq,
) -> Result<ARes, Fault> {
    let acs_trans_id = new_id();
    let ds_trans_id = request.ds_trans_id.clone().unwrap_or_else(new_id);
    let base = base_ares(state, request, acs_trans_id, ds_trans_id);
    let (response, opened_challenge) = match decide(request) {
        IssuerDecision::Final(status, reason) => {
            let response = ARes {
                status,
                status_reason: reason,
                authentication_value: authentication_value(&request.server_trans_id, status),
                eci: Alphanumeric::parse(scheme.eci(status, request.category)).ok(),
                ..base
            };
            (response, None)
        }
        IssuerDecision::Decoupled(challenge) => open_decoupled(state, base, challenge),
        IssuerDecision::Challenge(challenge) => open_challenge(state, base, challenge, request)?,
    };
    // An `ARes` that the 3DS server would reject is a bug of the simulator.
    let context = TransactionContext::for_version(request.message_version)
        .with_channel(request.channel, request.category);
    response.check(&context)?;
    if let Some(opened_challenge) = opened_challenge {
        store_transaction(state, scheme, request, &response, opened_challenge);
    }
    Ok(response)
}

fn open_decoupled(
    state: &SimulatorState,
    base: ARes,
    challenge: ChallengeScenario,
) -> (ARes, Option<OpenedChallenge>) {
    let response = ARes {
        status: Status::DecoupledChallenge,
        challenge_mandated: Some(mandate_indicator(challenge)),
        challenge_type: Some(ChallengeType::Decoupled),
        decoupled: Some(YesNo::Yes),
        cardholder_info: Some(state.texts.cardholder_info.clone()),
        ..base
    };
    (response, Some(OpenedChallenge { flow: ChallengeFlow::Decoupled, challenge, app: None }))
}

fn open_challenge(
    state: &SimulatorState,
    base: ARes,
    challenge: ChallengeScenario,
    request: &AReq,
) -> Result<(ARes, Option<OpenedChallenge>), Fault> {
    let internal = |_| Fault::new(ErrorCode::TransientFailure);
    let challenge_type = match challenge.kind {
        ChallengeKind::Code => ChallengeType::Static,
        ChallengeKind::OutOfBand => ChallengeType::OutOfBand,
    };
    let response = ARes {
        status: Status::Challenge,
        challenge_mandated: Some(mandate_indicator(challenge)),
        challenge_type: Some(challenge_type),
        decoupled: request.decoupled.map(|_| YesNo::No),
        ..base
    };
    if request.channel == DeviceChannel::Browser {
        let url = Url::parse(&format!("{}/sim/acs/challenge", state.base_url));
        let response = ARes { acs_url: Some(url.map_err(internal)?), ..response };
        return Ok((
            response,
            Some(OpenedChallenge { flow: ChallengeFlow::Browser, challenge, app: None }),
        ));
    }
    let missing = |name| Fault::for_element(ErrorCode::ElementMissing, name);
    let sdk_key = request.sdk_ephemeral_key.as_ref().ok_or(missing("sdkEphemPubKey"))?;
    let sdk = request.sdk_reference_number.as_ref().ok_or(missing("sdkReferenceNumber"))?;
    let url = format!("{}/sim/acs/app", state.base_url);
    let signer = state.signer().map_err(|_| Fault::new(ErrorCode::TransientFailure))?;
    let (signed, keys) = signer.create_app_keys(&url, sdk_key, sdk.expose())?;
    let rendering =
        AcsRendering { interface: choose_interface(request), template: choose_template(challenge) };
    let response = ARes {
        acs_signed_content: Some(signed),
        acs_rendering: Some(rendering.clone()),
        ..response
    };
    let app = Some((keys, rendering));
    Ok((response, Some(OpenedChallenge { flow: ChallengeFlow::App, challenge, app })))
}

fn mandate_indicator(challenge: ChallengeScenario) -> YesNo {
    YesNo::from(challenge.mandate == ChallengeMandate::Mandated)
}

/// Native forms if the SDK supports them.
fn choose_interface(request: &AReq) -> AcsInterface {
    let html = request.device_rendering.as_ref().map(|it| it.interface) == Some(SdkInterface::Html);
    if html { AcsInterface::Html } else { AcsInterface::Native }
}

fn choose_template(challenge: ChallengeScenario) -> UiType {
    match challenge.kind {
        ChallengeKind::Code => UiType::Text,
        ChallengeKind::OutOfBand => UiType::OutOfBand,
    }
}

fn store_transaction(
    state: &Arc<SimulatorState>,
    scheme: Scheme,
    request: &AReq,
    response: &ARes,
    opened_challenge: OpenedChallenge,
) {
    let (app, rendering) = match opened_challenge.app {
        Some((keys, rendering)) => (Some(keys), Some(rendering)),
        None => (None, None),
    };
    let details = TransactionDetails {
        scheme,
        version: request.message_version,
        channel: request.channel,
        category: request.category,
        server_trans_id: request.server_trans_id.clone(),
        acs_trans_id: response.acs_trans_id.clone(),
        ds_trans_id: response.ds_trans_id.clone(),
        sdk_trans_id: request.sdk_trans_id.clone(),
        server_url: request.server_url.clone(),
        notification_url: request.notification_url.clone(),
        rendering,
        challenge: opened_challenge.challenge,
        flow: opened_challenge.flow,
        purchase: Purchase::from_request(scheme, request),
        app_keys: app,
    };
    let timeout = decoupled_timeout(state, request);
    let lifetime = state.timers.transaction_lifetime.saturating_add(timeout);
    let transaction = state.transactions.insert(Transaction::new(details), lifetime);
    match opened_challenge.flow {
        ChallengeFlow::Browser | ChallengeFlow::App => {
            timers::start_request_timer(state, &transaction)
        }
        ChallengeFlow::Decoupled => timers::start_decoupled_timer(state, &transaction, timeout),
    }
}

/// How long the 3DS server waits for a decoupled authentication.
fn decoupled_timeout(state: &SimulatorState, request: &AReq) -> Duration {
    let minutes = request.decoupled_max_time.as_ref().and_then(|it| it.expose().parse().ok());
    state.timers.decoupled_minute.saturating_mul(minutes.unwrap_or_default())
}

/// An `ARes` with the elements that do not depend on the decision.
fn base_ares(
    state: &SimulatorState,
    request: &AReq,
    acs_trans_id: TransId,
    ds_trans_id: TransId,
) -> ARes {
    ARes {
        message_version: request.message_version,
        server_trans_id: request.server_trans_id.clone(),
        acs_trans_id,
        acs_reference_number: state.texts.acs_reference.clone(),
        ds_trans_id,
        ds_reference_number: state.texts.ds_reference.clone(),
        status: Status::Unavailable,
        status_reason: None,
        authentication_value: None,
        eci: None,
        acs_operator_id: Some(state.texts.acs_operator.clone()),
        challenge_mandated: None,
        challenge_type: None,
        decoupled: None,
        acs_url: None,
        acs_signed_content: None,
        acs_rendering: None,
        sdk_trans_id: request.sdk_trans_id.clone(),
        cardholder_info: None,
        whitelist_status: None,
        whitelist_source: None,
        broadcast_info: None,
        extensions: None,
    }
}

/// The issuer's decision about an `AReq`: the card decides, within the limits of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IssuerDecision {
    /// The authentication ends with this `ARes`.
    Final(Status, Option<StatusReason>),
    /// The cardholder is challenged in a browser or an app.
    Challenge(ChallengeScenario),
    /// The cardholder is authenticated outside of the browser or app.
    Decoupled(ChallengeScenario),
}

pub(super) fn decide(request: &AReq) -> IssuerDecision {
    let is_v220_or_later = request.message_version >= Version::V220;
    let preference = request.challenge_preference.filter(|_| is_v220_or_later);
    let shares_only = preference == Some(ChallengePreference::DataSharingOnly);
    match scenario_for_number(request.card_number.expose()) {
        CardScenario::Frictionless(ScenarioOutcome::Successful)
            if shares_only || is_exempt(preference) =>
        {
            INFORMATIONAL
        }
        CardScenario::Frictionless(outcome) => {
            IssuerDecision::Final(outcome.status(), outcome.reason())
        }
        CardScenario::Challenge(_) if shares_only => INFORMATIONAL,
        CardScenario::Challenge(it)
            if is_v220_or_later && request.decoupled == Some(YesNo::Yes) =>
        {
            IssuerDecision::Decoupled(it)
        }
        // No cardholder is present, and the request does not allow decoupled authentication.
        CardScenario::Challenge(_) if request.channel == DeviceChannel::Requestor => {
            let reason = if is_v220_or_later {
                StatusReason::DecoupledRequired
            } else {
                StatusReason::CardAuthenticationFailed
            };
            IssuerDecision::Final(Status::Failed, Some(reason))
        }
        CardScenario::Challenge(it) => IssuerDecision::Challenge(it),
        // The directory server has rejected these, unless the simulated behavior gave them a range.
        CardScenario::DirectoryError
        | CardScenario::NoCommonVersion
        | CardScenario::NotEnrolled => IssuerDecision::Final(Status::Successful, None),
    }
}

const INFORMATIONAL: IssuerDecision = IssuerDecision::Final(Status::Informational, None);

/// The merchant has authenticated the cardholder or assessed the risk, and only reports it.
fn is_exempt(preference: Option<ChallengePreference>) -> bool {
    let exempt =
        [ChallengePreference::RiskAnalysisPerformed, ChallengePreference::StrongConsumerAuth];
    preference.is_some_and(|it| exempt.contains(&it))
}
