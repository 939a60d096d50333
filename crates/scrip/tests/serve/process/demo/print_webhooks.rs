//! `scrip dev --print-webhooks` prints the deliveries of a webhook with all event types.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Stdio},
};

use scrip_testing::{process::harness::ProcessHarness, requests::http_client::BlockingClient};
use serde_json::{Value, json};

/// A running `scrip dev`. The process is killed at the end of the test.
struct DevVault {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl DevVault {
    fn start(process: &ProcessHarness, arguments: &[&str]) -> Self {
        let arguments = [&["dev"], arguments].concat();
        let mut command = process.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next_line(&mut self) -> String {
        self.lines.next().expect("the program ended").unwrap()
    }

    fn find_line(&mut self, text: &str) -> String {
        loop {
            let line = self.next_line();
            if line.contains(text) {
                return line;
            }
        }
    }
}

impl Drop for DevVault {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn send(announced: &Value, kind: &str, method: &str, path: &str, body: Option<&Value>) -> Value {
    let url = format!("{}{path}", announced["url"].as_str().unwrap());
    let key = announced["keys"][kind].as_str().unwrap();
    let mut request = BlockingClient::default().request(method, url).header("BT-API-KEY", key);
    if let Some(body) = body {
        request = request.header("Content-Type", "application/json").body(body.to_string());
    }
    let response = request.send();
    assert!((200..300).contains(&response.status), "{path}: {}", response.text());
    serde_json::from_str(&response.text()).unwrap()
}

fn create_token(announced: &Value) -> Value {
    send(announced, "private", "POST", "/tokens", Some(&json!({"type": "token", "data": 1})))
}

fn webhook_names(announced: &Value) -> Vec<Value> {
    let list = send(announced, "management", "GET", "/webhooks", None);
    list["data"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect()
}

#[test]
fn dev_prints_the_verified_delivery_of_a_new_token() {
    let process = ProcessHarness::new(crate::SCRIP);
    let mut dev = DevVault::start(&process, &["--json", "--print-webhooks"]);
    let announced: Value = serde_json::from_str(&dev.next_line()).unwrap();
    assert!(announced["webhook_receiver"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    let token = create_token(&announced);
    let delivery: Value = serde_json::from_str(&dev.find_line("token.created")).unwrap();
    assert_eq!(delivery["signatures"], "valid");
    assert_eq!(delivery["delivery"]["event"]["data"]["token"]["id"], token["id"]);
    assert_eq!(webhook_names(&announced), ["scrip dev --print-webhooks"]);
    // The official clients require `created_by`, also of a webhook that no application created.
    let list = send(&announced, "management", "GET", "/webhooks", None);
    let webhook = &list["data"][0];
    assert_eq!(webhook["created_by"], "00000000-0000-0000-0000-000000000000");
    let path = format!("/webhooks/{}", webhook["id"].as_str().unwrap());
    assert_eq!(&send(&announced, "management", "GET", &path, None), webhook);
    drop(dev);

    let mut dev = DevVault::start(&process, &["--print-webhooks"]);
    let line = dev.find_line("Scrip is ready at ");
    let url = line.split_whitespace().last().unwrap();
    let announced = json!({"url": url, "keys": announced["keys"]});
    let token = create_token(&announced);
    let line = dev.find_line("webhook token.created");
    assert!(line.ends_with("signatures valid"), "{line}");
    dev.find_line(token["id"].as_str().unwrap());
    assert_eq!(webhook_names(&announced), ["scrip dev --print-webhooks"]);
    drop(dev);

    let mut dev = DevVault::start(&process, &["--json"]);
    let announced: Value = serde_json::from_str(&dev.next_line()).unwrap();
    assert_eq!(announced["webhook_receiver"], Value::Null);
    assert_eq!(webhook_names(&announced), [Value::Null; 0]);
}
