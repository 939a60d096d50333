//! The listener for production results: accepted certificates and paths.

use std::{fs, net::SocketAddr, process::Command, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use scrip_testing::{
    process::harness::{RunningServer, becomes_true},
    requests::assert_members,
};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use crate::{
    network::tls_client::TIMEOUT,
    threeds_sessions::schemes::{SCHEMES, SchemesHarness},
};

const RESULT_PATH: &str = "/3ds/sessions/6fa459ea-ee8a-4ca4-894e-db77e160355e/results/secret";

#[derive(Debug)]
pub(crate) struct ResultsResponse {
    pub(crate) status: u16,
    content_type: String,
    pub(crate) body: Value,
}

/// Posts to the listener with this TLS configuration. Returns `None` if the connection is rejected.
pub(crate) fn post_result(
    harness: &SchemesHarness,
    server: &RunningServer,
    client: Arc<ClientConfig>,
    request: Request<Full<Bytes>>,
) -> Option<ResultsResponse> {
    let address: SocketAddr = server.results.as_ref()?.strip_prefix("https://")?.parse().ok()?;
    let exchange = async {
        let stream = TcpStream::connect(address).await.ok()?;
        let name = ServerName::try_from("127.0.0.1").ok()?;
        let stream = TlsConnector::from(client).connect(name, stream).await.ok()?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await.ok()?;
        let status = response.status().as_u16();
        let content_type = response.headers().get("content-type")?.to_str().ok()?.to_owned();
        let body = response.into_body().collect().await.ok()?.to_bytes();
        Some(ResultsResponse { status, content_type, body: serde_json::from_slice(&body).ok()? })
    };
    harness.runtime.block_on(async {
        timeout(TIMEOUT, exchange).await.expect("a response before the timeout")
    })
}

pub(crate) fn build_request(method: &str, path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("host", "results.example");
    request.body(Full::new(body.into())).unwrap()
}

#[test]
fn results_listener_accepts_only_certificates_of_connected_schemes() {
    let harness = SchemesHarness::new();
    let server = harness.process.serve();
    harness.process.wait_for_log("the vault is open");
    let invalid_request = || build_request("POST", RESULT_PATH, b"not JSON".to_vec());
    for (authority, _) in &harness.schemes {
        let certificate = authority.issue("sender", &["ds.example"]);
        let client = harness.own_authority.client_config(Some(&certificate));
        let response = post_result(&harness, &server, client, invalid_request())
            .expect("the connection is accepted");
        assert_eq!(
            (response.status, response.content_type.as_str()),
            (200, "application/json; charset=utf-8")
        );
        assert_members(&response.body, &json!({"messageType": "Erro", "errorCode": "101"}));
    }
    let unrelated_certificate = harness.own_authority.issue("sender", &["ds.example"]);
    for certificate in [None, Some(&unrelated_certificate)] {
        let client = harness.own_authority.client_config(certificate);
        let answer = post_result(&harness, &server, client, invalid_request());
        assert!(answer.is_none(), "{certificate:?}");
    }
    harness.process.wait_for_log("TLS handshake failed on the results listener");
    assert_eq!(SCHEMES.len(), harness.schemes.len());
}

#[test]
fn results_subject_limits_the_accepted_certificates() {
    let harness = SchemesHarness::new();
    let settings = harness.process.path("scrip.toml");
    let pinned_section = "[threeds.production.visa]\nresults_subject = \"ds.visa.example\"\n";
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("[threeds.production.visa]\n", pinned_section)).unwrap();
    let server = harness.process.serve();
    harness.process.wait_for_log("the vault is open");
    let (visa, mastercard) = (&harness.schemes[0].0, &harness.schemes[1].0);
    let send_status =
        |authority: &scrip_testing::directory_server::authority::CertificateAuthority,
         name: &str| {
            let client =
                harness.own_authority.client_config(Some(&authority.issue("sender", &[name])));
            let invalid_request = build_request("POST", RESULT_PATH, b"not JSON".to_vec());
            post_result(&harness, &server, client, invalid_request).map(|it| it.status)
        };
    assert_eq!(send_status(visa, "ds.visa.example"), Some(200));
    assert_eq!(send_status(visa, "merchant.example"), None);
    // The other scheme has no pinned name.
    assert_eq!(send_status(mastercard, "merchant.example"), Some(200));
    harness.process.wait_for_log("TLS handshake failed on the results listener");
}

#[test]
fn results_listener_has_one_path_and_a_size_limit() {
    let harness = SchemesHarness::new();
    let server = harness.process.serve();
    harness.process.wait_for_log("the vault is open");
    let certificate = harness.schemes[0].0.issue("sender", &["ds.example"]);
    let client = harness.own_authority.client_config(Some(&certificate));
    let send_status = |method: &str, path: &str, body: Vec<u8>| {
        let request = build_request(method, path, body);
        post_result(&harness, &server, Arc::clone(&client), request).expect("a response").status
    };
    for path in ["/", "/healthz", "/tokens", "/metrics", "/3ds/sessions"] {
        assert_eq!(send_status("POST", path, Vec::new()), 404, "{path}");
    }
    assert_eq!(send_status("GET", RESULT_PATH, Vec::new()), 405);
    assert_eq!(send_status("POST", RESULT_PATH, vec![b' '; MESSAGE_BYTES_MAX + 1]), 413);
    assert_eq!(send_status("POST", RESULT_PATH, vec![b' '; MESSAGE_BYTES_MAX]), 200);
}

#[test]
fn sealed_vault_rejects_results() {
    let harness = SchemesHarness::new();
    fs::remove_file(harness.process.data().join("root.key")).unwrap();
    let server = harness.process.serve();
    let certificate = harness.schemes[0].0.issue("sender", &["ds.example"]);
    let client = harness.own_authority.client_config(Some(&certificate));
    let response =
        post_result(&harness, &server, client, build_request("POST", RESULT_PATH, Vec::new()));
    assert_eq!(response.expect("a response").status, 503);
}

#[test]
fn results_are_not_rate_limited() {
    let mut harness = SchemesHarness::new();
    harness.process = harness.process.with_variable("SCRIP_LIMITS_MODE", "on");
    harness.process = harness.process.with_variable("SCRIP_LIMITS_ADDRESS", "2/60s block 60s");
    let server = harness.process.serve();
    harness.process.wait_for_log("the vault is open");
    let certificate = harness.schemes[0].0.issue("sender", &["ds.example"]);
    let client = harness.own_authority.client_config(Some(&certificate));
    for _ in 0..5 {
        let request = build_request("POST", RESULT_PATH, b"not JSON".to_vec());
        let response = post_result(&harness, &server, Arc::clone(&client), request);
        assert_eq!(response.expect("a response").status, 200);
    }
    // Positive control: the rate limit works for other requests.
    assert!((0..5).any(|_| server.status("/docs") == 429));
}

#[test]
fn certificate_is_verified_again_for_each_request_of_a_connection() {
    let harness = SchemesHarness::new();
    let server = harness.process.serve();
    harness.process.wait_for_log("the vault is open");
    let (visa, mastercard) = (&harness.schemes[0].0, &harness.schemes[1].0);
    let client = harness.own_authority.client_config(Some(&visa.issue("sender", &["ds.example"])));
    let address = server.results.as_ref().unwrap().strip_prefix("https://").unwrap();
    let mut sender = harness.runtime.block_on(async {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(client).connect(name, stream).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    });
    let mut send_status = || {
        let response_future =
            sender.send_request(build_request("POST", RESULT_PATH, b"not JSON".to_vec()));
        let response = harness.runtime.block_on(async { timeout(TIMEOUT, response_future).await });
        let response = response.expect("a response before the timeout").unwrap();
        let status = response.status().as_u16();
        harness.runtime.block_on(response.into_body().collect()).unwrap();
        status
    };
    assert_eq!(send_status(), 200);
    fs::write(visa.roots_file(), fs::read(mastercard.roots_file()).unwrap()).unwrap();
    let signal = Command::new("kill").args(["-HUP", &server.child.id().to_string()]).status();
    assert!(signal.unwrap().success());
    assert!(becomes_true(|| {
        let log = harness.process.log();
        let mut lines = log.lines().filter(|it| it.contains("reloaded the certificate"));
        lines.any(|it| it.contains("threeds.results"))
    }));
    assert_eq!(send_status(), 401);
}
