//! A server that is told to stop while a directory server has not answered yet.

use std::{io::Write, net::TcpStream, time::Duration};

use scrip_simulator::{
    Settings,
    knob::{Answering, Knobs},
};
use scrip_testing::process::{
    self,
    harness::{ProcessHarness, eventually},
};
use serde_json::json;

use crate::sessions_3ds::{
    cards::{Shop, payment},
    schemes::runtime,
};

/// More than the runtime is given to end what nobody waits for.
const SLOW_MS: u64 = 4000;

#[test]
fn the_outcome_is_written_down_although_its_client_has_left() {
    let runtime = runtime();
    let simulator = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        scrip_simulator::start(listener, Settings::default()).unwrap()
    });
    let house =
        ProcessHarness::new(crate::SCRIP).set("SCRIP_THREEDS_SIMULATOR_URL", simulator.base_url());
    let house = house.set("SCRIP_THREEDS_ANSWER_DEADLINE_MS", "40000");
    let mut shop = Shop::open(&house);
    let card = shop.intent("4242424242424242");
    let (_, session) = shop.session(&json!({"token_intent_id": card, "type": "merchant"}));
    let path = format!("/3ds/sessions/{}", session["id"].as_str().unwrap());
    simulator.turn(Knobs { areq: Answering::DelayMs(SLOW_MS), ..Knobs::default() });

    let body = payment("other-payment").to_string();
    let mut client = TcpStream::connect(shop.server.address).unwrap();
    let request = format!(
        "POST {path}/authenticate HTTP/1.1\r\nHost: localhost\r\nBT-API-KEY: {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        shop.private,
        body.len(),
    );
    client.write_all(request.as_bytes()).unwrap();
    // Written down before anything is sent.
    assert!(eventually(|| shop.get(&path).1["modified_date"].is_string()), "{}", house.log());
    assert!(shop.get(&path).1.get("authentication").is_none());
    drop(client);
    process::terminate(&shop.server.child);
    let ended = process::wait(&mut shop.server.child, Duration::from_secs(90));
    assert!(ended.expect("it ends").success());
    drop(shop);

    simulator.turn(Knobs::default());
    let shop = Shop::open(&house);
    let (status, found) = shop.get(&path);
    assert_eq!(status, 200, "{found}");
    assert_eq!(found["authentication"]["authentication_status"], "successful", "{found}");
}
