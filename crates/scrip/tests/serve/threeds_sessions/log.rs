//! Data of a payment that must not be in the log.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use scrip_simulator::SimulatorSettings;
use scrip_testing::process::harness::ProcessHarness;
use serde_json::json;

use crate::threeds_sessions::{cards::SandboxShop, schemes::runtime};

const NUMBER: &str = "4200000000000004";
const SECRET_CHARS: usize = 64;

type RecordedBytes = Arc<Mutex<Vec<u8>>>;

/// Starts a proxy between the vault and its directory server that records the traffic.
fn start_recording_proxy(target: SocketAddr) -> (SocketAddr, RecordedBytes) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (proxy_address, recorded) = (listener.local_addr().unwrap(), RecordedBytes::default());
    let recording = Arc::clone(&recorded);
    let forward_connections = move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(target).unwrap());
            let response_streams = (server.try_clone().unwrap(), client.try_clone().unwrap());
            spawn_thread(move || {
                drop(io::copy(&mut &response_streams.0, &mut &response_streams.1))
            });
            let recording = Arc::clone(&recording);
            spawn_thread(move || forward_and_record(&client, &server, &recording));
        }
    };
    spawn_thread(forward_connections);
    (proxy_address, recorded)
}

fn spawn_thread(run: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name("tap".to_owned()).spawn(run).unwrap();
}

fn forward_and_record(mut client: &TcpStream, mut server: &TcpStream, recorded: &RecordedBytes) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = client.read(&mut chunk) {
        recorded.lock().unwrap().extend_from_slice(&chunk[..count]);
        if server.write_all(&chunk[..count]).is_err() {
            return;
        }
    }
}

#[test]
fn card_number_and_results_secret_are_never_logged() {
    let runtime = runtime();
    let simulator = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        scrip_simulator::start(listener, SimulatorSettings::default()).unwrap()
    });
    let (proxy_address, recorded) = start_recording_proxy(simulator.address());
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_THREEDS_SIMULATOR_URL", &format!("http://{proxy_address}"));
    let process = process.with_variable("SCRIP_LOG", "trace");
    let shop = SandboxShop::open(&process);
    let device = json!({
        "browser_color_depth": "24", "browser_javascript_enabled": true,
        "browser_java_enabled": false, "browser_language": "en-US",
        "browser_screen_height": "600", "browser_screen_width": "800", "browser_tz": "0",
        "browser_user_agent": "Browser/1.0",
    });
    let body = json!({"token_intent_id": shop.create_intent(NUMBER), "device_info": device});
    let (_, session) = shop.create_session(&body);
    shop.run_method(&session);
    let id = session["id"].as_str().unwrap();
    let (_, authentication) = shop.authenticate(id, "payment-transaction");
    let page = shop.complete_challenge(id, &authentication);
    assert!(page.contains("successful"), "{page}");

    let recorded = String::from_utf8_lossy(&recorded.lock().unwrap()).into_owned();
    assert!(recorded.contains(NUMBER));
    let (_, secret) = recorded.split_once("/results/").unwrap();
    let secret = &secret[..SECRET_CHARS];
    assert!(secret.bytes().all(|it| it.is_ascii_hexdigit()), "{secret}");
    let log = process.log();
    assert!(
        log.contains("card ranges of Visa"),
        "the log does not contain the card ranges, so this test proves nothing"
    );
    assert!(!log.contains(NUMBER), "the number");
    assert!(!log.contains(secret), "the secret");
}
