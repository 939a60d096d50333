//! `ARes`: how an authentication went, or that there is more to do.

use crate::{
    code::{
        AcsInterface, ChallengeType, DeviceChannel, Status, StatusReason, UiType, WhitelistSource,
        WhitelistStatus, YesNo,
    },
    fault::ErrorCode,
    format::{Alphanumeric, AuthenticationValue, Compact, Object, Text, TransId, Url, Version},
    message::{
        Extensions, Facts, Message, MessageType, Need, Scene,
        need::{authentication_value, since_220, status_reason, whitelist_source},
        record::record,
    },
};

record! {
    /// The answer of an access control server, or of a directory server in its place.
    #[derive(Clone, PartialEq)]
    pub struct ARes {
        must message_version: Version = "messageVersion";
        must server_trans_id: TransId = "threeDSServerTransID";
        must acs_trans_id: TransId = "acsTransID";
        must acs_reference_number: Text<1, 32> = "acsReferenceNumber";
        must ds_trans_id: TransId = "dsTransID";
        must ds_reference_number: Text<1, 32> = "dsReferenceNumber";
        must status: Status = "transStatus";
        may status_reason: StatusReason = "transStatusReason" if status_reason;
        may authentication_value: AuthenticationValue = "authenticationValue" if authentication_value;
        may eci: Alphanumeric<2, 2> = "eci";
        may acs_operator_id: Text<1, 32> = "acsOperatorID";
        may challenge_mandated: YesNo = "acsChallengeMandated" if waiting;
        may challenge_type: ChallengeType = "authenticationType" if waiting;
        may decoupled: YesNo = "acsDecConInd" if decoupled;
        may acs_url: Url<2048> = "acsURL" if acs_url;
        may acs_signed_content: Compact<3, 65_536> = "acsSignedContent" if app_challenge;
        may acs_rendering: AcsRendering = "acsRenderingType" if app_challenge;
        may sdk_trans_id: TransId = "sdkTransID" if in_app;
        may cardholder_info: Text<1, 128> = "cardholderInfo" if cardholder_info;
        may whitelist_status: WhitelistStatus = "whiteListStatus" if since_220;
        may whitelist_source: WhitelistSource = "whiteListStatusSource" if whitelist_source;
        may broadcast_info: Object<4096> = "broadInfo";
        may extensions: Extensions = "messageExtension";
    }
}

record! {
    /// What an ACS will show.
    #[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct AcsRendering {
        must interface: AcsInterface = "acsInterface";
        must template: UiType = "acsUiTemplate";
    }
}

fn waiting(facts: &Facts<'_>) -> Need {
    Need::required_if(facts.is("transStatus", &["C", "D"]))
}

fn decoupled(facts: &Facts<'_>) -> Need {
    Need::required_if(facts.is("transStatus", &["D"])).since_220(facts)
}

/// Text for the cardholder is required where only the issuer can go on.
fn cardholder_info(facts: &Facts<'_>) -> Need {
    Need::required_if(facts.is("transStatus", &["D"]))
}

fn acs_url(facts: &Facts<'_>) -> Need {
    let challenge = facts.is("transStatus", &["C"]);
    match facts.channel() {
        Some(DeviceChannel::Browser) => Need::only_if(challenge),
        Some(DeviceChannel::App) | None if challenge => Need::Optional,
        Some(DeviceChannel::App | DeviceChannel::Requestor) | None => Need::Never,
    }
}

fn app_challenge(facts: &Facts<'_>) -> Need {
    let challenge = facts.is("transStatus", &["C"]);
    match facts.channel() {
        Some(DeviceChannel::App) => Need::only_if(challenge),
        None if challenge => Need::Optional,
        Some(DeviceChannel::Browser | DeviceChannel::Requestor) | None => Need::Never,
    }
}

/// Others may send it back empty-handed; only an app needs it.
fn in_app(facts: &Facts<'_>) -> Need {
    Need::required_if(facts.on(DeviceChannel::App))
}

impl Message for ARes {
    const TYPE: MessageType = MessageType::ARes;

    fn contradictions(&self, scene: &Scene) -> Vec<(ErrorCode, &'static str)> {
        let mut found = Vec::new();
        let new = matches!(self.status, Status::DecoupledChallenge | Status::Informational);
        let alone = scene.channel == Some(DeviceChannel::Requestor);
        let old = scene.version < Version::V220;
        if (old && new) || (alone && self.status == Status::Challenge) {
            found.push((ErrorCode::FormatInvalid, "transStatus"));
        }
        if old && self.status_reason.is_some_and(|it| !it.is_of_2_1_0()) {
            found.push((ErrorCode::FormatInvalid, "transStatusReason"));
        }
        found
    }
}
