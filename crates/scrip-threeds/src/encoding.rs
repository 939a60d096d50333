//! Messages in form fields that pass through browsers: JSON in base64url.

use base64::{
    Engine,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::{
    fault::{ErrorCode, Fault},
    format::{TransId, Url},
    json,
    message::{CRes, Document, MESSAGE_BYTES_MAX, Message, TransactionContext},
};

/// Without padding, as EMV specifies. Decoding accepts padding, because some browser scripts add
/// it. Decoding rejects other characters and non-zero trailing bits.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes a form field.
pub fn decode(text: &str) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let invalid = || Fault::new(ErrorCode::MessageInvalid);
    if text.len() > MESSAGE_BYTES_MAX {
        return Err(invalid());
    }
    BASE64URL.decode(text).map(Zeroizing::new).map_err(|_| invalid())
}

pub fn encode(bytes: &[u8]) -> String {
    BASE64URL.encode(bytes)
}

/// Decodes the field `cres`. The version in the message selects the rules.
pub fn decode_cres(text: &str) -> Result<CRes, Fault> {
    let document = Document::parse(&decode(text)?)?;
    let version = document.version()?;
    document.parse_as(&TransactionContext::for_version(version))
}

pub fn encode_message<M: Message>(message: &M) -> String {
    encode(&message.to_json())
}

/// The field `threeDSMethodData`: the transaction id and, on the way to the ACS, the notification
/// URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodData {
    pub server_trans_id: TransId,
    pub notification_url: Option<Url<256>>,
}

const TRANS_ID: &str = "threeDSServerTransID";
const NOTIFICATION_URL: &str = "threeDSMethodNotificationURL";

impl MethodData {
    pub fn decode(text: &str) -> Result<Self, Fault> {
        let invalid = |name| Fault::for_element(ErrorCode::FormatInvalid, name);
        let object = json::parse_object(&decode(text)?);
        let object = object.map_err(|_| Fault::new(ErrorCode::MessageInvalid))?;
        let id = object
            .0
            .get(TRANS_ID)
            .ok_or(Fault::for_element(ErrorCode::ElementMissing, TRANS_ID))?;
        let id = id.as_str().and_then(|it| TransId::parse(it).ok()).ok_or(invalid(TRANS_ID))?;
        let url = object.0.get(NOTIFICATION_URL).map(|it| {
            let url = it.as_str().and_then(|it| Url::parse(it).ok());
            url.ok_or(invalid(NOTIFICATION_URL))
        });
        Ok(Self { server_trans_id: id, notification_url: url.transpose()? })
    }

    pub fn encode(&self) -> String {
        let mut object = Map::new();
        let text = |it: &str| Value::String(it.to_owned());
        object.insert(TRANS_ID.to_owned(), text(self.server_trans_id.expose()));
        if let Some(url) = &self.notification_url {
            object.insert(NOTIFICATION_URL.to_owned(), text(url.expose()));
        }
        encode(Value::Object(object).to_string().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        code::{ChallengeWindowSize, Status, YesNo},
        format::Version,
        message::{CReq, parse_message},
    };

    const ID: &str = "8a880dc0-d2d2-4067-bcb1-b08d1690b26e";

    #[test]
    fn base64url_accepts_padding_and_no_other_deviation() {
        assert_eq!(*decode("-_8").unwrap(), [0xFB, 0xFF]);
        assert_eq!(*decode("-_8=").unwrap(), [0xFB, 0xFF]);
        assert_eq!(encode(&[0xFB, 0xFF]), "-_8");
        for text in ["-_9", "+/8", "-_8 ", "-_8\n", "-_8==", "a", "=", "é"] {
            assert!(decode(text).is_err(), "{text}");
        }
        assert!(decode(&"A".repeat(MESSAGE_BYTES_MAX + 4)).is_err());
    }

    #[test]
    fn method_data_round_trips_and_rejects_invalid_fields() {
        let to_acs = MethodData {
            server_trans_id: TransId::parse(ID).unwrap(),
            notification_url: Some(Url::parse("https://vault.example/3ds/n").unwrap()),
        };
        assert_eq!(MethodData::decode(&to_acs.encode()), Ok(to_acs.clone()));
        let notification = MethodData { notification_url: None, ..to_acs };
        assert_eq!(MethodData::decode(&notification.encode()), Ok(notification.clone()));
        for (json, code) in [
            ("{}", "201"),
            ("[]", "101"),
            (r#"{"threeDSServerTransID":7}"#, "203"),
            (r#"{"threeDSServerTransID":"7"}"#, "203"),
        ] {
            let fault = MethodData::decode(&encode(json.as_bytes())).unwrap_err();
            assert_eq!(fault.code.code(), code, "{json}");
        }
        let script = format!(
            r#"{{"threeDSServerTransID":"{ID}","threeDSMethodNotificationURL":"javascript:0"}}"#
        );
        assert!(MethodData::decode(&encode(script.as_bytes())).is_err());
    }

    /// The `creq` that the browser script sends and the `cres` that the ACS returns.
    #[test]
    fn creq_and_cres_decode_from_form_fields() {
        let creq_json = format!(
            r#"{{"messageType":"CReq","messageVersion":"2.2.0","threeDSServerTransID":"{ID}","acsTransID":"{ID}","challengeWindowSize":"03"}}"#
        );
        let decode_creq = |text: &str| {
            let transaction = TransactionContext::for_version(Version::V220);
            parse_message::<CReq>(&decode(text).unwrap(), &transaction).unwrap()
        };
        let request = decode_creq(&encode(creq_json.as_bytes()));
        assert_eq!(request.window_size, Some(ChallengeWindowSize::W500H600));
        assert_eq!(decode_creq(&encode_message(&request)).cancel, None);
        let cres_json = format!(
            r#"{{"messageType":"CRes","messageVersion":"2.1.0","threeDSServerTransID":"{ID}","acsTransID":"{ID}","challengeCompletionInd":"Y","transStatus":"N"}}"#
        );
        let cres = decode_cres(&encode(cres_json.as_bytes())).unwrap();
        assert_eq!((cres.completed, cres.status), (YesNo::Yes, Some(Status::Failed)));
        let erro = cres_json.replace("CRes", "Erro");
        assert_eq!(decode_cres(&encode(erro.as_bytes())).unwrap_err().code.code(), "101");
    }
}
