//! `scrip keys remove`: remove an unlock method.

use scrip_server::{config::Environment, control::protocol::ControlRequest};
use serde_json::{Value, json};

use crate::commands::{CommonArguments, approval::send_change, output::CommandOutput};

pub(super) fn run(
    id: &str,
    common: &CommonArguments,
    environment: &Environment,
) -> anyhow::Result<()> {
    let settings = common.socket_settings(environment)?;
    let request = ControlRequest::RemoveMethod { id: id.to_owned() };
    send_change::<Value>(&settings, common, &request)?;
    let text = format!(
        "removed unlock method {id} and overwrote its row\nIt still opens copies of the database \
         that were made before: backups, replicas, snapshots. If it may be known to others, run: \
         scrip keys rotate vault\n"
    );
    common.print_output(&CommandOutput::new(text, json!({ "removed": id })))
}
