//! A client that breaks off and asks again with the same idempotency key: one effect, and never an
//! internal error.

#![expect(clippy::indexing_slicing, reason = "an absent member of a JSON value reads as null")]

use std::{collections::BTreeMap, io::Write, net::TcpStream, thread::sleep, time::Duration};

use scrip_testing::{
    process::{
        ServerProcess,
        client::{HttpClient, ServerAddress},
        scrip_dev_command,
    },
    requests::card_number,
};
use serde_json::json;

/// The program under test.
const SCRIP: &str = env!("CARGO_BIN_EXE_scrip");

/// Sends a whole request, gives the server that long to take it up, and is gone.
fn send_and_disconnect(access: &ServerAddress, key: &str, body: &str, after: Duration) {
    let api_key = access.ready_message["keys"]["private"].as_str().expect("a key");
    let request = format!(
        "POST /tokens HTTP/1.1\r\nHost: localhost\r\nBT-API-KEY: {api_key}\r\n\
         Content-Type: application/json\r\nBT-IDEMPOTENCY-KEY: {key}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(access.address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    sleep(after);
}

#[test]
fn retry_after_disconnect_is_rejected_as_in_flight_or_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path()));
    let mut client = HttpClient::connect(&server.server_address).expect("it listens");
    let mut statuses = BTreeMap::new();
    for place in 0..400 {
        let key = format!("key-{place}");
        let body = json!({ "type": "card", "data": { "number": card_number(place) } }).to_string();
        // The moment that matters is between the claim and the commit; somewhere in here.
        send_and_disconnect(&server.server_address, &key, &body, Duration::from_micros(place * 10));
        let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", &*key)];
        let response = client.send("POST /tokens", &headers, &body).expect("an answer");
        let shown = response.body.contains(&card_number(place));
        assert_eq!(shown, response.status == 201, "an answer is the token or a refusal");
        *statuses.entry(response.status).or_insert(0) += 1;
    }
    let expected = |status: &u16| [201, 409].contains(status);
    assert!(statuses.keys().all(expected), "{statuses:?}");
    drop(server);

    let database = rusqlite::Connection::open(folder.path().join("scrip.db")).expect("it opens");
    let count =
        |sql: &str| -> i64 { database.query_row(sql, [], |it| it.get(0)).expect("a count") };
    let doubled = "SELECT count(*) - count(DISTINCT fingerprint) FROM tokens";
    assert_eq!(count(doubled), 0);
}
