//! A server that is stopped before a directory server has responded.

use std::{io::Write, net::TcpStream, time::Duration};

use scrip_simulator::{
    SimulatorSettings,
    behavior::{ResponseBehavior, SimulatedBehavior},
};
use scrip_testing::process::{
    self,
    harness::{ProcessHarness, becomes_true},
};
use serde_json::json;

use crate::threeds_sessions::{
    cards::{SandboxShop, payment_body},
    schemes::runtime,
};

/// A delay that is longer than the runtime waits for detached tasks.
const SLOW_MS: u64 = 4000;

#[test]
fn outcome_is_stored_when_the_server_stops_during_an_authentication() {
    let runtime = runtime();
    let simulator = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        scrip_simulator::start(listener, SimulatorSettings::default()).unwrap()
    });
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_THREEDS_SIMULATOR_URL", simulator.base_url());
    let process = process.with_variable("SCRIP_THREEDS_RESPONSE_DEADLINE_MS", "40000");
    let mut shop = SandboxShop::open(&process);
    let card = shop.create_intent("4242424242424242");
    let (_, session) = shop.create_session(&json!({"token_intent_id": card, "type": "merchant"}));
    let path = format!("/3ds/sessions/{}", session["id"].as_str().unwrap());
    simulator.set_behavior(SimulatedBehavior {
        areq: ResponseBehavior::DelayMs(SLOW_MS),
        ..SimulatedBehavior::default()
    });

    let body = payment_body("other-payment").to_string();
    let mut client = TcpStream::connect(shop.server.address).unwrap();
    let request = format!(
        "POST {path}/authenticate HTTP/1.1\r\nHost: localhost\r\nBT-API-KEY: {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        shop.private,
        body.len(),
    );
    client.write_all(request.as_bytes()).unwrap();
    // The authentication request is recorded before the message is sent.
    assert!(becomes_true(|| shop.get(&path).1["modified_date"].is_string()), "{}", process.log());
    assert!(shop.get(&path).1.get("authentication").is_none());
    drop(client);
    process::terminate(&shop.server.child);
    let exit_status = process::wait(&mut shop.server.child, Duration::from_secs(90));
    assert!(exit_status.expect("wait for the process to end").success());
    drop(shop);

    simulator.set_behavior(SimulatedBehavior::default());
    let shop = SandboxShop::open(&process);
    let (status, session_body) = shop.get(&path);
    assert_eq!(status, 200, "{session_body}");
    let status = &session_body["authentication"]["authentication_status"];
    assert_eq!(*status, "successful", "{session_body}");
}
