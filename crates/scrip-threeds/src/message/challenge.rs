//! `CReq` and `CRes`: the messages between the cardholder's device and the ACS. A 3DS server
//! receives only the final `CRes` of a browser; a simulator and an app exchange the others.

use serde_json::Value;

use crate::{
    code::{ChallengeCancel, ChallengeWindowSize, DeviceChannel, Status, UiType, YesNo},
    fault::ErrorCode,
    format::{Digits, ElementContext, ElementFormat, Text, TransId, TrueFlag, Url, Version},
    message::{
        ElementPresence, Extensions, Message, MessageElements, MessageType, TransactionContext,
        record::{
            presence::{app, since_220},
            record,
        },
    },
};

record! {
    /// Starts or continues a challenge.
    #[derive(Clone)]
    pub struct CReq {
        must message_version: Version = "messageVersion";
        must server_trans_id: TransId = "threeDSServerTransID";
        must acs_trans_id: TransId = "acsTransID";
        may window_size: ChallengeWindowSize = "challengeWindowSize" if window_size;
        may cancel: ChallengeCancel = "challengeCancel";
        may data_entry: Text<1, 45> = "challengeDataEntry";
        may html_data_entry: Text<1, 4000> = "challengeHTMLDataEntry";
        may no_entry: YesNo = "challengeNoEntry" if since_220;
        may oob_continue: TrueFlag = "oobContinue";
        may resend: YesNo = "resendChallenge";
        may sdk_trans_id: TransId = "sdkTransID" if app;
        may sdk_counter: Digits<3, 3> = "sdkCounterStoA" if app;
        may requestor_app_url: Url<256> = "threeDSRequestorAppURL" if since_220;
        may whitelisting: YesNo = "whitelistingDataEntry" if since_220;
        may extensions: Extensions = "messageExtension";
    }
}

/// Required for browsers only: an app determines the size itself.
fn window_size(elements: &MessageElements<'_>) -> ElementPresence {
    match elements.channel() {
        Some(DeviceChannel::Browser) => ElementPresence::Required,
        Some(DeviceChannel::App | DeviceChannel::Requestor) => ElementPresence::Forbidden,
        None => ElementPresence::Optional,
    }
}

impl Message for CReq {
    const TYPE: MessageType = MessageType::CReq;
}

record! {
    /// The next step of a challenge, or its end.
    #[derive(Clone)]
    pub struct CRes {
        must message_version: Version = "messageVersion";
        must server_trans_id: TransId = "threeDSServerTransID";
        must acs_trans_id: TransId = "acsTransID";
        must completed: YesNo = "challengeCompletionInd";
        may status: Status = "transStatus" if status;
        may acs_counter: Digits<3, 3> = "acsCounterAtoS" if app;
        may sdk_trans_id: TransId = "sdkTransID" if app;
        may ui_type: UiType = "acsUiType" if ui_type;
        may html: Text<1, 100_000> = "acsHTML" if |it| ElementPresence::required_if(it.has_code("acsUiType", &["05"]));
        may html_refresh: Text<1, 100_000> = "acsHTMLRefresh";
        may additional_info: Text<1, 256> = "challengeAddInfo";
        may info_header: Text<1, 45> = "challengeInfoHeader";
        may info_label: Text<1, 45> = "challengeInfoLabel";
        may info_text: Text<1, 350> = "challengeInfoText";
        may info_text_warning: YesNo = "challengeInfoTextIndicator";
        may select_info: SelectInfo = "challengeSelectInfo";
        may expand_info_label: Text<1, 45> = "expandInfoLabel";
        may expand_info_text: Text<1, 256> = "expandInfoText";
        may issuer_image: Image = "issuerImage";
        may scheme_image: Image = "psImage";
        may oob_app_url: Text<1, 256> = "oobAppURL";
        may oob_app_label: Text<1, 45> = "oobAppLabel";
        may oob_continue_label: Text<1, 45> = "oobContinueLabel";
        may resend_label: Text<1, 45> = "resendInformationLabel";
        may submit_label: Text<1, 45> = "submitAuthenticationLabel";
        may why_label: Text<1, 45> = "whyInfoLabel";
        may why_text: Text<1, 256> = "whyInfoText";
        may whitelisting_text: Text<1, 64> = "whitelistingInfoText" if since_220;
        may extensions: Extensions = "messageExtension";
    }
}

fn status(elements: &MessageElements<'_>) -> ElementPresence {
    ElementPresence::only_if(elements.has_code("challengeCompletionInd", &["Y"]))
}

/// Only apps receive an intermediate `CRes`. Browsers receive pages and one final `CRes`.
fn ui_type(elements: &MessageElements<'_>) -> ElementPresence {
    let is_in_progress = elements.has_code("challengeCompletionInd", &["N"]);
    ElementPresence::required_if(is_in_progress && elements.is_channel(DeviceChannel::App))
}

impl Message for CRes {
    const TYPE: MessageType = MessageType::CRes;

    fn contradictions(&self, _: &TransactionContext) -> Vec<(ErrorCode, &'static str)> {
        let is_allowed = |it: Status| matches!(it, Status::Successful | Status::Failed);
        let is_invalid = self.status.is_some_and(|it| !is_allowed(it));
        is_invalid.then_some((ErrorCode::FormatInvalid, "transStatus")).into_iter().collect()
    }
}

record! {
    /// One image for three screen densities.
    #[derive(Clone)]
    pub struct Image {
        may medium: Url<2048> = "medium";
        may high: Url<2048> = "high";
        may extra_high: Url<2048> = "extraHigh";
    }
}

pub const CHOICES_MAX: usize = 32;

/// The choices: objects with one name each, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectInfo(Vec<(Text<1, 45>, Text<1, 45>)>);

impl SelectInfo {
    /// The value and label of each choice. `None` for an empty list or too many choices.
    pub fn new(choices: Vec<(Text<1, 45>, Text<1, 45>)>) -> Option<Self> {
        (1..=CHOICES_MAX).contains(&choices.len()).then_some(Self(choices))
    }

    pub fn choices(&self) -> &[(Text<1, 45>, Text<1, 45>)] {
        &self.0
    }
}

fn parse_choice(value: &Value) -> Option<(Text<1, 45>, Text<1, 45>)> {
    let object = value.as_object().filter(|it| it.len() == 1)?;
    let (name, label) = object.iter().next()?;
    Some((Text::parse(name).ok()?, Text::parse(label.as_str()?).ok()?))
}

impl ElementFormat for SelectInfo {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        let choices = value.as_array().filter(|it| it.len() <= CHOICES_MAX);
        let choices = choices.and_then(|it| it.iter().map(parse_choice).collect::<Option<_>>());
        context.expect(choices.and_then(Self::new))
    }

    fn write(&self) -> Value {
        let choice_object = |(name, label): &(Text<1, 45>, Text<1, 45>)| {
            let label = Value::String(label.expose().to_owned());
            Value::Object([(name.expose().to_owned(), label)].into_iter().collect())
        };
        Value::Array(self.0.iter().map(choice_object).collect())
    }
}
