//! `scrip keys dual-control`: on, off, status.

use clap::Subcommand;
use scrip_operator::output::{CommandOutput, format_count};
use scrip_server::{
    config::Environment,
    control::protocol::{ControlRequest, send_request},
    dual_control::DualControlReport,
};
use serde_json::{Value, json};

use crate::commands::{
    approval::send_change,
    arguments::{ApprovedArguments, CommonArguments},
};

pub(super) const EXAMPLES: &str = "\
Examples:
  scrip keys dual-control status
  scrip keys dual-control off

Under dual control, changes of keys, exports, backups and new API keys wait until another user runs
`scrip approve`. Switching it off needs an approval, too.";

#[derive(Debug, Subcommand)]
pub(crate) enum DualControlCommand {
    /// Switch dual control on.
    On {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Switch dual control off, after a second operator has approved it.
    Off {
        #[command(flatten)]
        common: ApprovedArguments,
    },
    /// Show whether dual control is on.
    Status {
        #[command(flatten)]
        common: CommonArguments,
    },
}

pub(super) fn run(command: &DualControlCommand, environment: &Environment) -> anyhow::Result<()> {
    match command {
        DualControlCommand::On { common } => {
            let settings = common.socket_settings(environment)?;
            send_request::<Value>(&settings.control_address(), &ControlRequest::SwitchOn {})?;
            common.print_output(&state_output(true))
        }
        DualControlCommand::Off { common } => {
            let settings = common.socket_settings(environment)?;
            send_change::<Value>(&settings, common.wait, &ControlRequest::SwitchOff {})?;
            common.print_output(&state_output(false))
        }
        DualControlCommand::Status { common } => {
            let settings = common.socket_settings(environment)?;
            let request = ControlRequest::DualControl {};
            let report: DualControlReport = send_request(&settings.control_address(), &request)?;
            common.print_output(&report_output(&report))
        }
    }
}

fn state_output(is_on: bool) -> CommandOutput {
    let word = if is_on { "on" } else { "off" };
    CommandOutput::new(format!("dual control is {word}\n"), json!({ "is_on": is_on }))
}

fn report_output(report: &DualControlReport) -> CommandOutput {
    let word = if report.is_on { "on" } else { "off" };
    let mut text =
        format!("dual control is {word}, {}\n", format_count(report.open_requests, "open request"));
    if report.is_on && !report.is_set {
        text += "keys.dual_control is false. To switch it off, run: scrip keys dual-control off\n";
    }
    if report.is_altered {
        text += "warning: rows of dual control were altered outside the vault and are ignored\n";
    }
    CommandOutput::new(text, json!(report))
}
