//! The demo checkout exists in `scrip dev` and not in `scrip serve`.

mod print_webhooks;
mod request_lines;

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use scrip_testing::process::harness::ProcessHarness;

const PATHS: [(&str, &str); 6] = [
    ("GET", "/demo"),
    ("GET", "/demo/"),
    ("GET", "/demo/checkout.js"),
    ("GET", "/demo/settings"),
    ("POST", "/demo/authenticate"),
    ("POST", "/demo/challenge-result"),
];

#[test]
fn serve_has_no_demo() {
    let (process, _) = ProcessHarness::with_api_key(crate::SCRIP);
    let dev = process.start(&["dev", "--json"]);
    for (method, path) in PATHS {
        let expected = if method == "GET" { 200 } else { 400 };
        assert_eq!(dev.send(method, path).status, expected, "{path}");
    }
    assert_eq!(dev.send("GET", "/demo").headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(dev.send("POST", "/demo").status, 405);
    drop(dev);
    // `scrip serve` uses the same vault with the same keys.
    let server = process.serve();
    process.wait_for_log("the vault is open");
    for (method, path) in PATHS {
        assert_eq!(server.send(method, path).status, 404, "{path}");
    }
    // Both commands serve the frames of the SDK.
    assert_eq!(server.status("/pages/challenge.html"), 200);
}

#[test]
fn dev_prints_the_demo_url() {
    let output = startup_output(&["dev"]);
    let url = output.split_whitespace().find(|it| it.starts_with("http://")).unwrap();
    assert!(output.contains(&format!("Open {url}/demo in a browser")), "{output}");
    assert!(output.contains("by the simulator at http://127.0.0.1:"), "{output}");
}

/// Starts the command and returns its output before the line about the first token.
fn startup_output(arguments: &[&str]) -> String {
    let process = ProcessHarness::new(crate::SCRIP);
    let mut child =
        process.command(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let output: Vec<_> = lines.take_while(|it| !it.contains("Your first token")).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    output.join("\n")
}

#[test]
fn demo_is_disabled_on_public_addresses() {
    let output = startup_output(&["dev", "--listen", "0.0.0.0:0", "--plain-http"]);
    assert!(output.contains("No demo shop: it is served on a loopback address only"), "{output}");
    assert!(!output.contains("/demo"), "{output}");
    let process = ProcessHarness::new(crate::SCRIP);
    let dev = process.start(&["dev", "--json", "--listen", "0.0.0.0:0", "--plain-http"]);
    for (method, path) in PATHS {
        assert_eq!(dev.send(method, path).status, 404, "{path}");
    }
}

/// A malicious page can resolve its own name to this address. The browser then sends that name as
/// host.
#[test]
fn demo_rejects_foreign_host_names() {
    let process = ProcessHarness::new(crate::SCRIP);
    let dev = process.start(&["dev", "--json"]);
    let post_status = |host: &str, path: &str| {
        let request = dev.request("GET", path).header("host", host);
        let request = request.header("origin", format!("http://{host}"));
        request.header("sec-fetch-site", "same-origin").send().status
    };
    let port = dev.address.port();
    for path in ["/demo", "/demo/checkout.js", "/demo/settings"] {
        assert_eq!(post_status(&format!("127.0.0.1:{port}"), path), 200, "{path}");
        assert_eq!(post_status(&format!("localhost:{port}"), path), 200, "{path}");
        assert_eq!(post_status(&format!("evil.example:{port}"), path), 404, "{path}");
    }
}
