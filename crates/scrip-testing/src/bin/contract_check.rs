//! `contract-check ARGUMENT…` runs the program in `SCRIP_CONTRACT_CHECK_PROGRAM` and checks each of
//! its responses against the OpenAPI document that it serves.
//!
//! The program gets these arguments, and its clients get the address of a recording proxy.
//! `contract-check` ends with the status of the program, or with 1 if a response is not in the
//! document. It writes the number of responses and the undocumented responses to the file
//! `SCRIP_CONTRACT_CHECK_REPORT`.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command for tests that panics if a requirement is missing"
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

/// The demo shop and the metrics are not part of the API.
const UNDOCUMENTED: &[&str] = &["/demo", "/metrics"];

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("create a runtime");
    let termination_signal = runtime.block_on(async { signal(SignalKind::terminate()) });
    let listener = RecorderListener::new();
    let url = format!("http://{}", listener.address());
    let program =
        env::var_os("SCRIP_CONTRACT_CHECK_PROGRAM").expect("SCRIP_CONTRACT_CHECK_PROGRAM");
    let mut command = Command::new(program);
    // A browser that returns from a bank also uses the address of the recorder.
    command.args(env::args_os().skip(1)).env("SCRIP_THREEDS_PUBLIC_URL", &url);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("start the program");
    let mut stdout = BufReader::new(child.stdout.take().expect("the output is piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("read the output of the program");
    let ready_message: Value = serde_json::from_str(&line).expect("its first line is JSON");
    let program_url = ready_message["url"].as_str().expect("a URL in the ready message");
    let server = program_url.strip_prefix("http://").and_then(|it| it.parse().ok());
    let server: SocketAddr = server.expect("the local address");
    let recorder = listener.forward(server);
    // The address of the demo page in this line is also replaced.
    print!("{}", line.replace(program_url, &url));
    let copy_output = move || io::copy(&mut stdout, &mut io::stdout());
    let output_thread =
        Builder::new().name("output".to_owned()).spawn(copy_output).expect("start a thread");
    runtime.block_on(wait_for_termination(termination_signal.expect("a signal"), &mut child));
    let undocumented_count = check_exchanges(&recorder, server);
    let status = terminate_program(&mut child);
    drop(output_thread.join());
    ExitCode::from(if status == 0 && undocumented_count > 0 { 1 } else { status })
}

/// Waits for SIGTERM. A program that ends before the signal is an error.
async fn wait_for_termination(mut termination_signal: Signal, child: &mut Child) {
    let mut ticks = interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            _ = termination_signal.recv() => return,
            _ = ticks.tick() => {
                let exit_status = child.try_wait().expect("poll the program");
                assert!(exit_status.is_none(), "ended before the signal: {exit_status:?}");
            }
        }
    }
}

/// Sends SIGTERM and returns the exit status of the program.
fn terminate_program(child: &mut Child) -> u8 {
    let kill_status = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
    assert!(kill_status.is_ok_and(|it| it.success()), "send SIGTERM to the program");
    let status = child.wait().expect("wait for the process to end");
    status.code().and_then(|it| u8::try_from(it).ok()).unwrap_or(1)
}

/// Reports each response that is not in the document once, and returns the number of these
/// responses.
fn check_exchanges(recorder: &Recorder, server: SocketAddr) -> usize {
    let contract = Contract::new(Box::leak(Box::new(fetch_document(server))), UNDOCUMENTED);
    let exchanges = recorder.exchanges();
    let differences: BTreeSet<_> =
        exchanges.iter().filter_map(|it| contract.check(it).err()).collect();
    let mut report = env::var_os("SCRIP_CONTRACT_CHECK_REPORT").map(|file| {
        File::options().create(true).append(true).open(file).expect("open the report file")
    });
    let mut report_line = |line: &str| {
        eprintln!("{line}");
        drop(report.as_mut().map(|it| writeln!(it, "{line}")));
    };
    for it in &differences {
        report_line(&format!("not in the document: {it}"));
    }
    report_line(&format!("{} responses checked against the document", exchanges.len()));
    differences.len()
}

fn fetch_document(server: SocketAddr) -> Value {
    let request = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(server).expect("connect to the server");
    stream.write_all(request.as_bytes()).expect("send the request");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("read the response");
    let exchange = http1::parse_exchanges(request.as_bytes(), &response).pop().expect("a response");
    serde_json::from_str(&exchange.body).expect("a document")
}
