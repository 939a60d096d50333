//! What the log of a whole payment does not have in it.

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

/// Stands between the vault and its directory server, and listens.
fn start_recording_proxy(to: SocketAddr) -> (SocketAddr, RecordedBytes) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, heard) = (listener.local_addr().unwrap(), RecordedBytes::default());
    let hearing = Arc::clone(&heard);
    let relay = move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(to).unwrap());
            let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
            spawn_thread(move || drop(io::copy(&mut &back.0, &mut &back.1)));
            let hearing = Arc::clone(&hearing);
            spawn_thread(move || forward_and_record(&near, &far, &hearing));
        }
    };
    spawn_thread(relay);
    (at, heard)
}

fn spawn_thread(work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name("tap".to_owned()).spawn(work).unwrap();
}

fn forward_and_record(mut near: &TcpStream, mut far: &TcpStream, recorded: &RecordedBytes) {
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = near.read(&mut piece) {
        recorded.lock().unwrap().extend_from_slice(&piece[..count]);
        if far.write_all(&piece[..count]).is_err() {
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
    let (at, heard) = start_recording_proxy(simulator.address());
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_THREEDS_SIMULATOR_URL", &format!("http://{at}"));
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
    let (_, told) = shop.authenticate(id, "payment-transaction");
    let page = shop.complete_challenge(id, &told);
    assert!(page.contains("successful"), "{page}");

    let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
    assert!(heard.contains(NUMBER));
    let (_, secret) = heard.split_once("/results/").unwrap();
    let secret = &secret[..SECRET_CHARS];
    assert!(secret.bytes().all(|it| it.is_ascii_hexdigit()), "{secret}");
    let log = process.log();
    assert!(log.contains("card ranges of Visa"), "it is logged at all");
    assert!(!log.contains(NUMBER), "the number");
    assert!(!log.contains(secret), "the secret");
}
