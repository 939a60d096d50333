//! The shipped `scrip simulator` command.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use scrip_testing::{process, requests::http_client::BlockingClient};
use serde_json::{Value, json};

struct SimulatorProcess(Child);

impl Drop for SimulatorProcess {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn simulator_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(crate::SCRIP);
    command.arg("simulator").args(arguments).stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
fn simulator_command_serves_until_sigterm() {
    let mut command = simulator_command(&["--listen", "127.0.0.1:0", "--json"]);
    let mut child = SimulatorProcess(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready_message: Value = serde_json::from_str(&line).unwrap();
    let url = format!("{}/sim/ds/visa", ready_message["url"].as_str().unwrap());
    let request = json!({
        "messageType": "PReq", "messageVersion": "2.2.0", "threeDSServerRefNumber": "ref",
        "threeDSServerTransID": "8a880dc0-d2d2-4067-bcb1-b08d1690b26e",
    });
    let response = BlockingClient::default().post(&url).json(&request).send();
    let response = response.expect_status(200).json();
    assert_eq!((&response["messageType"], &response["serialNum"]), (&json!("PRes"), &json!("1")));
    process::terminate(&child.0);
    let exit_status = process::wait(&mut child.0, Duration::from_secs(60));
    assert!(exit_status.expect("wait for the process to end").success());
}

#[test]
fn simulator_command_reports_invalid_arguments() {
    for (arguments, expected) in [
        (["--base-url", "http://sim.example/"], "the base URL must be"),
        (["--trusted-roots", "/nowhere"], "cannot read /nowhere"),
        (["--listen", "192.0.2.1:1"], "cannot listen on 192.0.2.1:1"),
    ] {
        let mut all_arguments = vec!["--listen", "127.0.0.1:0"];
        if arguments[0] == "--listen" {
            all_arguments.clear();
        }
        all_arguments.extend(arguments);
        let output = simulator_command(&all_arguments).stdout(Stdio::null()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(expected), "{stderr}");
    }
}
