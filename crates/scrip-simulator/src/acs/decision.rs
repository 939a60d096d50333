//! The issuer's decision about an `AReq`: the card decides, within the limits of the request.

use scrip_threeds::{
    code::{ChallengePreference, DeviceChannel, Status, StatusReason, YesNo},
    format::Version,
    message::AReq,
};

use crate::card::{CardScenario, ChallengeScenario, ScenarioOutcome, scenario_for_number};

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
