//! `scrip migrate`: PostgreSQL's schema, brought up to what this program needs.

use scrip_server::{config::Environment, storage::migrate_postgres};
use scrip_store::postgres::MigrationResult;
use serde_json::json;

use crate::commands::{CommonArguments, output::CommandOutput, record_if_key_present, runtime};

pub(crate) const EXAMPLES: &str = "\
Examples:
  scrip migrate
  SCRIP_STORAGE_URL=postgres://scrip_owner@db.internal/scrip scrip migrate

Any number may run at once: the first one does it. Stop the servers of the version before: they look at
the schema only when they start. Back up the database first.
The embedded engine needs none of this: `scrip serve` does it, on files that nobody else has open.";

/// Needs no root key: it moves no data.
pub(crate) fn run(common: &CommonArguments, environment: &Environment) -> anyhow::Result<()> {
    let settings = common.confined_settings(environment)?;
    let Some(postgres) = settings.storage.postgres()? else {
        anyhow::bail!(
            "storage.url is empty, and the embedded engine brings its schema up to date by itself, \
             when a server starts"
        );
    };
    let MigrationResult { from, to } = runtime()?.block_on(async {
        let migrated = migrate_postgres(&postgres).await?;
        // A schema that was just made has no vault yet.
        if migrated.from > 0 {
            record_if_key_present(&settings, "migrate").await;
        }
        anyhow::Ok(migrated)
    })?;
    let text = match from {
        0 => format!("made the schema, version {to}"),
        from if from == to => format!("the schema is version {to} already; nothing to do"),
        from => format!("the schema was version {from}, and is version {to} now"),
    };
    common.print_output(&CommandOutput::new(text, json!({ "from": from, "to": to })))
}
