//! `RReq` and `RRes`: the result of a challenge.

use crate::{
    code::{
        AuthenticationCategory, ChallengeCancel, ChallengeType, DeviceChannel, ResultsStatus,
        Status, StatusReason, WhitelistSource, WhitelistStatus,
    },
    fault::ErrorCode,
    format::{Alphanumeric, AuthenticationValue, Digits, TransId, Version},
    message::{
        AcsRendering, ElementPresence, Extensions, Message, MessageElements, MessageType,
        TransactionContext,
        record::{
            presence::{authentication_value, since_220, status_reason, whitelist_source},
            record,
        },
    },
};

record! {
    /// The result. Only the result decides; the browser's `CRes` is informational.
    #[derive(Clone, PartialEq)]
    pub struct RReq {
        must message_version: Version = "messageVersion";
        must server_trans_id: TransId = "threeDSServerTransID";
        must acs_trans_id: TransId = "acsTransID";
        must ds_trans_id: TransId = "dsTransID";
        must category: AuthenticationCategory = "messageCategory";
        must status: Status = "transStatus";
        may status_reason: StatusReason = "transStatusReason" if status_reason;
        may authentication_value: AuthenticationValue = "authenticationValue" if authentication_value;
        may eci: Alphanumeric<2, 2> = "eci";
        may authentication_method: Digits<2, 2> = "authenticationMethod";
        may challenge_type: ChallengeType = "authenticationType";
        may challenge_cancel: ChallengeCancel = "challengeCancel";
        may attempts: Digits<2, 2> = "interactionCounter" if attempts;
        may acs_rendering: AcsRendering = "acsRenderingType";
        may sdk_trans_id: TransId = "sdkTransID" if in_app;
        may whitelist_status: WhitelistStatus = "whiteListStatus" if since_220;
        may whitelist_source: WhitelistSource = "whiteListStatusSource" if whitelist_source;
        may extensions: Extensions = "messageExtension";
    }
}

/// Optional since 2.2.0: a decoupled authentication has no interactions to count.
fn attempts(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(elements.transaction.version < Version::V220)
}

fn in_app(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::required_if(elements.is_channel(DeviceChannel::App))
}

impl Message for RReq {
    const TYPE: MessageType = MessageType::RReq;

    fn contradictions(&self, transaction: &TransactionContext) -> Vec<(ErrorCode, &'static str)> {
        let mut contradictions = Vec::new();
        if !self.status.is_result_status() {
            contradictions.push((ErrorCode::FormatInvalid, "transStatus"));
        }
        let is_v210 = transaction.version < Version::V220;
        if is_v210 && self.status_reason.is_some_and(|it| !it.exists_in_2_1_0()) {
            contradictions.push((ErrorCode::FormatInvalid, "transStatusReason"));
        }
        contradictions
    }
}

record! {
    /// The acknowledgement of a result.
    #[derive(Clone, PartialEq)]
    pub struct RRes {
        must message_version: Version = "messageVersion";
        must server_trans_id: TransId = "threeDSServerTransID";
        must acs_trans_id: TransId = "acsTransID";
        must ds_trans_id: TransId = "dsTransID";
        must results_status: ResultsStatus = "resultsStatus";
        may sdk_trans_id: TransId = "sdkTransID" if in_app;
        may extensions: Extensions = "messageExtension";
    }
}

impl Message for RRes {
    const TYPE: MessageType = MessageType::RRes;
}

impl RRes {
    /// The `RRes` to a result. It reports "received", or "challenge not sent" if the result says
    /// that no `CReq` arrived.
    pub fn for_result(result: &RReq) -> Self {
        let was_not_requested =
            result.challenge_cancel == Some(ChallengeCancel::RequestNotReceived);
        Self {
            message_version: result.message_version,
            server_trans_id: result.server_trans_id.clone(),
            acs_trans_id: result.acs_trans_id.clone(),
            ds_trans_id: result.ds_trans_id.clone(),
            results_status: if was_not_requested {
                ResultsStatus::ChallengeNotSent
            } else {
                ResultsStatus::Received
            },
            sdk_trans_id: result.sdk_trans_id.clone(),
            extensions: None,
        }
    }
}
