//! The announcement of `scrip dev` on a terminal, and its line for each request.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::Stdio,
};

use scrip_testing::{process::harness::ProcessHarness, requests::http_client::BlockingClient};

use crate::{SCRIP, terminal::Terminal};

/// The value of a variable in the lines to paste.
fn exported(text: &str, name: &str) -> String {
    let prefix = format!("  export {name}=");
    let line = text.lines().find_map(|it| it.strip_prefix(&prefix)).unwrap();
    line.trim().to_owned()
}

fn send(method: &str, url: &str, key: &str) -> u16 {
    BlockingClient::default().request(method, url).header("BT-API-KEY", key).send().status
}

#[test]
fn dev_on_a_terminal_prints_the_announcement_first_and_then_requests() {
    let process = ProcessHarness::new(SCRIP);
    let terminal = Terminal::start(&mut process.command(&["dev"]));
    let text = terminal.wait_for("expiration_year");
    let first = text.lines().find(|it| !it.trim().is_empty()).unwrap();
    assert!(first.starts_with("  Scrip is ready at http://127.0.0.1:"), "{text}");
    let url = exported(&text, "SCRIP_URL");
    assert!(text.contains(&format!("API reference at {url}/docs")), "{text}");
    let key = exported(&text, "SCRIP_KEY");
    assert!(key.contains("_pvt_"), "{text}");
    assert!(exported(&text, "SCRIP_PUBLIC_KEY").contains("_pub_"), "{text}");
    assert!(exported(&text, "SCRIP_MANAGEMENT_KEY").contains("_mgt_"), "{text}");

    terminal.forget();
    assert_eq!(send("GET", &format!("{url}/v2/tokens?metadata.name=hidden-value"), &key), 200);
    let text = terminal.wait_for("/v2/tokens");
    assert!(text.contains("  GET    /v2/tokens "), "{text}");
    assert!(text.contains("\u{1b}[32m200\u{1b}[0m") && text.contains(" ms"), "{text}");
    assert_eq!(send("GET", &format!("{url}/tokens/4242424242424242?a=hidden-value"), "wrong"), 401);
    assert_eq!(send("GET", &format!("{url}/tokens/4242424242424242"), &key), 404);
    assert_eq!(send("POST", &format!("{url}/proxy/4242424242424242"), &key), 400);
    assert_eq!(send("GET", &format!("{url}/reactors"), &key), 404);
    let text = terminal.wait_for("/reactors");
    assert!(text.contains("\u{1b}[33m401\u{1b}[0m"), "{text}");
    assert!(text.contains("the text in the BT-API-KEY header does not have the form"), "{text}");
    assert!(text.contains("/tokens/… ") && text.contains("/proxy/… "), "{text}");
    assert!(text.contains("This server does not have the feature: reactors"), "{text}");
    for secret in ["4242", "hidden-value", &key] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let log_words = ["INFO", "WARN", "ERROR"];
    assert!(!log_words.iter().any(|it| text.contains(it)), "{text}");
}

#[test]
fn quiet_dev_prints_no_requests_on_a_terminal() {
    let process = ProcessHarness::new(SCRIP);
    let terminal = Terminal::start(&mut process.command(&["dev", "--quiet"]));
    let text = terminal.wait_for("expiration_year");
    let url = exported(&text, "SCRIP_URL");
    for _ in 0..20 {
        assert_eq!(send("GET", &format!("{url}/quiet"), ""), 404);
    }
    assert!(!terminal.text().contains("/quiet"), "{}", terminal.text());
}

#[test]
fn request_lines_without_a_terminal_have_no_colours() {
    let process = ProcessHarness::new(SCRIP);
    let mut command = process.command(&["dev"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let export = lines.find(|it| it.contains("export SCRIP_URL=")).unwrap();
    let url = exported(&export, "SCRIP_URL");
    assert_eq!(send("GET", &format!("{url}/plain"), ""), 404);
    let line = lines.find(|it| it.contains("/plain")).unwrap();
    drop(child.kill());
    drop(child.wait());
    assert!(line.starts_with("  GET    /plain ") && line.contains(" 404 "), "{line}");
    assert!(!line.contains('\u{1b}'), "{line}");
}

#[test]
fn port_in_use_is_reported_with_what_to_do_by_dev_and_serve() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let process = ProcessHarness::initialized(SCRIP).with_variable("SCRIP_SERVER_LISTEN", &address);
    let advice = "use a free port: scrip dev --listen 127.0.0.1:0";
    process.assert_fails(&["dev"], advice);
    let output = process.run(&["serve"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("cannot listen on") && !message.contains("scrip dev"), "{message}");
    assert!(message.contains("set server.listen to a free port"), "{message}");
}

/// A warning of the log, between the lines of the requests.
#[test]
fn log_of_dev_on_a_terminal_is_text() {
    let process = ProcessHarness::new(SCRIP);
    let terminal = Terminal::start(&mut process.command(&["dev"]));
    let text = terminal.wait_for("expiration_year");
    let (url, key) = (exported(&text, "SCRIP_URL"), exported(&text, "SCRIP_KEY"));
    terminal.forget();
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let request = BlockingClient::default().request("POST", format!("{url}/proxy"));
    let request = request.api_key(&key).header("BT-PROXY-URL", format!("http://{unused}/"));
    assert_eq!(request.send().status, 502);
    let text = terminal.wait_for("a proxied call failed");
    let line = text.lines().find(|it| it.contains("a proxied call failed")).unwrap();
    assert!(line.contains("WARN") && line.contains("firewall"), "{line}");
    assert!(!line.contains("{\""), "{line}");
}

/// The variables of the guides may be set in the shell of a server.
#[test]
fn variables_of_clients_cause_no_warning() {
    let process = ProcessHarness::initialized(SCRIP)
        .with_variable("SCRIP_URL", "http://127.0.0.1:4242")
        .with_variable("SCRIP_KEY", "key_test_us_pvt_0123456789abcdefghij");
    let output = process.run(&["tenant", "list"]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
