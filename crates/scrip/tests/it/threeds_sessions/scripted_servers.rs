//! Scripted directory servers: the cardholder name selects the response.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use scrip_core::{
    threeds::{
        DirectoryServerError, DirectoryServerFuture, DirectoryServers, SchemeConnection,
        SchemeRanges, ThreeDsSettings,
    },
    types::TenantKind,
};
use scrip_testing::{directory_server::scheme_connection, requests::with_members};
use scrip_threeds::{
    code::Scheme,
    format::Version,
    message::{PRes, TransactionContext, parse_message},
    range::CardRanges,
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;
use zeroize::Zeroizing;

pub(crate) const METHOD_URL: &str = "https://acs.example/method";
pub(crate) const ACS_URL: &str = "https://acs.example/challenge";
pub(crate) const VAULT_URL: &str = "https://vault.example";
const RESULTS_URL: &str = "https://results.example";
const AUTHENTICATION_VALUE: &str = "AAABBEg0VhI0VniQEjRWAAAAAAA=";

/// A message and the response to it.
#[derive(Debug, Clone)]
pub(crate) struct MessageExchange {
    pub(crate) request: Value,
    pub(crate) response: Value,
}

#[derive(Debug)]
pub(crate) struct ScriptedDirectoryServers {
    settings: ThreeDsSettings,
    ranges: Vec<SchemeRanges>,
    /// The exchanges by session.
    exchanges: Mutex<HashMap<String, MessageExchange>>,
    /// A message of the cardholder `Delayed` waits for a permit of this semaphore.
    pub(crate) gate: Semaphore,
}

impl Default for ScriptedDirectoryServers {
    fn default() -> Self {
        let settings = ThreeDsSettings {
            public_url: VAULT_URL.to_owned(),
            lenient: false,
            server_name: "Scrip".to_owned(),
        };
        // Visa has every feature and some cards that are also Cartes Bancaires. Mastercard has no
        // method page. American Express supports 2.1.0 only. Other cards are not supported.
        let visa = range(["4000000000000000", "4999999999999999"], "2.2.0", Some(METHOD_URL));
        let two_brand_range = range(["4150580000000000", "4150589999999999"], "2.2.0", None);
        let mastercard = range(["5100000000000000", "5599999999999999"], "2.2.0", None);
        let amex = range(["340000000000000", "379999999999999"], "2.1.0", Some(METHOD_URL));
        let ranges = vec![
            scheme_ranges(Scheme::Visa, visa),
            scheme_ranges(Scheme::CartesBancaires, two_brand_range),
            scheme_ranges(Scheme::Mastercard, mastercard),
            scheme_ranges(Scheme::AmericanExpress, amex),
        ];
        Self { settings, ranges, exchanges: Mutex::default(), gate: Semaphore::new(0) }
    }
}

fn range([start, end]: [&str; 2], latest: &str, method_url: Option<&str>) -> Value {
    let mut range = json!({
        "startRange": start, "endRange": end, "actionInd": "A",
        "acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": latest, "acsInfoInd": ["01", "02"],
    });
    if let Some(url) = method_url {
        range["threeDSMethodURL"] = url.into();
    }
    range
}

fn scheme_ranges(scheme: Scheme, range: Value) -> SchemeRanges {
    let id = Uuid::new_v4().to_string();
    let response = json!({
        "messageType": "PRes", "messageVersion": "2.2.0", "threeDSServerTransID": id, "dsTransID": id,
        "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0", "serialNum": "1",
        "cardRangeData": [range],
    });
    let response = parse_message::<PRes>(
        response.to_string().as_bytes(),
        &TransactionContext::for_version(Version::V220),
    )
    .unwrap();
    SchemeRanges { scheme, ranges: Some(Arc::new(CardRanges::from_pres(&response).unwrap())) }
}

impl ScriptedDirectoryServers {
    /// Returns the message and the response of a session, or `None` if no message was sent.
    pub(crate) fn exchange(&self, session: &str) -> Option<MessageExchange> {
        self.exchanges.lock().unwrap().get(session).cloned()
    }

    /// Returns the path on this server to which the result of a session is posted.
    pub(crate) fn results_path(&self, session: &str) -> String {
        let url = self.exchange(session).unwrap().request["threeDSServerURL"]
            .as_str()
            .unwrap()
            .to_owned();
        url.strip_prefix(RESULTS_URL).unwrap().to_owned()
    }

    /// Returns the challenge result message of the directory server.
    pub(crate) fn result(&self, session: &str, status: &str) -> Value {
        let MessageExchange { request, response } = self.exchange(session).unwrap();
        let mut result = json!({
            "messageType": "RReq", "messageVersion": request["messageVersion"],
            "threeDSServerTransID": session, "acsTransID": response["acsTransID"],
            "dsTransID": response["dsTransID"], "messageCategory": request["messageCategory"],
            "transStatus": status, "authenticationMethod": "02", "authenticationType": "02",
            "interactionCounter": "01", "eci": "05",
        });
        match status {
            "Y" | "A" => result["authenticationValue"] = AUTHENTICATION_VALUE.into(),
            _ => result["transStatusReason"] = "01".into(),
        }
        if let Some(id) = request.get("sdkTransID") {
            result["sdkTransID"] = id.clone();
        }
        result
    }
}

impl DirectoryServers for ScriptedDirectoryServers {
    fn settings(&self) -> &ThreeDsSettings {
        &self.settings
    }

    fn ranges(&self, _: TenantKind) -> Vec<SchemeRanges> {
        self.ranges.clone()
    }

    fn connection(&self, _: TenantKind, _: Scheme) -> Option<SchemeConnection> {
        Some(scheme_connection(RESULTS_URL))
    }

    fn send_message<'a>(
        &'a self,
        _: TenantKind,
        scheme: Scheme,
        message: Zeroizing<Vec<u8>>,
    ) -> DirectoryServerFuture<'a> {
        Box::pin(async move {
            let request: Value = serde_json::from_slice(&message).unwrap();
            let name = request["cardholderName"].as_str().unwrap_or_default().to_owned();
            if name == "Unreachable" {
                return Err(DirectoryServerError::NotSent);
            }
            if name == "Delayed" {
                self.gate.acquire().await.unwrap().forget();
            }
            let response = respond(&request, &name, scheme);
            let id = request["threeDSServerTransID"].as_str().unwrap().to_owned();
            let exchange = MessageExchange { request, response: response.clone() };
            self.exchanges.lock().unwrap().insert(id, exchange);
            match name.as_str() {
                "Silent" => Err(DirectoryServerError::TimedOut),
                "Broken" => Err(DirectoryServerError::Broken),
                "Garbled" => Ok(Zeroizing::new(b"{4242".to_vec())),
                _ => Ok(Zeroizing::new(response.to_string().into_bytes())),
            }
        })
    }
}

fn respond(request: &Value, name: &str, scheme: Scheme) -> Value {
    let response = json!({
        "messageType": "ARes", "messageVersion": request["messageVersion"],
        "threeDSServerTransID": request["threeDSServerTransID"], "acsTransID": Uuid::new_v4().to_string(),
        "dsTransID": Uuid::new_v4().to_string(), "acsReferenceNumber": "ACS-1", "dsReferenceNumber": "DS-1",
        "acsOperatorID": "OPERATOR-1",
    });
    let is_app = request["deviceChannel"] == "01";
    let app_attributes =
        if is_app { json!({"sdkTransID": request["sdkTransID"]}) } else { json!({}) };
    let response = with_members(response, &app_attributes);
    let attributes = match name {
        "Challenged" if is_app => json!({
            "transStatus": "C", "acsChallengeMandated": "N", "authenticationType": "01",
            "acsSignedContent": "e30.e30.AA",
            "acsRenderingType": {"acsInterface": "01", "acsUiTemplate": "02"},
        }),
        "Challenged" => json!({
            "transStatus": "C", "acsChallengeMandated": "N", "authenticationType": "01",
            "acsURL": ACS_URL,
        }),
        "Decoupled" => json!({
            "transStatus": "D", "acsChallengeMandated": "N", "authenticationType": "04",
            "acsDecConInd": "Y", "cardholderInfo": "Your bank will call you.",
        }),
        "Failed" => json!({
            "transStatus": "N", "transStatusReason": "01", "eci": "07",
            "messageExtension": [
                {"id": "X1", "name": "more", "criticalityIndicator": false, "data": {"score": 1.50}},
            ],
        }),
        "Rejected" => json!({
            "messageType": "Erro", "errorCode": "303", "errorComponent": "D",
            "errorDescription": "4242424242424242", "errorDetail": "4242424242424242",
            "errorMessageType": "AReq",
        }),
        _ => json!({
            "transStatus": "Y", "authenticationValue": AUTHENTICATION_VALUE,
            "eci": if scheme == Scheme::Mastercard { "02" } else { "05" },
        }),
    };
    with_members(response, &attributes)
}
