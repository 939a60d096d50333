//! No card number that was sent through the proxy is on disk or in the log, in any encoding.

use std::{
    fs::{self, File},
    path::Path,
    time::Duration,
};

use scrip_testing::{
    destination::{DestinationHost, DestinationServer, behavior::DestinationBehavior},
    process::{ServerProcess, scrip_dev_command, terminate, wait},
    requests::{
        card_number,
        http_client::{BlockingClient, ClientRequest, ClientResponse},
    },
};
use serde_json::{Value, json};

use super::{NumberScan, create_backup};
use crate::SCRIP;

/// Numbers of a series that no other scan uses.
const FIRST_NUMBER: u64 = 50_000;
const ROUNDS: u64 = 40;
const BOUNDARY: &str = "boundary-93";

/// The server under test with its keys, and the destination.
struct ScanHarness {
    server: ServerProcess,
    host: DestinationHost,
    client: BlockingClient,
    next_number: u64,
}

impl ScanHarness {
    fn key(&self, kind: &str) -> &str {
        self.server.server_address.ready_message["keys"][kind].as_str().expect("a key")
    }

    fn request(&self, method: &str, path: &str) -> ClientRequest {
        let address = self.server.server_address.address;
        self.client.request(method, format!("http://{address}{path}"))
    }

    /// A call through the ephemeral proxy.
    fn call(&self, path: &str) -> ClientRequest {
        let request = self.request("POST", &format!("/proxy{path}")).api_key(self.key("private"));
        request.header("BT-PROXY-URL", self.host.url(""))
    }

    fn new_number(&mut self) -> String {
        self.next_number += 1;
        card_number(self.next_number)
    }

    /// Creates a card token with a new number. Returns the expression for the number.
    fn create_card(&mut self) -> String {
        let number = self.new_number();
        let body = json!({ "type": "card", "data": { "number": number, "cvc": "123" } });
        let request = self.request("POST", "/tokens").api_key(self.key("private"));
        let created = request.json(&body).send().expect_status(201).json();
        format!("{{{{ {} | json: '$.number' }}}}", created["id"].as_str().expect("an id"))
    }

    fn create_proxy(&self, attributes: &Value) -> String {
        let mut body = json!({ "name": "scan", "destination_url": self.host.url("") });
        for (name, value) in attributes.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let request = self.request("POST", "/proxies").api_key(self.key("management"));
        let created = request.json(&body).send().expect_status(201).json();
        created["key"].as_str().expect("a key").to_owned()
    }
}

#[track_caller]
fn expect_status(response: &ClientResponse, status: u16) {
    assert_eq!(response.status, status, "{}", String::from_utf8_lossy(&response.body));
}

/// The bodies of all content types with this text in them.
fn bodies(text: &str) -> Vec<(String, String)> {
    let form = text.replace('%', "%25").replace('+', "%2B").replace(' ', "+");
    let part = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n{text}\r\n--{BOUNDARY}--\r\n"
    );
    vec![
        ("application/json".to_owned(), json!({ "card": text }).to_string()),
        ("application/vnd.api+json".to_owned(), json!([{ "card": text }]).to_string()),
        ("application/x-www-form-urlencoded".to_owned(), format!("a=1&card={form}")),
        ("text/xml".to_owned(), format!("<a b=\"c\">{}</a>", text.replace('\'', "\""))),
        ("text/plain".to_owned(), format!("card {text}.")),
        ("application/octet-stream".to_owned(), format!("card {text}.")),
        (format!("multipart/form-data; boundary={BOUNDARY}"), part),
    ]
}

/// Sends numbers through every part of a call. The destination returns each body.
fn send_numbers(harness: &mut ScanHarness, round: u64) {
    // By expression, with and without an idempotency key: the stored answer contains the number.
    let expression = harness.create_card();
    for (index, (content_type, body)) in bodies(&expression).into_iter().enumerate() {
        let request = harness.call("/v1").header("Content-Type", &content_type);
        let request = match round.is_multiple_of(2) {
            true => request.header("BT-IDEMPOTENCY-KEY", format!("scan-{round}-{index}")),
            false => request,
        };
        expect_status(&request.body(body).send(), 200);
    }
    // Sent by the client itself, as in inbound collection.
    let number = harness.new_number();
    for (content_type, body) in bodies(&number) {
        let request = harness.call("/v1").header("Content-Type", &content_type);
        expect_status(&request.body(body).send(), 200);
    }
    // In the URL, in a header, and in requests that fail.
    let number = harness.new_number();
    let request = harness.call(&format!("/v1/{number}?card={number}")).header("X-Card", &number);
    expect_status(&request.body("").send(), 200);
    let number = harness.new_number();
    let invalid = json!({ "a": format!("{{{{ '{number}' | no_such_filter }}}}") });
    expect_status(&harness.call("").json(&invalid).send(), 400);
    let unknown = json!({ "a": format!("{{{{ {number} }}}}"), number.as_str(): "{{" });
    expect_status(&harness.call("").json(&unknown).send(), 400);
    expect_status(&harness.call(&format!("/%7B%7B{number}")).body("").send(), 400);
    let request = harness.request("POST", "/proxy").api_key(harness.key("private"));
    let request = request.header("BT-PROXY-URL", format!("https://{number}.example.test/{number}"));
    assert!(request.body(number.clone()).send().status >= 400);
    let request = harness.request("POST", "/proxy").api_key(harness.key("private"));
    let response = request.header("BT-PROXY-KEY", &number).body("").send();
    assert!(response.status >= 400);
    assert!(!String::from_utf8_lossy(&response.body).contains(&number));
}

/// Calls through proxies with transforms, which store the number as a token.
fn send_through_transforms(harness: &mut ScanHarness) {
    let mask = json!([{ "type": "mask", "matcher": "regex", "expression": "\"card\":\"(\\d+)\"",
        "replacement": "*" }]);
    let collect = json!([
        { "type": "tokenize", "options": { "identifier": "card", "token": {
            "type": "card", "data": { "number": "{{ req.card }}" } } } },
        { "type": "append_json", "options": { "location": "$.token",
            "value": "{{ transform_identifier: 'card' | json: '$.id' }}" } },
    ]);
    let secret = harness.new_number();
    let configuration = json!({ "secret": secret });
    let application = harness.request("GET", "/applications/key").api_key(harness.key("private"));
    let application = json!({ "id": application.send().expect_status(200).json()["id"] });
    let proxies = [
        json!({ "response_transforms": mask, "configuration": configuration }),
        json!({ "request_transforms": collect, "configuration": configuration,
            "application": application }),
    ];
    for attributes in proxies {
        let proxy_key = harness.create_proxy(&attributes);
        for _ in 0..5 {
            let number = harness.new_number();
            let request = harness.request("POST", "/proxy").api_key(harness.key("private"));
            let request =
                request.header("BT-PROXY-KEY", &proxy_key).header("X-C", "{{ config: secret }}");
            expect_status(&request.json(&json!({ "card": number })).send(), 200);
        }
    }
}

#[test]
fn no_proxied_card_number_is_on_disk_or_in_the_log() {
    let folder = tempfile::tempdir().expect("create a folder");
    let (data, logs) = (folder.path().join("data"), folder.path().join("logs"));
    fs::create_dir(&logs).expect("create a folder");
    let log = File::create(logs.join("stderr")).expect("a file");
    let mut command = scrip_dev_command(SCRIP, &data);
    // The most verbose log level.
    let server = ServerProcess::start(command.env("SCRIP_LOG", "trace").stderr(log));
    let (_destination, host) = DestinationServer::start_plain(&[DestinationBehavior::Echo]);
    let client = BlockingClient::default();
    let mut harness = ScanHarness { server, host, client, next_number: FIRST_NUMBER };
    for round in 0..ROUNDS {
        send_numbers(&mut harness, round);
    }
    send_through_transforms(&mut harness);
    // A destination that closes the connection, and one that sends no HTTP.
    for behavior in [DestinationBehavior::HangUp, DestinationBehavior::Raw(b"x".to_vec())] {
        harness.host.set_behaviors(&[behavior]);
        let number = harness.new_number();
        let request = harness.call("").header("BT-IDEMPOTENCY-KEY", &number);
        expect_status(&request.json(&json!({ "card": number })).send(), 502);
    }

    let last_number = harness.next_number;
    let scan = NumberScan::new((FIRST_NUMBER..=last_number).map(card_number));
    let with_wal = scan.scan_folder(&data);
    let backups = folder.path().join("backups");
    create_backup(&data, &backups);
    scan.scan_folder(&backups);
    terminate(&harness.server.child);
    let status = wait(&mut harness.server.child, Duration::from_secs(15));
    assert!(status.expect("the server ends").success());
    let after_stop = scan.scan_folder(&data);
    let log_bytes = scan.scan_folder(&logs);
    assert!(with_wal > 100_000 && after_stop > 100_000 && log_bytes > 10_000);
    expect_numbers_at_destination(&harness.host, &scan, folder.path());
}

/// Positive control: the destination did receive the numbers, and a log of its requests would be
/// found.
fn expect_numbers_at_destination(host: &DestinationHost, scan: &NumberScan, folder: &Path) {
    let requests = host.requests();
    assert!(requests.len() > 500, "{}", requests.len());
    let mut log = Vec::new();
    let mut requests_with_number = 0;
    for request in &requests {
        let bytes = [request.head.as_slice(), &request.body].concat();
        requests_with_number += usize::from(!scan.find(&bytes).is_empty());
        log.extend_from_slice(&bytes);
    }
    assert!(requests_with_number > 500, "{requests_with_number} of {}", requests.len());
    fs::write(folder.join("destination"), log).expect("write a file");
    let bytes = fs::read(folder.join("destination")).expect("read the file");
    assert!(scan.find(&bytes).contains(&"ASCII"));
}
