//! A client that disconnects and retries with the same idempotency key: the request takes effect
//! once and never causes an internal error.

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

use crate::SCRIP;

/// Sends a complete request and disconnects after the given time.
fn send_and_disconnect(server: &ServerAddress, key: &str, body: &str, delay: Duration) {
    let api_key = server.ready_message["keys"]["private"].as_str().expect("a key");
    let request = format!(
        "POST /tokens HTTP/1.1\r\nHost: localhost\r\nBT-API-KEY: {api_key}\r\n\
         Content-Type: application/json\r\nBT-IDEMPOTENCY-KEY: {key}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(server.address).expect("the server listens");
    stream.write_all(request.as_bytes()).expect("the server reads the request");
    sleep(delay);
}

#[test]
fn retry_after_disconnect_is_rejected_as_in_flight_or_replayed() {
    let folder = tempfile::tempdir().expect("create a folder");
    let process = ServerProcess::start(&mut scrip_dev_command(SCRIP, folder.path()));
    let mut client = HttpClient::connect(&process.server_address).expect("the server listens");
    let mut statuses = BTreeMap::new();
    for attempt in 0..400 {
        let key = format!("key-{attempt}");
        let body =
            json!({ "type": "card", "data": { "number": card_number(attempt) } }).to_string();
        // The critical moment is between the claim and the commit of the idempotency key. The
        // delays cover this moment.
        send_and_disconnect(
            &process.server_address,
            &key,
            &body,
            Duration::from_micros(attempt * 10),
        );
        let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", &*key)];
        let response = client.send("POST /tokens", &headers, &body).expect("a response");
        let has_number = response.body.contains(&card_number(attempt));
        let is_created = response.status == 201;
        assert_eq!(has_number, is_created, "only a 201 response contains the card number");
        *statuses.entry(response.status).or_insert(0) += 1;
    }
    let expected = |status: &u16| [201, 409].contains(status);
    assert!(statuses.keys().all(expected), "{statuses:?}");
    drop(process);

    let database =
        rusqlite::Connection::open(folder.path().join("scrip.db")).expect("open the database");
    let count =
        |sql: &str| -> i64 { database.query_row(sql, [], |it| it.get(0)).expect("a count") };
    let duplicates = "SELECT count(*) - count(DISTINCT fingerprint) FROM tokens";
    assert_eq!(count(duplicates), 0);
}
