//! A directory server that accepts every card of one range. Its answers do not depend on the card number.

use std::sync::Arc;

use scrip_core::{
    policy::TenantKind,
    threeds::{Asking, DirectoryServers, Link, SchemeRanges, Terms},
};
use scrip_testing::directory_server::link_with;
use scrip_threeds::{
    code::Scheme,
    format::Version,
    message::{Message, PRes, Scene},
    range::CardRanges,
};
use serde_json::{Value, json};
use uuid::Uuid;
use zeroize::Zeroizing;

#[derive(Debug)]
pub(crate) struct ApprovingServer {
    terms: Terms,
    ranges: Vec<SchemeRanges>,
}

impl Default for ApprovingServer {
    fn default() -> Self {
        let terms = Terms {
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
        let answer = json!({
            "messageType": "PRes", "messageVersion": "2.2.0", "threeDSServerTransID": id,
            "dsTransID": id, "dsStartProtocolVersion": "2.1.0", "dsEndProtocolVersion": "2.2.0",
            "serialNum": "1", "cardRangeData": [range],
        });
        let answer = PRes::parse(answer.to_string().as_bytes(), &Scene::of(Version::V220)).unwrap();
        let ranges = Some(Arc::new(CardRanges::of(&answer).unwrap()));
        Self { terms, ranges: vec![SchemeRanges { scheme: Scheme::Visa, ranges }] }
    }
}

impl DirectoryServers for ApprovingServer {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn ranges(&self, _: TenantKind) -> Vec<SchemeRanges> {
        self.ranges.clone()
    }

    fn link(&self, _: TenantKind, _: Scheme) -> Option<Link> {
        Some(link_with("https://results.example"))
    }

    fn ask<'a>(&'a self, _: TenantKind, _: Scheme, message: Zeroizing<Vec<u8>>) -> Asking<'a> {
        Box::pin(async move {
            let asked: Value = serde_json::from_slice(&message).unwrap();
            let answer = json!({
                "messageType": "ARes", "messageVersion": asked["messageVersion"],
                "threeDSServerTransID": asked["threeDSServerTransID"],
                "acsTransID": Uuid::new_v4().to_string(), "dsTransID": Uuid::new_v4().to_string(),
                "acsReferenceNumber": "ACS-1", "dsReferenceNumber": "DS-1",
                "acsOperatorID": "OPERATOR-1", "transStatus": "Y", "eci": "05",
                "authenticationValue": "AAABBEg0VhI0VniQEjRWAAAAAAA=",
            });
            Ok(answer.to_string().into_bytes())
        })
    }
}
