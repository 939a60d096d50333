//! What the bank does with a request: the card decides, within what the request allows.

use scrip_threeds::{
    code::{ChallengePreference, DeviceChannel, Status, StatusReason, YesNo},
    format::Version,
    message::AReq,
};

use crate::card::{Challenge, Ending, Script, script_of};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// It ends here.
    Final(Status, Option<StatusReason>),
    /// The cardholder is asked, by a page or an app.
    Challenge(Challenge),
    /// The cardholder is asked somewhere else.
    Decoupled(Challenge),
}

pub(super) fn decide(request: &AReq) -> Decision {
    let new = request.message_version >= Version::V220;
    let wish = request.challenge_preference.filter(|_| new);
    let shares_only = wish == Some(ChallengePreference::DataSharingOnly);
    match script_of(request.card_number.expose()) {
        Script::Frictionless(Ending::Successful) if shares_only || is_exempt(wish) => INFORMED,
        Script::Frictionless(ending) => Decision::Final(ending.status(), ending.reason()),
        Script::Challenge(_) if shares_only => INFORMED,
        Script::Challenge(it) if new && request.decoupled == Some(YesNo::Yes) => {
            Decision::Decoupled(it)
        }
        // Nobody is there to be asked, and elsewhere was not allowed.
        Script::Challenge(_) if request.channel == DeviceChannel::Requestor => {
            let reason = if new {
                StatusReason::DecoupledRequired
            } else {
                StatusReason::CardAuthenticationFailed
            };
            Decision::Final(Status::Failed, Some(reason))
        }
        Script::Challenge(it) => Decision::Challenge(it),
        // The directory has refused these, unless a knob gave them a range.
        Script::DirectoryError | Script::NoCommonVersion | Script::Unsupported => {
            Decision::Final(Status::Successful, None)
        }
    }
}

const INFORMED: Decision = Decision::Final(Status::Informational, None);

/// The merchant has looked for itself, and only wants it known.
fn is_exempt(wish: Option<ChallengePreference>) -> bool {
    let exempt =
        [ChallengePreference::RiskAnalysisPerformed, ChallengePreference::StrongConsumerAuth];
    wish.is_some_and(|it| exempt.contains(&it))
}
