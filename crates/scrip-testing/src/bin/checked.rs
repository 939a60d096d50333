//! `checked ARGUMENT…`: stands for the program `SCRIP_CHECKED_PROGRAM`, and checks each response of it
//! against the OpenAPI document that it serves.
//!
//! The program is started with these arguments, and its clients are told the address of a recorder
//! before it. Ends as the program ends; with 1 when a response is not in the document. `SCRIP_CHECKED_REPORT`
//! is a file to which it says how many responses there were, and which were wrong.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command for tests, which says what it lacks and ends"
)]

use std::{
    collections::BTreeSet,
    env,
    fs::File,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, ExitCode, Stdio},
    thread::Builder,
    time::Duration,
};

use scrip_testing::contract::{
    Contract, http1,
    recorder::{Recorder, RecorderListener},
};
use serde_json::Value;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::interval,
};

/// The demo shop and the metrics are not part of the interface.
const UNDOCUMENTED: &[&str] = &["/demo", "/metrics"];

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let terminated = runtime.block_on(async { signal(SignalKind::terminate()) });
    let waiting = RecorderListener::new();
    let url = format!("http://{}", waiting.address());
    let program = env::var_os("SCRIP_CHECKED_PROGRAM").expect("SCRIP_CHECKED_PROGRAM");
    let mut command = Command::new(program);
    // Browsers that come back from a bank come by the recorder, too.
    command.args(env::args_os().skip(1)).env("SCRIP_THREEDS_PUBLIC_URL", &url);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("it was piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("its output can be read");
    let hello: Value = serde_json::from_str(&line).expect("its first line is JSON");
    let own_url = hello["url"].as_str().expect("its URL");
    let server = own_url.strip_prefix("http://").and_then(|it| it.parse().ok());
    let server: SocketAddr = server.expect("its address");
    let recorder = waiting.forward(server);
    // The page of the demo is at the same address.
    print!("{}", line.replace(own_url, &url));
    let passing = move || io::copy(&mut stdout, &mut io::stdout());
    let passing = Builder::new().name("output".to_owned()).spawn(passing).expect("a thread");
    runtime.block_on(wait_for_termination(terminated.expect("a signal"), &mut child));
    let wrong = check_exchanges(&recorder, server);
    let status = terminate_program(&mut child);
    drop(passing.join());
    ExitCode::from(if status == 0 && wrong > 0 { 1 } else { status })
}

/// A program that ends by itself is an error, which leaves nothing to check.
async fn wait_for_termination(mut terminated: Signal, child: &mut Child) {
    let mut ticks = interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            _ = terminated.recv() => return,
            _ = ticks.tick() => {
                let ended = child.try_wait().expect("it can be asked");
                assert!(ended.is_none(), "the program ended by itself: {ended:?}");
            }
        }
    }
}

/// SIGTERM, and what the program ends with.
fn terminate_program(child: &mut Child) -> u8 {
    let told = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
    assert!(told.is_ok_and(|it| it.success()), "it can be told to end");
    let status = child.wait().expect("it ends");
    status.code().and_then(|it| u8::try_from(it).ok()).unwrap_or(1)
}

/// How many responses are not in the document, each told once.
fn check_exchanges(recorder: &Recorder, server: SocketAddr) -> usize {
    let contract = Contract::new(Box::leak(Box::new(fetch_document(server))), UNDOCUMENTED);
    let exchanges = recorder.exchanges();
    let wrong: BTreeSet<_> = exchanges.iter().filter_map(|it| contract.check(it).err()).collect();
    let mut report = env::var_os("SCRIP_CHECKED_REPORT").map(|file| {
        File::options().create(true).append(true).open(file).expect("a file for the report")
    });
    let mut tell = |line: &str| {
        eprintln!("{line}");
        drop(report.as_mut().map(|it| writeln!(it, "{line}")));
    };
    for it in &wrong {
        tell(&format!("not in the document: {it}"));
    }
    tell(&format!("{} responses checked against the document", exchanges.len()));
    wrong.len()
}

fn fetch_document(server: SocketAddr) -> Value {
    let request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(server).expect("the server is there");
    stream.write_all(request.as_bytes()).expect("it hears");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("it answers");
    let exchange = http1::exchanges(request.as_bytes(), &response).pop().expect("a response");
    serde_json::from_str(&exchange.body).expect("a document")
}
