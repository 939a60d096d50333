//! An `AReq`, answered.

use std::{sync::Arc, time::Duration};

use scrip_threeds::{
    code::{
        AcsInterface, ChallengeType, DeviceChannel, Scheme, SdkInterface, Status, UiType, YesNo,
    },
    fault::{ErrorCode, Fault},
    format::{Alphanumeric, TransId, Url},
    message::{AReq, ARes, AcsRendering, Message, Scene},
};

use crate::{
    acs::{
        AppKeys,
        cryptogram::authentication_value,
        decide::{Decision, decide},
        timer,
    },
    card::{Challenge, Mandate, Means},
    page::Purchase,
    transaction::{Course, Facts, Transaction},
    world::{World, new_id},
};

/// What a challenge adds to the answer.
struct Opened {
    course: Course,
    challenge: Challenge,
    app: Option<(AppKeys, AcsRendering)>,
}

pub(crate) fn authenticate(
    world: &Arc<World>,
    scheme: Scheme,
    request: &AReq,
) -> Result<ARes, Fault> {
    let acs_trans_id = new_id();
    let ds_trans_id = request.ds_trans_id.clone().unwrap_or_else(new_id);
    let bare = bare(world, request, acs_trans_id, ds_trans_id);
    let (answer, opened) = match decide(request) {
        Decision::Final(status, reason) => {
            let answer = ARes {
                status,
                status_reason: reason,
                authentication_value: authentication_value(&request.server_trans_id, status),
                eci: Alphanumeric::parse(scheme.eci(status, request.category)).ok(),
                ..bare
            };
            (answer, None)
        }
        Decision::Decoupled(challenge) => decoupled(world, bare, challenge),
        Decision::Challenge(challenge) => open_challenge(world, bare, challenge, request)?,
    };
    // What the 3DS server would refuse is our own mistake.
    let scene = Scene::of(request.message_version).within(request.channel, request.category);
    answer.check(&scene)?;
    if let Some(opened) = opened {
        remember(world, scheme, request, &answer, opened);
    }
    Ok(answer)
}

fn decoupled(world: &World, bare: ARes, challenge: Challenge) -> (ARes, Option<Opened>) {
    let answer = ARes {
        status: Status::DecoupledChallenge,
        challenge_mandated: Some(mandated(challenge)),
        challenge_type: Some(ChallengeType::Decoupled),
        decoupled: Some(YesNo::Yes),
        cardholder_info: Some(world.names.cardholder_info.clone()),
        ..bare
    };
    (answer, Some(Opened { course: Course::Decoupled, challenge, app: None }))
}

fn open_challenge(
    world: &World,
    bare: ARes,
    challenge: Challenge,
    request: &AReq,
) -> Result<(ARes, Option<Opened>), Fault> {
    let internal = |_| Fault::of(ErrorCode::TransientFailure);
    let kind = match challenge.means {
        Means::Code => ChallengeType::Static,
        Means::OutOfBand => ChallengeType::OutOfBand,
    };
    let answer = ARes {
        status: Status::Challenge,
        challenge_mandated: Some(mandated(challenge)),
        challenge_type: Some(kind),
        decoupled: request.decoupled.map(|_| YesNo::No),
        ..bare
    };
    if request.channel == DeviceChannel::Browser {
        let url = Url::parse(&format!("{}/sim/acs/challenge", world.base_url));
        let answer = ARes { acs_url: Some(url.map_err(internal)?), ..answer };
        return Ok((answer, Some(Opened { course: Course::Page, challenge, app: None })));
    }
    let missing = |name| Fault::at(ErrorCode::ElementMissing, name);
    let sdk_key = request.sdk_ephemeral_key.as_ref().ok_or(missing("sdkEphemPubKey"))?;
    let sdk = request.sdk_reference_number.as_ref().ok_or(missing("sdkReferenceNumber"))?;
    let url = format!("{}/sim/acs/app", world.base_url);
    let (signed, keys) = world.signer.agree(&url, sdk_key, sdk.expose())?;
    let rendering = AcsRendering { interface: interface(request), template: template(challenge) };
    let answer =
        ARes { acs_signed_content: Some(signed), acs_rendering: Some(rendering.clone()), ..answer };
    let app = Some((keys, rendering));
    Ok((answer, Some(Opened { course: Course::App, challenge, app })))
}

fn mandated(challenge: Challenge) -> YesNo {
    YesNo::from(challenge.mandate == Mandate::ByLaw)
}

/// Forms of the platform where the SDK has them.
fn interface(request: &AReq) -> AcsInterface {
    let html = request.device_rendering.as_ref().map(|it| it.interface) == Some(SdkInterface::Html);
    if html { AcsInterface::Html } else { AcsInterface::Native }
}

fn template(challenge: Challenge) -> UiType {
    match challenge.means {
        Means::Code => UiType::Text,
        Means::OutOfBand => UiType::OutOfBand,
    }
}

fn remember(world: &Arc<World>, scheme: Scheme, request: &AReq, answer: &ARes, opened: Opened) {
    let (app, rendering) = match opened.app {
        Some((keys, rendering)) => (Some(keys), Some(rendering)),
        None => (None, None),
    };
    let facts = Facts {
        scheme,
        version: request.message_version,
        channel: request.channel,
        category: request.category,
        server_trans_id: request.server_trans_id.clone(),
        acs_trans_id: answer.acs_trans_id.clone(),
        ds_trans_id: answer.ds_trans_id.clone(),
        sdk_trans_id: request.sdk_trans_id.clone(),
        server_url: request.server_url.clone(),
        notification_url: request.notification_url.clone(),
        rendering,
        challenge: opened.challenge,
        course: opened.course,
        purchase: Purchase::of(scheme, request),
        app,
    };
    let patience = decoupled_time(world, request);
    let keep = world.timers.keep.saturating_add(patience);
    let transaction = world.transactions.insert(Transaction::new(facts), keep);
    match opened.course {
        Course::Page | Course::App => timer::await_request(world, &transaction),
        Course::Decoupled => timer::ask_elsewhere(world, &transaction, patience),
    }
}

/// How long the 3DS server waits for a cardholder who is asked elsewhere.
fn decoupled_time(world: &World, request: &AReq) -> Duration {
    let minutes = request.decoupled_max_time.as_ref().and_then(|it| it.expose().parse().ok());
    world.timers.decoupled_minute.saturating_mul(minutes.unwrap_or_default())
}

/// An answer with nothing in it yet but who speaks about what.
fn bare(world: &World, request: &AReq, acs_trans_id: TransId, ds_trans_id: TransId) -> ARes {
    ARes {
        message_version: request.message_version,
        server_trans_id: request.server_trans_id.clone(),
        acs_trans_id,
        acs_reference_number: world.names.acs_reference.clone(),
        ds_trans_id,
        ds_reference_number: world.names.ds_reference.clone(),
        status: Status::Unavailable,
        status_reason: None,
        authentication_value: None,
        eci: None,
        acs_operator_id: Some(world.names.acs_operator.clone()),
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
