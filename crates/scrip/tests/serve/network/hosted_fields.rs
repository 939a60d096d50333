//! Hosted fields of the real program: the setting of their origin, `scrip dev` and `scrip doctor`.

use hyper::Request;
use scrip_testing::process::harness::ProcessHarness;
use serde_json::Value;

use crate::network::{
    tls::runtime,
    tls_client::{body_text, channel_body, connect, create_certificate, send, with_tls},
};

const SCRIPT: &str = "/elements/client.js";

#[test]
fn serve_needs_a_setting_and_uses_the_host_of_its_origin() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    let server = process.serve();
    process.wait_for_log("the vault is open");
    let response = server.send("GET", SCRIPT);
    assert_eq!(response.status, 404);
    assert!(response.text().contains("elements.origin"), "{}", response.text());
    drop(server);
    std::fs::remove_file(process.path("log")).unwrap();
    let process = process.with_variable("SCRIP_ELEMENTS_ORIGIN", "https://fields.example");
    let server = process.serve();
    process.wait_for_log("the vault is open");
    let status =
        |host: &str, path: &str| server.request("GET", path).header("Host", host).send().status;
    assert_eq!(status("fields.example", SCRIPT), 200);
    assert_eq!(status("fields.example", "/api/openapi.json"), 200);
    let response =
        server.request("GET", "/without-a-route").header("Host", "fields.example").send();
    assert!(response.text().contains("below /api"), "{}", response.text());
    assert_eq!(status("vault.example", SCRIPT), 404);
    assert_eq!(status("vault.example", "/openapi.json"), 200);
    assert_eq!(status("127.0.0.1", SCRIPT), 404);
}

#[test]
fn head_of_a_script_or_an_error_has_a_length_and_no_body_with_both_http_versions() {
    let process = with_tls(ProcessHarness::initialized(crate::SCRIP))
        .with_variable("SCRIP_ELEMENTS_ORIGIN", "https://localhost");
    let certificate = create_certificate(&process);
    let server = process.serve();
    process.wait_for_log("the vault is open");
    let paths = [(SCRIPT, 200), ("/elements/0123456789abcdef/client.js", 404), ("/none", 404)];
    for (protocol, (path, expected)) in
        ["http/1.1", "h2"].into_iter().flat_map(|it| paths.map(|path| (it, path)))
    {
        let request = |method: &str| {
            let uri = if protocol == "h2" { "https://localhost" } else { "" };
            let request = Request::builder().method(method).uri(format!("{uri}{path}"));
            let (sender, body) = channel_body();
            drop(sender);
            request.header("host", "localhost").body(body).unwrap()
        };
        runtime().block_on(async {
            let exchange = async |method| {
                let stream = connect(server.address, &certificate, protocol).await.unwrap();
                let response = send(stream, request(method)).await.unwrap();
                let length = response.headers()["content-length"].to_str().unwrap().to_owned();
                (response.status().as_u16(), length, body_text(response).await.len())
            };
            let (status, length, body_length) = exchange("GET").await;
            assert_eq!(
                (status, &length),
                (expected, &body_length.to_string()),
                "{protocol} {path}"
            );
            // The trace id of an error is part of its body.
            let (status, head_length, body_length) = exchange("HEAD").await;
            assert_eq!((status, body_length), (expected, 0), "{protocol} {path}");
            assert_eq!(head_length.len(), length.len(), "{protocol} {path}");
        });
    }
}

#[test]
fn origin_on_the_host_of_the_api_is_rejected_at_start() {
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_ELEMENTS_ORIGIN", "https://vault.example")
        .with_variable("SCRIP_THREEDS_PUBLIC_URL", "https://vault.example");
    process.assert_fails(&["serve"], "elements.origin: must have another host");
}

#[test]
fn dev_serves_fields_on_loopback_hosts_without_a_setting() {
    let process = ProcessHarness::new(crate::SCRIP);
    let server = process.start(&["dev", "--json"]);
    for path in [SCRIPT, "/api/openapi.json", "/openapi.json"] {
        assert_eq!(server.status(path), 200, "{path}");
    }
    let doctor_text = || String::from_utf8(process.run(&["doctor"]).stdout).unwrap();
    let text = doctor_text();
    let served = "served on loopback hosts by the running scrip dev: http://127.0.0.1:";
    assert!(text.contains(served) && !text.contains("off in scrip serve"), "{text}");
    drop(server);
    let text = doctor_text();
    assert!(text.contains("off in scrip serve") && !text.contains(served), "{text}");
}

#[test]
fn doctor_prints_the_script_tag_of_the_release() {
    let find_check = |process: &ProcessHarness| -> Value {
        let report: Value =
            serde_json::from_slice(&process.run(&["doctor", "--json"]).stdout).unwrap();
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|it| it["check"] == "hosted fields").unwrap().clone()
    };
    let process = ProcessHarness::initialized(crate::SCRIP);
    assert_eq!(find_check(&process)["verdict"], "passed");
    let process = process.with_variable("SCRIP_ELEMENTS_ORIGIN", "https://fields.example");
    assert_eq!(find_check(&process)["verdict"], "warning");
    let process = process.with_variable("SCRIP_LIMITS_TRUSTED_PROXIES", "10.0.0.0/8");
    let check = find_check(&process);
    assert_eq!(check["verdict"], "passed");
    let message = check["message"].as_str().unwrap();
    assert!(message.contains("<script src=\"https://fields.example/elements/"), "{message}");
    assert!(message.contains("integrity=\"sha384-"), "{message}");
}
