//! `scrip migrate`: migrate the PostgreSQL schema to the version of this program.

use scrip_operator::{
    action::{ActionSpec, Recording},
    output::CommandOutput,
};
use scrip_server::{config::Environment, storage::migrate_postgres};
use scrip_store::postgres::MigrationResult;
use serde_json::json;

use crate::commands::{
    arguments::CommonArguments,
    local_action::{KeyUse, LocalAction},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  scrip migrate
  SCRIP_STORAGE_URL=postgres://scrip_owner@db.internal/scrip scrip migrate

Several processes may run this at the same time; only the first one migrates. Stop the servers of the
previous version: they check the schema only when they start. Back up the database first.
The embedded engine needs no command: `scrip serve` migrates its files, which it opens exclusively.";

/// Needs no root key: it moves no data.
pub(crate) fn run(common: &CommonArguments, environment: &Environment) -> anyhow::Result<()> {
    let settings = common.confined_settings(environment)?;
    let Some(postgres) = settings.storage.postgres()? else {
        anyhow::bail!(
            "storage.url is empty; the embedded engine migrates its schema when a server starts"
        );
    };
    let spec = ActionSpec::change("migrate").with_recording(Recording::Success);
    let action = LocalAction::on_files(spec, &settings, KeyUse::Optional);
    common.run_local(&action, async |_| {
        let MigrationResult { from, to } = migrate_postgres(&postgres).await?;
        let text = match from {
            0 => format!("created the schema, version {to}"),
            from if from == to => format!("the schema has version {to} already; nothing to do"),
            from => format!("migrated the schema from version {from} to version {to}"),
        };
        Ok(CommandOutput::new(text, json!({ "from": from, "to": to })))
    })
}
