//! The end of a challenge: its result is told to the 3DS server, and then the browser may go.

use std::sync::Arc;

use scrip_threeds::{
    code::{ChallengeCancel, ChallengeType, Status, StatusReason, YesNo},
    format::{Alphanumeric, Digits},
    message::{CRes, RReq},
};

use crate::{
    acs::cryptogram::authentication_value,
    card::{Challenge, Means},
    directory,
    knob::Reporting,
    transaction::{Course, Facts, Phase, Transaction},
    world::World,
};

/// Why it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As the card has it.
    Scripted,
    Canceled,
    TooManyTries,
    /// Nobody came.
    NoRequest,
    /// Somebody came and did nothing.
    TooSlow,
    DecoupledTimeout,
}

struct Outcome {
    status: Status,
    reason: Option<StatusReason>,
    cancel: Option<ChallengeCancel>,
}

fn outcome(challenge: Challenge, end: End) -> Outcome {
    let failed = |reason, cancel| Outcome { status: Status::Failed, reason: Some(reason), cancel };
    match end {
        End::Scripted => {
            let ending = challenge.ending;
            Outcome { status: ending.status(), reason: ending.reason(), cancel: None }
        }
        End::Canceled => {
            let cancel = ChallengeCancel::CardholderCanceled;
            failed(StatusReason::CardAuthenticationFailed, Some(cancel))
        }
        End::TooManyTries => failed(StatusReason::MaxChallengesExceeded, None),
        End::NoRequest => {
            failed(StatusReason::TimeoutAtAcs, Some(ChallengeCancel::RequestNotReceived))
        }
        End::TooSlow => failed(StatusReason::TimeoutAtAcs, Some(ChallengeCancel::AcsTimeout)),
        End::DecoupledTimeout => {
            let cancel = ChallengeCancel::TransactionAbandoned;
            failed(StatusReason::DecoupledTimeout, Some(cancel))
        }
    }
}

/// Ends it, if it is still where it is said to be. In a task of its own: a browser that leaves does
/// not take the result with it.
pub(super) fn finish(world: &Arc<World>, transaction: &Arc<Transaction>, from: Phase, end: End) {
    if !transaction.progress.claim(from) {
        return;
    }
    let (world, transaction) = (Arc::clone(world), Arc::clone(transaction));
    tokio::spawn(async move {
        let facts = &transaction.facts;
        let outcome = outcome(facts.challenge, end);
        // What the browser tells is less than the result: an attempt passes for a success.
        let passed = matches!(outcome.status, Status::Successful | Status::Attempted);
        let told = if passed { Status::Successful } else { Status::Failed };
        let result = result(facts, &outcome, transaction.tries());
        let knob = world.knobs(facts.scheme).rreq;
        let ended = || transaction.progress.end(told);
        if matches!(knob, Reporting::Late | Reporting::Never) {
            ended();
            directory::report(&world, facts, &result, knob).await;
        } else {
            directory::report(&world, facts, &result, knob).await;
            ended();
        }
    });
}

fn result(facts: &Facts, outcome: &Outcome, tries: u8) -> RReq {
    let status = outcome.status;
    let counted = facts.course != Course::Decoupled;
    RReq {
        message_version: facts.version,
        server_trans_id: facts.server_trans_id.clone(),
        acs_trans_id: facts.acs_trans_id.clone(),
        ds_trans_id: facts.ds_trans_id.clone(),
        category: facts.category,
        status,
        status_reason: outcome.reason,
        authentication_value: authentication_value(&facts.server_trans_id, status),
        eci: Alphanumeric::parse(facts.scheme.eci(status, facts.category)).ok(),
        authentication_method: None,
        challenge_type: Some(challenge_type(facts)),
        challenge_cancel: outcome.cancel,
        attempts: Digits::parse(&format!("{tries:02}")).ok().filter(|_| counted),
        acs_rendering: facts.rendering.clone(),
        sdk_trans_id: facts.sdk_trans_id.clone(),
        whitelist_status: None,
        whitelist_source: None,
        extensions: None,
    }
}

fn challenge_type(facts: &Facts) -> ChallengeType {
    match (facts.course, facts.challenge.means) {
        (Course::Decoupled, _) => ChallengeType::Decoupled,
        (_, Means::Code) => ChallengeType::Static,
        (_, Means::OutOfBand) => ChallengeType::OutOfBand,
    }
}

/// The last word to a browser or an app.
pub(super) fn last_cres(facts: &Facts, status: Status) -> CRes {
    CRes { completed: YesNo::Yes, status: Some(status), ..bare_cres(facts) }
}

/// A `CRes` that says nothing yet.
pub(super) fn bare_cres(facts: &Facts) -> CRes {
    CRes {
        message_version: facts.version,
        server_trans_id: facts.server_trans_id.clone(),
        acs_trans_id: facts.acs_trans_id.clone(),
        completed: YesNo::No,
        status: None,
        acs_counter: None,
        sdk_trans_id: facts.sdk_trans_id.clone(),
        ui_type: None,
        html: None,
        html_refresh: None,
        additional_info: None,
        info_header: None,
        info_label: None,
        info_text: None,
        info_text_warning: None,
        select_info: None,
        expand_info_label: None,
        expand_info_text: None,
        issuer_image: None,
        scheme_image: None,
        oob_app_url: None,
        oob_app_label: None,
        oob_continue_label: None,
        resend_label: None,
        submit_label: None,
        why_label: None,
        why_text: None,
        whitelisting_text: None,
        extensions: None,
    }
}
