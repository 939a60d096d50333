//! `ARes`: the response to an `AReq`, with a final status or a challenge.

use crate::{
    code::{
        AcsInterface, ChallengeType, DeviceChannel, Status, StatusReason, UiType, WhitelistSource,
        WhitelistStatus, YesNo,
    },
    fault::ErrorCode,
    format::{Alphanumeric, AuthenticationValue, JoseCompact, Object, Text, TransId, Url, Version},
    message::{
        ElementPresence, Extensions, Message, MessageElements, MessageType, TransactionContext,
        record::{
            presence::{authentication_value, since_220, status_reason, whitelist_source},
            record,
        },
    },
};

record! {
    /// The response of an ACS, or of a directory server on its behalf.
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
        may challenge_mandated: YesNo = "acsChallengeMandated" if open_challenge;
        may challenge_type: ChallengeType = "authenticationType" if open_challenge;
        may decoupled: YesNo = "acsDecConInd" if decoupled;
        may acs_url: Url<2048> = "acsURL" if acs_url;
        may acs_signed_content: JoseCompact<3, 65_536> = "acsSignedContent" if app_challenge;
        may acs_rendering: AcsRendering = "acsRenderingType" if app_challenge;
        may sdk_trans_id: TransId = "sdkTransID" if on_app;
        may cardholder_info: Text<1, 128> = "cardholderInfo" if cardholder_info;
        may whitelist_status: WhitelistStatus = "whiteListStatus" if since_220;
        may whitelist_source: WhitelistSource = "whiteListStatusSource" if whitelist_source;
        may broadcast_info: Object<4096> = "broadInfo";
        may extensions: Extensions = "messageExtension";
    }
}

record! {
    /// The interface and template that an ACS uses.
    #[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct AcsRendering {
        must interface: AcsInterface = "acsInterface";
        must template: UiType = "acsUiTemplate";
    }
}

fn open_challenge(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(elements.has_code("transStatus", &["C", "D"]))
}

fn decoupled(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(elements.has_code("transStatus", &["D"])).since_220(elements)
}

/// Text for the cardholder is required in a decoupled authentication.
fn cardholder_info(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(elements.has_code("transStatus", &["D"]))
}

fn acs_url(elements: &MessageElements<'_>) -> ElementPresence {
    let is_challenge = elements.has_code("transStatus", &["C"]);
    match elements.channel() {
        Some(DeviceChannel::Browser) => ElementPresence::only_if(is_challenge),
        Some(DeviceChannel::App) | None if is_challenge => ElementPresence::Optional,
        Some(DeviceChannel::App | DeviceChannel::Requestor) | None => ElementPresence::Forbidden,
    }
}

fn app_challenge(elements: &MessageElements<'_>) -> ElementPresence {
    let is_challenge = elements.has_code("transStatus", &["C"]);
    match elements.channel() {
        Some(DeviceChannel::App) => ElementPresence::only_if(is_challenge),
        None if is_challenge => ElementPresence::Optional,
        Some(DeviceChannel::Browser | DeviceChannel::Requestor) | None => {
            ElementPresence::Forbidden
        }
    }
}

/// Required for apps; optional for other channels.
fn on_app(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(elements.is_channel(DeviceChannel::App))
}

impl Message for ARes {
    const TYPE: MessageType = MessageType::ARes;

    fn contradictions(&self, transaction: &TransactionContext) -> Vec<(ErrorCode, &'static str)> {
        let mut contradictions = Vec::new();
        let is_v220_status =
            matches!(self.status, Status::DecoupledChallenge | Status::Informational);
        let is_requestor_initiated = transaction.channel == Some(DeviceChannel::Requestor);
        let is_v210 = transaction.version < Version::V220;
        if (is_v210 && is_v220_status)
            || (is_requestor_initiated && self.status == Status::Challenge)
        {
            contradictions.push((ErrorCode::FormatInvalid, "transStatus"));
        }
        if is_v210 && self.status_reason.is_some_and(|it| !it.exists_in_2_1_0()) {
            contradictions.push((ErrorCode::FormatInvalid, "transStatusReason"));
        }
        contradictions
    }
}
