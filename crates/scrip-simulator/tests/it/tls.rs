//! Results to a 3DS server with TLS.

use std::{io::Write as _, sync::Arc, time::Duration};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};

use crate::harness::{SimulatorHarness, acs_path, creq, merge, settings_with_long_timers};

const CARD: &str = "4200000000000004";

/// Accepts one TLS connection and returns its first message, or `None`.
fn start_tls_server(
    key: &CertifiedKey<rcgen::KeyPair>,
) -> (String, std::sync::mpsc::Receiver<Option<Value>>) {
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private)
        .unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/results", listener.local_addr().unwrap().port());
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("3ds-server".to_owned());
    thread
        .spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let connection = rustls::ServerConnection::new(Arc::new(config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            drop(sender.send(read_message(&mut stream)));
        })
        .unwrap();
    (url, receiver)
}

fn read_message(stream: &mut (impl std::io::Read + std::io::Write)) -> Option<Value> {
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk).ok().filter(|it| *it > 0)?;
        text.extend_from_slice(&chunk[..count]);
        let text_so_far = String::from_utf8_lossy(&text).into_owned();
        let body = text_so_far.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        if let Some(message) = body.and_then(|it| serde_json::from_str(&it).ok()) {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            return Some(message);
        }
    }
}

fn result_over_tls(trusted: bool) -> Option<Value> {
    let key = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (url, receiver) = start_tls_server(&key);
    let mut settings = settings_with_long_timers();
    if trusted {
        write!(settings.trusted_roots, "{}", key.cert.pem()).unwrap();
    }
    let harness = SimulatorHarness::with_settings(settings);
    let request = merge(harness.areq(CARD), &json!({ "threeDSServerURL": url }));
    let ares = harness.send_message("visa", &request);
    harness.post_form(&acs_path(&ares), &[("creq", &creq(&ares))]);
    let last = harness.press_button(&ares, &[("action", "submit"), ("code", "1234")]);
    assert_eq!(last.decode_field("cres")["transStatus"], "Y", "the browser always returns");
    receiver.recv_timeout(Duration::from_secs(60)).unwrap()
}

#[test]
fn trusted_tls_server_receives_the_result() {
    assert_eq!(result_over_tls(true).unwrap()["transStatus"], "Y");
}

#[test]
fn untrusted_tls_server_receives_no_result() {
    assert!(result_over_tls(false).is_none());
}
