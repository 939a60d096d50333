//! A directory server that accepts every card of one range. Its responses do not depend on the card
//! number.

use std::sync::Arc;

use scrip_core::{
    threeds::{
        DirectoryServerFuture, DirectoryServers, SchemeConnection, SchemeRanges, ThreeDsSettings,
    },
    types::TenantKind,
};
use scrip_testing::directory_server::scheme_connection;
use scrip_threeds::{
    code::Scheme,
    format::Version,
    message::{PRes, TransactionContext, parse_message},
    range::CardRanges,
};
use serde_json::{Value, json};
use uuid::Uuid;
use zeroize::Zeroizing;

#[derive(Debug)]
pub(crate) struct ApprovingServer {
    settings: ThreeDsSettings,
    ranges: Vec<SchemeRanges>,
}

impl Default for ApprovingServer {
    fn default() -> Self {
        let settings = ThreeDsSettings {
            public_url: "https://vault.example".to_owned(),
            lenient: false,
            server_name: "Scrip".to_owned(),
        };
        let id = Uuid::new_v4().to_string();
        let range = json!({
            "startRange": "4000000000000000", "endRange": "4999999999999999", "actionInd": "A",
            "acsStartProtocolVersion": "2.1.0", "acsEndProtocolVersion": "2.2.0",
            "acsInfoInd": ["01", "02"], "threeDSMethodURL": "https://acs.example/method",
        });
        let response = json!({
            "messageType": "PRes", "messageVersion": "2.2.0", "threeDSServerTransID": id,
            "dsTransID": id, "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0",
            "serialNum": "1", "cardRangeData": [range],
        });
        let response = parse_message::<PRes>(
            response.to_string().as_bytes(),
            &TransactionContext::for_version(Version::V220),
        )
        .unwrap();
        let ranges = Some(Arc::new(CardRanges::from_pres(&response).unwrap()));
        Self { settings, ranges: vec![SchemeRanges { scheme: Scheme::Visa, ranges }] }
    }
}

impl DirectoryServers for ApprovingServer {
    fn settings(&self) -> &ThreeDsSettings {
        &self.settings
    }

    fn ranges(&self, _: TenantKind) -> Vec<SchemeRanges> {
        self.ranges.clone()
    }

    fn connection(&self, _: TenantKind, _: Scheme) -> Option<SchemeConnection> {
        Some(scheme_connection("https://results.example"))
    }

    fn send_message<'a>(
        &'a self,
        _: TenantKind,
        _: Scheme,
        message: Zeroizing<Vec<u8>>,
    ) -> DirectoryServerFuture<'a> {
        Box::pin(async move {
            let request: Value = serde_json::from_slice(&message).unwrap();
            let mut response = json!({
                "messageType": "ARes", "messageVersion": request["messageVersion"],
                "threeDSServerTransID": request["threeDSServerTransID"],
                "acsTransID": Uuid::new_v4().to_string(), "dsTransID": Uuid::new_v4().to_string(),
                "acsReferenceNumber": "ACS-1", "dsReferenceNumber": "DS-1",
                "acsOperatorID": "OPERATOR-1", "transStatus": "Y", "eci": "05",
                "authenticationValue": "AAABBEg0VhI0VniQEjRWAAAAAAA=",
            });
            // A request of an app names its transaction.
            if let Some(transaction) = request.get("sdkTransID") {
                response["sdkTransID"] = transaction.clone();
            }
            Ok(Zeroizing::new(response.to_string().into_bytes()))
        })
    }
}
