//! Test tenants and production tenants use separate servers. Only test tenants use the simulator.

use scrip_core::{
    Timestamp,
    threeds::{DirectoryServerError, DirectoryServers},
    types::TenantKind::{Production, Test},
};
use scrip_server::directory_servers::{DirectoryServersSettings, HttpDirectoryServers};
use scrip_testing::directory_server::{DirectoryServer, ServerBehavior, card_ranges_response};
use scrip_threeds::code::Scheme;
use serde_json::json;

use crate::threeds_sessions::directory_servers::harness::{
    SchemeHarness, empty_plan, simulator_url, visa_plan,
};

const NOW: Timestamp = Timestamp { unix_ms: 0 };

#[test]
fn production_tenants_never_use_the_simulator() {
    let harness = SchemeHarness::new();
    let simulator = DirectoryServer::start(
        harness.runtime.handle(),
        None,
        &[ServerBehavior::JsonWithTransactionId(card_ranges_response(
            "one",
            &[("4000000000000000", "4099999999999999", "A")],
        ))],
    );
    let servers = HttpDirectoryServers::new(&DirectoryServersSettings {
        simulator: Some(simulator_url(&simulator)),
        ..empty_plan()
    });
    let servers = servers.unwrap();
    assert!(servers.ranges(Production).is_empty());
    for scheme in Scheme::ALL {
        assert!(servers.connection(Production, *scheme).is_none());
        let request = harness.send_for(&servers, Production, *scheme);
        assert_eq!(request.unwrap_err(), DirectoryServerError::NotSent);
        let fetch = servers.refresh_ranges(Production, *scheme, NOW);
        assert!(harness.runtime.block_on(fetch).is_err());
    }
    assert!(simulator.received_requests().is_empty());
    // Negative control: test tenants use the simulator, each scheme at its own path.
    for scheme in Scheme::ALL {
        assert!(harness.send_for(&servers, Test, *scheme).is_ok());
        let path = simulator.received_requests().pop().unwrap().path;
        assert_eq!(path, format!("/sim/ds/{}", scheme.slug()));
        assert_eq!(harness.runtime.block_on(servers.refresh_ranges(Test, *scheme, NOW)), Ok(1));
    }
    assert_eq!(servers.ranges(Test).len(), Scheme::ALL.len());
    assert_eq!(servers.connection(Test, Scheme::Jcb).unwrap().results_url, "https://vault.example");
}

#[test]
fn test_and_production_tenants_use_their_own_servers() {
    let harness = SchemeHarness::new();
    let simulator = DirectoryServer::start(
        harness.runtime.handle(),
        None,
        &[ServerBehavior::Json(json!({ "from": "simulator" }))],
    );
    let production = harness.server(&[ServerBehavior::Json(json!({ "from": "production" }))]);
    let test = harness.server(&[ServerBehavior::Json(json!({ "from": "test" }))]);
    let servers = HttpDirectoryServers::new(&DirectoryServersSettings {
        production: vec![visa_plan(harness.transport_plan(&[production.url()]))],
        test: vec![visa_plan(harness.transport_plan(&[test.url()]))],
        simulator: Some(simulator_url(&simulator)),
        ..empty_plan()
    });
    let servers = servers.unwrap();
    let send_as = |kind, scheme| {
        let response = harness.send_for(&servers, kind, scheme).ok()?;
        let response: serde_json::Value = serde_json::from_slice(&response).unwrap();
        Some(response["from"].as_str().unwrap().to_owned())
    };
    assert_eq!(send_as(Production, Scheme::Visa).as_deref(), Some("production"));
    assert_eq!(send_as(Test, Scheme::Visa).as_deref(), Some("test"));
    assert_eq!(send_as(Test, Scheme::Mastercard).as_deref(), Some("simulator"));
    assert_eq!(send_as(Production, Scheme::Mastercard), None);
    let counts = [&production, &test, &simulator].map(|it| it.received_requests().len());
    assert_eq!(counts, [1, 1, 1]);
}
