//! The inputs of an `AReq`: request, session, server and card.

use serde_json::Value;

use crate::{
    code::{DeviceChannel, MethodCompletion},
    format::{CardNumber, TransId},
    request::{AuthenticateContext, DeviceInfo, RequestorInfo},
};

/// The data of a session that its `AReq` contains.
#[derive(Debug)]
pub struct AReqSession {
    pub id: TransId,
    /// Whether the page of the method URL completed; sent only for browsers.
    pub method_completion: MethodCompletion,
}

/// The identifiers and URLs of this 3DS server, which an `AReq` sends to the directory server.
#[derive(Debug)]
pub struct ServerIdentity {
    pub reference_number: String,
    pub operator_id: Option<String>,
    /// Where the result is posted. It contains a secret and must not be logged.
    pub results_url: String,
    /// Where the browser returns after a challenge.
    pub notification_url: String,
}

/// The card. The expiry is YYMM.
#[derive(Debug)]
pub struct AReqCard {
    pub number: CardNumber,
    pub expiry: Option<String>,
}

/// All inputs of an `AReq`.
#[derive(Debug, Clone, Copy)]
pub struct AReqInput<'a> {
    pub context: AuthenticateContext<'a>,
    pub session: &'a AReqSession,
    pub server: &'a ServerIdentity,
    pub card: &'a AReqCard,
}

impl<'a> AReqInput<'a> {
    pub(crate) fn channel(&self) -> DeviceChannel {
        DeviceChannel::for_session(self.context.session, self.context.device)
    }

    pub(crate) fn if_channel(&self, channel: DeviceChannel, value: Value) -> Option<Value> {
        (self.channel() == channel).then_some(value)
    }

    pub(crate) fn requestor(&self) -> Option<&'a RequestorInfo> {
        self.context.request.requestor_info.as_ref()
    }

    pub(crate) fn device_info(&self) -> &'a DeviceInfo {
        self.context.device_info
    }
}
