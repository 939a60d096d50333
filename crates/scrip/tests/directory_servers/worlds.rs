//! Test tenants and production tenants have servers of their own, and the simulator is nobody's but
//! the former's.

use scrip_core::{
    policy::TenantKind::{Production, Test},
    threeds::{DirectoryServers, Unanswered},
    time::Timestamp,
};
use scrip_server::directory_servers::{Plan, Servers};
use scrip_testing::directory_server::{DirectoryServer, Manner, ranges};
use scrip_threeds::code::Scheme;
use serde_json::json;

use crate::scene::{SchemeHarness, nobody, simulated, visa};

const NOW: Timestamp = Timestamp { unix_ms: 0 };

#[test]
fn production_never_asks_the_simulator() {
    let scene = SchemeHarness::new();
    let simulator = DirectoryServer::start(
        scene.runtime.handle(),
        None,
        &[Manner::Reply(ranges("one", &[("4000000000000000", "4099999999999999", "A")]))],
    );
    let servers = Servers::new(&Plan { simulator: Some(simulated(&simulator)), ..nobody() });
    let servers = servers.unwrap();
    assert!(servers.ranges(Production).is_empty());
    for scheme in Scheme::ALL {
        assert!(servers.link(Production, *scheme).is_none());
        let asked = scene.ask_for(&servers, Production, *scheme);
        assert_eq!(asked.unwrap_err(), Unanswered::NotSent);
        let fetched = servers.refresh(Production, *scheme, NOW);
        assert!(scene.runtime.block_on(fetched).is_err());
    }
    assert!(simulator.seen().is_empty());
    // The negative control: test tenants do, each scheme at its own path.
    for scheme in Scheme::ALL {
        assert!(scene.ask_for(&servers, Test, *scheme).is_ok());
        assert_eq!(simulator.seen().last().unwrap().path, format!("/sim/ds/{}", scheme.slug()));
        assert_eq!(scene.runtime.block_on(servers.refresh(Test, *scheme, NOW)), Ok(1));
    }
    assert_eq!(servers.ranges(Test).len(), Scheme::ALL.len());
    assert_eq!(servers.link(Test, Scheme::Jcb).unwrap().results_url, "https://vault.example");
}

#[test]
fn each_world_asks_its_own() {
    let scene = SchemeHarness::new();
    let simulator = DirectoryServer::start(
        scene.runtime.handle(),
        None,
        &[Manner::Answer(json!({ "from": "simulator" }))],
    );
    let production = scene.server(&[Manner::Answer(json!({ "from": "production" }))]);
    let test = scene.server(&[Manner::Answer(json!({ "from": "test" }))]);
    let servers = Servers::new(&Plan {
        production: vec![visa(scene.way(&[production.url()]))],
        test: vec![visa(scene.way(&[test.url()]))],
        simulator: Some(simulated(&simulator)),
        ..nobody()
    });
    let servers = servers.unwrap();
    let from = |kind, scheme| {
        let answer = scene.ask_for(&servers, kind, scheme).ok()?;
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        Some(answer["from"].as_str().unwrap().to_owned())
    };
    assert_eq!(from(Production, Scheme::Visa).as_deref(), Some("production"));
    assert_eq!(from(Test, Scheme::Visa).as_deref(), Some("test"));
    assert_eq!(from(Test, Scheme::Mastercard).as_deref(), Some("simulator"));
    assert_eq!(from(Production, Scheme::Mastercard), None);
    let counts = [&production, &test, &simulator].map(|it| it.seen().len());
    assert_eq!(counts, [1, 1, 1]);
}
