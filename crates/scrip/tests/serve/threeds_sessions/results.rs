//! The listener for results of production: who is let in, and to what.

use std::{fs, net::SocketAddr, process::Command, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use scrip_testing::process::harness::{RunningServer, becomes_true};
use scrip_threeds::message::MESSAGE_BYTES_MAX;
use serde_json::Value;
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

/// Posts to the listener, showing what the client has to show; nothing when it is not let in.
pub(crate) fn post_result(
    harness: &SchemesHarness,
    server: &RunningServer,
    client: Arc<ClientConfig>,
    request: Request<Full<Bytes>>,
) -> Option<ResultsResponse> {
    let address: SocketAddr = server.results.as_ref()?.strip_prefix("https://")?.parse().ok()?;
    let asking = async {
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
    harness.runtime.block_on(async { timeout(TIMEOUT, asking).await.expect("in time") })
}

pub(crate) fn build_request(method: &str, path: &str, body: Vec<u8>) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("host", "results.example");
    request.body(Full::new(body.into())).unwrap()
}

#[test]
fn results_listener_accepts_only_certificates_of_connected_schemes() {
    let connected = SchemesHarness::new();
    let server = connected.process.serve();
    connected.process.wait_for_log("the vault is open");
    let garbage = || build_request("POST", RESULT_PATH, b"not JSON".to_vec());
    for (authority, _) in &connected.schemes {
        let shown = authority.issue("sender", &["ds.example"]);
        let client = connected.own_authority.client_config(Some(&shown));
        let response = post_result(&connected, &server, client, garbage()).expect("it is let in");
        assert_eq!(
            (response.status, response.content_type.as_str()),
            (200, "application/json; charset=utf-8")
        );
        assert_eq!(
            (&response.body["messageType"], &response.body["errorCode"]),
            (&"Erro".into(), &"101".into())
        );
    }
    let of_nobody = connected.own_authority.issue("sender", &["ds.example"]);
    for shown in [None, Some(&of_nobody)] {
        let client = connected.own_authority.client_config(shown);
        assert!(post_result(&connected, &server, client, garbage()).is_none(), "{shown:?}");
    }
    connected.process.wait_for_log("nobody vouches for who came with a result");
    assert_eq!(SCHEMES.len(), connected.schemes.len());
}

#[test]
fn results_subject_limits_the_accepted_certificates() {
    let connected = SchemesHarness::new();
    let settings = connected.process.path("scrip.toml");
    let pin = "[threeds.production.visa]\nresults_subject = \"ds.visa.example\"\n";
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("[threeds.production.visa]\n", pin)).unwrap();
    let server = connected.process.serve();
    connected.process.wait_for_log("the vault is open");
    let (visa, mastercard) = (&connected.schemes[0].0, &connected.schemes[1].0);
    let status = |authority: &scrip_testing::directory_server::authority::CertificateAuthority,
                  name: &str| {
        let client =
            connected.own_authority.client_config(Some(&authority.issue("sender", &[name])));
        let garbage = build_request("POST", RESULT_PATH, b"not JSON".to_vec());
        post_result(&connected, &server, client, garbage).map(|it| it.status)
    };
    assert_eq!(status(visa, "ds.visa.example"), Some(200));
    assert_eq!(status(visa, "merchant.example"), None);
    // Another scheme has no name pinned.
    assert_eq!(status(mastercard, "merchant.example"), Some(200));
    connected.process.wait_for_log("nobody vouches for who came with a result");
}

#[test]
fn results_listener_has_one_path_and_a_size_limit() {
    let connected = SchemesHarness::new();
    let server = connected.process.serve();
    connected.process.wait_for_log("the vault is open");
    let shown = connected.schemes[0].0.issue("sender", &["ds.example"]);
    let client = connected.own_authority.client_config(Some(&shown));
    let ask = |method: &str, path: &str, body: Vec<u8>| {
        let request = build_request(method, path, body);
        post_result(&connected, &server, Arc::clone(&client), request).expect("an answer").status
    };
    for path in ["/", "/healthz", "/tokens", "/metrics", "/3ds/sessions"] {
        assert_eq!(ask("POST", path, Vec::new()), 404, "{path}");
    }
    assert_eq!(ask("GET", RESULT_PATH, Vec::new()), 405);
    assert_eq!(ask("POST", RESULT_PATH, vec![b' '; MESSAGE_BYTES_MAX + 1]), 413);
    assert_eq!(ask("POST", RESULT_PATH, vec![b' '; MESSAGE_BYTES_MAX]), 200);
}

#[test]
fn sealed_vault_rejects_results() {
    let connected = SchemesHarness::new();
    fs::remove_file(connected.process.data().join("root.key")).unwrap();
    let server = connected.process.serve();
    let shown = connected.schemes[0].0.issue("sender", &["ds.example"]);
    let client = connected.own_authority.client_config(Some(&shown));
    let response =
        post_result(&connected, &server, client, build_request("POST", RESULT_PATH, Vec::new()));
    assert_eq!(response.expect("an answer").status, 503);
}

#[test]
fn results_are_not_rate_limited() {
    let mut connected = SchemesHarness::new();
    connected.process = connected.process.with_variable("SCRIP_LIMITS_MODE", "on");
    connected.process = connected.process.with_variable("SCRIP_LIMITS_ADDRESS", "2/60s block 60s");
    let server = connected.process.serve();
    connected.process.wait_for_log("the vault is open");
    let shown = connected.schemes[0].0.issue("sender", &["ds.example"]);
    let client = connected.own_authority.client_config(Some(&shown));
    for _ in 0..5 {
        let request = build_request("POST", RESULT_PATH, b"not JSON".to_vec());
        let response = post_result(&connected, &server, Arc::clone(&client), request);
        assert_eq!(response.expect("an answer").status, 200);
    }
    // The limit itself is there.
    assert!((0..5).any(|_| server.status("/docs") == 429));
}

#[test]
fn certificate_is_verified_again_for_each_request_of_a_connection() {
    let connected = SchemesHarness::new();
    let server = connected.process.serve();
    connected.process.wait_for_log("the vault is open");
    let (visa, mastercard) = (&connected.schemes[0].0, &connected.schemes[1].0);
    let client =
        connected.own_authority.client_config(Some(&visa.issue("sender", &["ds.example"])));
    let address = server.results.as_ref().unwrap().strip_prefix("https://").unwrap();
    let mut sender = connected.runtime.block_on(async {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(client).connect(name, stream).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    });
    let mut status = || {
        let asking = sender.send_request(build_request("POST", RESULT_PATH, b"not JSON".to_vec()));
        let asked = connected.runtime.block_on(async { timeout(TIMEOUT, asking).await });
        let response = asked.expect("in time").unwrap();
        let status = response.status().as_u16();
        connected.runtime.block_on(response.into_body().collect()).unwrap();
        status
    };
    assert_eq!(status(), 200);
    fs::write(visa.roots_file(), fs::read(mastercard.roots_file()).unwrap()).unwrap();
    let told = Command::new("kill").args(["-HUP", &server.child.id().to_string()]).status();
    assert!(told.unwrap().success());
    assert!(becomes_true(|| {
        let log = connected.process.log();
        let mut lines = log.lines().filter(|it| it.contains("the certificate was read again"));
        lines.any(|it| it.contains("threeds.results"))
    }));
    assert_eq!(status(), 401);
}
