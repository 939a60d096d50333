//! Card ranges: everything at first, then what has changed, and always those that were good last.

use scrip_core::{policy::TenantKind, threeds::DirectoryServers, time::Timestamp};
use scrip_server::directory_servers::{Failure, Servers};
use scrip_testing::directory_server::{DirectoryServer, Manner, erro, ranges};
use scrip_threeds::{code::Scheme, format::CardNumber};
use serde_json::{Value, json};

use crate::scene::SchemeHarness;

const FIRST: (&str, &str, &str) = ("4000000000000000", "4099999999999999", "A");
const SECOND: (&str, &str, &str) = ("4100000000000000", "4199999999999999", "A");
const NOW: Timestamp = Timestamp { unix_ms: 1_800_000_000_000 };

struct Fetching {
    scene: SchemeHarness,
    server: DirectoryServer,
    servers: Servers,
}

impl Fetching {
    /// Everything was told once.
    fn begun() -> Self {
        let scene = SchemeHarness::new();
        let server = scene.server(&[Manner::Reply(ranges("one", &[FIRST, SECOND]))]);
        let servers = scene.connect(scene.way(&[server.url()]));
        let begun = Self { scene, server, servers };
        assert_eq!(begun.refresh(), Ok(2));
        begun
    }

    fn refresh(&self) -> Result<usize, Failure> {
        let (kind, scheme) = (TenantKind::Production, Scheme::Visa);
        self.scene.runtime.block_on(self.servers.refresh(kind, scheme, NOW))
    }

    fn then(&self, manners: &[Manner]) -> Result<usize, Failure> {
        self.server.set(manners);
        self.refresh()
    }

    fn has(&self, number: &str) -> bool {
        let told = self.servers.ranges(TenantKind::Production);
        assert_eq!(told.len(), 1);
        let card = CardNumber::parse(number).unwrap();
        told[0].ranges.as_ref().is_some_and(|it| it.find(&card).is_some())
    }

    /// With which serial number each question came.
    fn serials(&self) -> Vec<Value> {
        self.server.seen().iter().map(|it| it.json()["serialNum"].clone()).collect()
    }
}

#[test]
fn before_the_first_answer_there_are_none() {
    let scene = SchemeHarness::new();
    let server = scene.server(&[Manner::Silent]);
    let servers = scene.connect(scene.way(&[server.url()]));
    let told = servers.ranges(TenantKind::Production);
    assert_eq!((told.len(), told[0].scheme), (1, Scheme::Visa));
    assert!(told[0].ranges.is_none());
    assert!(server.seen().is_empty());
}

#[test]
fn the_question_says_who_we_are() {
    let fetching = Fetching::begun();
    let asked = fetching.server.seen()[0].json();
    assert_eq!(asked["messageType"], "PReq");
    assert_eq!(asked["messageVersion"], "2.2.0");
    assert_eq!(asked["threeDSServerRefNumber"], "3DS_LOA_SER_TEST_020200_00001");
    assert_eq!(asked["threeDSServerOperatorID"], "operator-7");
    assert!(fetching.has("4000000000000001") && fetching.has("4199999999999999"));
    assert!(!fetching.has("4200000000000000"));
}

#[test]
fn then_only_what_has_changed() {
    let fetching = Fetching::begun();
    let (start, end, _) = SECOND;
    let third = ("4200000000000000", "4299999999999999", "A");
    let changes = ranges("two", &[(start, end, "D"), third]);
    assert_eq!(fetching.then(&[Manner::Reply(changes)]), Ok(2));
    assert!(fetching.has("4000000000000000") && fetching.has("4200000000000000"));
    assert!(!fetching.has("4100000000000000"));
    assert_eq!(fetching.then(&[Manner::Reply(ranges("two", &[]))]), Ok(2));
    assert!(fetching.has("4200000000000000"));
    assert_eq!(fetching.serials(), [Value::Null, json!("one"), json!("two")]);
}

#[test]
fn when_changes_cannot_be_had_everything_is_asked_for() {
    let missing = ranges("two", &[("5000000000000000", "5099999999999999", "D")]);
    for refused in [erro("307"), missing] {
        let fetching = Fetching::begun();
        let whole = ranges("three", &[FIRST]);
        let told = fetching.then(&[Manner::Reply(refused), Manner::Reply(whole)]);
        assert_eq!(told, Ok(1));
        assert!(fetching.has("4000000000000000") && !fetching.has("4100000000000000"));
        assert_eq!(fetching.serials(), [Value::Null, json!("one"), Value::Null]);
    }
}

#[test]
fn what_cannot_be_believed_changes_nothing() {
    let of_another = {
        let mut it = ranges("two", &[]);
        it["threeDSServerTransID"] = json!("6fa459ea-ee8a-4ca4-894e-db77e160355e");
        it
    };
    let overlapping = ranges("two", &[FIRST, FIRST]);
    let faults: [&[Manner]; 9] = [
        &[Manner::Bytes(b"not JSON".to_vec())],
        &[Manner::Bytes(Vec::new())],
        &[Manner::Answer(json!({ "messageType": "ARes" }))],
        &[Manner::Answer(of_another)],
        &[Manner::Reply(overlapping)],
        &[Manner::Reply(erro("307")), Manner::Reply(ranges("two", &[]))],
        &[Manner::Reply(erro("404"))],
        &[Manner::Status(500)],
        &[Manner::HangUp],
    ];
    let fetching = Fetching::begun();
    for manners in faults {
        assert!(fetching.then(manners).is_err(), "{manners:?}");
        assert!(fetching.has("4000000000000000") && fetching.has("4100000000000000"));
    }
    assert_eq!(fetching.then(&[Manner::Reply(ranges("two", &[]))]), Ok(2));
}

#[test]
fn who_asks_too_often_is_told_so() {
    let fetching = Fetching::begun();
    assert_eq!(fetching.then(&[Manner::Reply(erro("103"))]), Err(Failure::TooOften));
}
