//! Card ranges: everything at first, then what has changed, and always those that were good last.

use scrip_core::{policy::TenantKind, threeds::DirectoryServers, time::Timestamp};
use scrip_server::directory_servers::{HttpDirectoryServers, RangeFetchError};
use scrip_testing::directory_server::{
    DirectoryServer, ServerBehavior, card_ranges_response, error_message,
};
use scrip_threeds::{code::Scheme, format::CardNumber};
use serde_json::{Value, json};

use crate::harness::SchemeHarness;

const FIRST: (&str, &str, &str) = ("4000000000000000", "4099999999999999", "A");
const SECOND: (&str, &str, &str) = ("4100000000000000", "4199999999999999", "A");
const NOW: Timestamp = Timestamp { unix_ms: 1_800_000_000_000 };

struct RangeFetchHarness {
    harness: SchemeHarness,
    server: DirectoryServer,
    servers: HttpDirectoryServers,
}

impl RangeFetchHarness {
    /// Everything was told once.
    fn start() -> Self {
        let scene = SchemeHarness::new();
        let server = scene.server(&[ServerBehavior::JsonWithTransactionId(card_ranges_response(
            "one",
            &[FIRST, SECOND],
        ))]);
        let servers = scene.connect(scene.transport_plan(&[server.url()]));
        let begun = Self { harness: scene, server, servers };
        assert_eq!(begun.refresh(), Ok(2));
        begun
    }

    fn refresh(&self) -> Result<usize, RangeFetchError> {
        let (kind, scheme) = (TenantKind::Production, Scheme::Visa);
        self.harness.runtime.block_on(self.servers.refresh_ranges(kind, scheme, NOW))
    }

    fn refresh_with(&self, behaviors: &[ServerBehavior]) -> Result<usize, RangeFetchError> {
        self.server.set_behaviors(behaviors);
        self.refresh()
    }

    fn contains_card(&self, number: &str) -> bool {
        let told = self.servers.ranges(TenantKind::Production);
        assert_eq!(told.len(), 1);
        let card = CardNumber::parse(number).unwrap();
        told[0].ranges.as_ref().is_some_and(|it| it.find(&card).is_some())
    }

    /// With which serial number each question came.
    fn requested_serials(&self) -> Vec<Value> {
        self.server.received_requests().iter().map(|it| it.json()["serialNum"].clone()).collect()
    }
}

#[test]
fn no_card_ranges_before_the_first_response() {
    let scene = SchemeHarness::new();
    let server = scene.server(&[ServerBehavior::Silent]);
    let servers = scene.connect(scene.transport_plan(&[server.url()]));
    let told = servers.ranges(TenantKind::Production);
    assert_eq!((told.len(), told[0].scheme), (1, Scheme::Visa));
    assert!(told[0].ranges.is_none());
    assert!(server.received_requests().is_empty());
}

#[test]
fn range_request_has_reference_number_and_operator_id() {
    let fetching = RangeFetchHarness::start();
    let asked = fetching.server.received_requests()[0].json();
    assert_eq!(asked["messageType"], "PReq");
    assert_eq!(asked["messageVersion"], "2.2.0");
    assert_eq!(asked["threeDSServerRefNumber"], "3DS_LOA_SER_TEST_020200_00001");
    assert_eq!(asked["threeDSServerOperatorID"], "operator-7");
    assert!(
        fetching.contains_card("4000000000000001") && fetching.contains_card("4199999999999999")
    );
    assert!(!fetching.contains_card("4200000000000000"));
}

#[test]
fn later_requests_fetch_only_changed_ranges() {
    let fetching = RangeFetchHarness::start();
    let (start, end, _) = SECOND;
    let third = ("4200000000000000", "4299999999999999", "A");
    let changes = card_ranges_response("two", &[(start, end, "D"), third]);
    assert_eq!(fetching.refresh_with(&[ServerBehavior::JsonWithTransactionId(changes)]), Ok(2));
    assert!(
        fetching.contains_card("4000000000000000") && fetching.contains_card("4200000000000000")
    );
    assert!(!fetching.contains_card("4100000000000000"));
    assert_eq!(
        fetching.refresh_with(&[ServerBehavior::JsonWithTransactionId(card_ranges_response(
            "two",
            &[]
        ))]),
        Ok(2)
    );
    assert!(fetching.contains_card("4200000000000000"));
    assert_eq!(fetching.requested_serials(), [Value::Null, json!("one"), json!("two")]);
}

#[test]
fn all_ranges_are_requested_when_changes_cannot_be_applied() {
    let missing = card_ranges_response("two", &[("5000000000000000", "5099999999999999", "D")]);
    for refused in [error_message("307"), missing] {
        let fetching = RangeFetchHarness::start();
        let whole = card_ranges_response("three", &[FIRST]);
        let told = fetching.refresh_with(&[
            ServerBehavior::JsonWithTransactionId(refused),
            ServerBehavior::JsonWithTransactionId(whole),
        ]);
        assert_eq!(told, Ok(1));
        assert!(
            fetching.contains_card("4000000000000000")
                && !fetching.contains_card("4100000000000000")
        );
        assert_eq!(fetching.requested_serials(), [Value::Null, json!("one"), Value::Null]);
    }
}

#[test]
fn invalid_range_response_leaves_the_ranges_unchanged() {
    let of_another = {
        let mut it = card_ranges_response("two", &[]);
        it["threeDSServerTransID"] = json!("6fa459ea-ee8a-4ca4-894e-db77e160355e");
        it
    };
    let overlapping = card_ranges_response("two", &[FIRST, FIRST]);
    let faults: [&[ServerBehavior]; 9] = [
        &[ServerBehavior::Bytes(b"not JSON".to_vec())],
        &[ServerBehavior::Bytes(Vec::new())],
        &[ServerBehavior::Json(json!({ "messageType": "ARes" }))],
        &[ServerBehavior::Json(of_another)],
        &[ServerBehavior::JsonWithTransactionId(overlapping)],
        &[
            ServerBehavior::JsonWithTransactionId(error_message("307")),
            ServerBehavior::JsonWithTransactionId(card_ranges_response("two", &[])),
        ],
        &[ServerBehavior::JsonWithTransactionId(error_message("404"))],
        &[ServerBehavior::Status(500)],
        &[ServerBehavior::HangUp],
    ];
    let fetching = RangeFetchHarness::start();
    for manners in faults {
        assert!(fetching.refresh_with(manners).is_err(), "{manners:?}");
        assert!(
            fetching.contains_card("4000000000000000")
                && fetching.contains_card("4100000000000000")
        );
    }
    assert_eq!(
        fetching.refresh_with(&[ServerBehavior::JsonWithTransactionId(card_ranges_response(
            "two",
            &[]
        ))]),
        Ok(2)
    );
}

#[test]
fn rate_limit_error_of_the_scheme_is_reported() {
    let fetching = RangeFetchHarness::start();
    assert_eq!(
        fetching.refresh_with(&[ServerBehavior::JsonWithTransactionId(error_message("103"))]),
        Err(RangeFetchError::RateLimited)
    );
}
