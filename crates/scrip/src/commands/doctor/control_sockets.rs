//! Check of the control sockets: whether the server can create them.

use scrip_server::{config::Settings, control::socket_check};

use crate::commands::doctor::finding::{Finding, failed, passed, warning};

const CHECK: &str = "control socket";

pub(super) fn check_sockets(settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    // A missing data directory is a finding of its own.
    if settings.check_data_dir().is_ok()
        && let Err(error) = socket_check::check_private(settings)
    {
        let message = format!(
            "{error:#}. Without this socket, commands such as scrip status and scrip keys do not \
             find the server"
        );
        findings.push(warning(CHECK, message));
    }
    match (&settings.server.control_socket, &settings.server.control_group) {
        (Some(path), Some(group)) => {
            if let Err(error) = socket_check::check_shared(path, group) {
                findings.push(failed(CHECK, format!("server.control_socket: {error:#}")));
            }
        }
        (Some(_), None) => {
            let message = "server.control_socket is not created: set server.control_group";
            findings.push(warning(CHECK, message));
        }
        (None, _) => (),
    }
    if findings.is_empty() {
        findings.push(passed(CHECK, "the server can create it"));
    }
    findings
}
