//! Card range requests: the first one fetches all ranges, later ones only the changes. After a
//! failed request the last valid ranges stay in use.

use scrip_core::{Timestamp, threeds::DirectoryServers, types::TenantKind};
use scrip_server::directory_servers::{HttpDirectoryServers, RangeFetchError};
use scrip_testing::directory_server::{
    DirectoryServer, ServerBehavior, card_ranges_response, error_message,
};
use scrip_threeds::{code::Scheme, format::CardNumber};
use serde_json::{Value, json};

use crate::threeds_sessions::directory_servers::harness::SchemeHarness;

const FIRST: (&str, &str, &str) = ("4000000000000000", "4099999999999999", "A");
const SECOND: (&str, &str, &str) = ("4100000000000000", "4199999999999999", "A");
const NOW: Timestamp = Timestamp { unix_ms: 1_800_000_000_000 };

fn range_response(serial: &str, ranges: &[(&str, &str, &str)]) -> ServerBehavior {
    ServerBehavior::JsonWithTransactionId(card_ranges_response(serial, ranges))
}

fn error_response(code: &str) -> ServerBehavior {
    ServerBehavior::JsonWithTransactionId(error_message(code))
}

struct RangeFetchHarness {
    harness: SchemeHarness,
    server: DirectoryServer,
    servers: HttpDirectoryServers,
}

impl RangeFetchHarness {
    /// Starts a harness and fetches the ranges once.
    fn start() -> Self {
        let harness = SchemeHarness::new();
        let (server, servers) = harness.connect_to(&[range_response("one", &[FIRST, SECOND])]);
        let range_harness = Self { harness, server, servers };
        assert_eq!(range_harness.refresh(), Ok(2));
        range_harness
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
        let ranges = self.servers.ranges(TenantKind::Production);
        assert_eq!(ranges.len(), 1);
        let card = CardNumber::parse(number).unwrap();
        ranges[0].ranges.as_ref().is_some_and(|it| it.find(&card).is_some())
    }

    /// Returns the serial number of each request.
    fn requested_serials(&self) -> Vec<Value> {
        self.server.received_requests().iter().map(|it| it.json()["serialNum"].clone()).collect()
    }
}

#[test]
fn no_card_ranges_before_the_first_response() {
    let harness = SchemeHarness::new();
    let (server, servers) = harness.connect_to(&[ServerBehavior::Silent]);
    let ranges = servers.ranges(TenantKind::Production);
    assert_eq!((ranges.len(), ranges[0].scheme), (1, Scheme::Visa));
    assert!(ranges[0].ranges.is_none());
    assert!(server.received_requests().is_empty());
}

#[test]
fn range_request_has_reference_number_and_operator_id() {
    let harness = RangeFetchHarness::start();
    let request = harness.server.received_requests()[0].json();
    assert_eq!(request["messageType"], "PReq");
    assert_eq!(request["messageVersion"], "2.2.0");
    assert_eq!(request["threeDSServerRefNumber"], "3DS_LOA_SER_TEST_020200_00001");
    assert_eq!(request["threeDSServerOperatorID"], "operator-7");
    assert!(harness.contains_card("4000000000000001") && harness.contains_card("4199999999999999"));
    assert!(!harness.contains_card("4200000000000000"));
}

#[test]
fn later_requests_fetch_only_changed_ranges() {
    let harness = RangeFetchHarness::start();
    let (range_start, range_end, _) = SECOND;
    let third_range = ("4200000000000000", "4299999999999999", "A");
    let changes = range_response("two", &[(range_start, range_end, "D"), third_range]);
    assert_eq!(harness.refresh_with(&[changes]), Ok(2));
    assert!(harness.contains_card("4000000000000000") && harness.contains_card("4200000000000000"));
    assert!(!harness.contains_card("4100000000000000"));
    assert_eq!(harness.refresh_with(&[range_response("two", &[])]), Ok(2));
    assert!(harness.contains_card("4200000000000000"));
    assert_eq!(harness.requested_serials(), [Value::Null, json!("one"), json!("two")]);
}

#[test]
fn all_ranges_are_requested_when_changes_cannot_be_applied() {
    let deletion_of_unknown_range =
        range_response("two", &[("5000000000000000", "5099999999999999", "D")]);
    for first_response in [error_response("307"), deletion_of_unknown_range] {
        let harness = RangeFetchHarness::start();
        let complete_response = range_response("three", &[FIRST]);
        assert_eq!(harness.refresh_with(&[first_response, complete_response]), Ok(1));
        assert!(harness.contains_card("4000000000000000"));
        assert!(!harness.contains_card("4100000000000000"));
        assert_eq!(harness.requested_serials(), [Value::Null, json!("one"), Value::Null]);
    }
}

#[test]
fn invalid_range_response_leaves_the_ranges_unchanged() {
    let of_another_scheme = {
        let mut it = card_ranges_response("two", &[]);
        it["threeDSServerTransID"] = json!("6fa459ea-ee8a-4ca4-894e-db77e160355e");
        it
    };

    let faults: [&[ServerBehavior]; 9] = [
        &[ServerBehavior::Bytes(b"not JSON".to_vec())],
        &[ServerBehavior::Bytes(Vec::new())],
        &[ServerBehavior::Json(json!({ "messageType": "ARes" }))],
        &[ServerBehavior::Json(of_another_scheme)],
        &[range_response("two", &[FIRST, FIRST])],
        &[error_response("307"), range_response("two", &[])],
        &[error_response("404")],
        &[ServerBehavior::Status(500)],
        &[ServerBehavior::HangUp],
    ];
    let harness = RangeFetchHarness::start();
    for behavior in faults {
        assert!(harness.refresh_with(behavior).is_err(), "{behavior:?}");
        for card in ["4000000000000000", "4100000000000000"] {
            assert!(harness.contains_card(card), "{card} after {behavior:?}");
        }
    }
    assert_eq!(harness.refresh_with(&[range_response("two", &[])]), Ok(2));
}

#[test]
fn rate_limit_error_of_the_scheme_is_reported() {
    let harness = RangeFetchHarness::start();
    let rate_limited = harness.refresh_with(&[error_response("103")]);
    assert_eq!(rate_limited, Err(RangeFetchError::RateLimited));
}
