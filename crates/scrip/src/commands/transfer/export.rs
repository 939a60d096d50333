//! `scrip export`: a vault that nobody serves, in a file from which another engine can take it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::Args;
use scrip_core::time::Clock;
use scrip_server::{
    config::{Environment, Settings},
    files::atomic_file::{Draft, WhenBroken},
    process::clock::SystemClock,
};
use scrip_store::transfer::{Bounds, Exported, Exporting, Kind, MoveError, Summary, export};
use serde_json::{Value, json};

use crate::commands::{
    Where,
    output::{self, Said, bytes},
    record_command, runtime,
    transfer::backup::outside,
};

const EXAMPLES: &str = "\
Examples:
  scrip export /mnt/move/vault
  SCRIP_STORAGE_URL=postgres://scrip@db.internal/scrip scrip export /mnt/move/vault

Stop every server first: a vault that changes meanwhile is not exported. An export that was broken
off is gone on with by the same command. The file holds no root key, and no token in it can be read
without one. Card verification codes are never in it.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArguments {
    /// The file to make, outside of the data directory.
    file: PathBuf,
    /// Begin anew, and replace a file that is there once the new one is whole.
    #[arg(long)]
    force: bool,
    /// Go without the root key: the audit trail then has no record of this export.
    #[arg(long)]
    without_key: bool,
    #[command(flatten)]
    at: Where,
}

pub(crate) fn run(arguments: &ExportArguments, environment: &Environment) -> anyhow::Result<()> {
    let (at, file) = (&arguments.at, &arguments.file);
    let settings = at.confined(environment)?;
    if settings.storage.url.is_none() {
        settings.folder()?;
    }
    let name = file.display();
    let folder = outside(file, &settings)?;
    if !arguments.force && fs::symlink_metadata(file).is_ok() {
        bail!("{name} is there already; choose another name, or say --force to replace it");
    }
    let mut draft = Draft::open(file, "export", WhenBroken::Keep)?;
    if arguments.force {
        draft.file.set_len(0)?;
    }
    let record = |outcome| match arguments.without_key {
        true => Ok(()),
        false => runtime()?.block_on(record_command(&settings, "export", outcome)),
    };
    // Not when an export goes on: a vault that has one more record is another one.
    if draft.file.metadata()?.len() == 0 {
        record("started")?;
    }
    let exported = runtime()?.block_on(write(&settings, &mut draft, at))?;
    draft.take_place(file, &folder).with_context(|| format!("{name} cannot be put in place"))?;
    record("completed")?;
    at.say(&report(file, &exported))
}

async fn write(settings: &Settings, draft: &mut Draft, at: &Where) -> anyhow::Result<Exported> {
    let mut rows = settings.open_rows().await?;
    let mut progress = at.progress_of_records("exporting");
    let exporting = Exporting {
        program: env!("CARGO_PKG_VERSION"),
        made_at_unix_ms: SystemClock.now().unix_ms,
        bounds: Bounds::default(),
        watch: &mut |it| progress.tell(it.rows, it.all),
    };
    let exported = export(&mut *rows, &mut draft.file, exporting).await;
    let place = draft.path.display();
    exported.map_err(|error| match error {
        MoveError::Changed => {
            // What is in it is of no vault that there ever was.
            drop(fs::remove_file(&draft.path));
            anyhow::anyhow!("{error}; stop every server and every command, and export again")
        }
        MoveError::ChangedBefore => {
            anyhow::anyhow!("{place}: {error}; say --force to begin anew")
        }
        MoveError::NoVault => anyhow::anyhow!("{error}; run: scrip init"),
        other @ (MoveError::Store(_)
        | MoveError::File(_)
        | MoveError::Damaged { .. }
        | MoveError::Unfinished { .. }
        | MoveError::NoExport
        | MoveError::NotEmpty
        | MoveError::AnotherFile
        | MoveError::Differs { .. }) => {
            anyhow::Error::new(other).context(format!("{place} could not be made whole"))
        }
    })
}

fn report(file: &Path, exported: &Exported) -> Said {
    let text = format!(
        "{} has {}, in {}; it holds no root key, and no card verification codes",
        file.display(),
        holds(&exported.summary),
        bytes(exported.bytes)
    );
    let json = json!({
        "file": file,
        "bytes": exported.bytes,
        "resumed_rows": exported.resumed_rows,
        "export": told(&exported.summary),
    });
    Said::new(text, json)
}

pub(crate) fn holds(summary: &Summary) -> String {
    output::holds(summary.count(Kind::Tenants), summary.count(Kind::Tokens))
}

pub(crate) fn told(summary: &Summary) -> Value {
    let rows: serde_json::Map<_, _> =
        summary.counts.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    json!({
        "program": summary.about.program,
        "engine": summary.about.engine,
        "schema": summary.about.schema,
        "made_at_unix_ms": summary.about.made_at_unix_ms,
        "rows": rows,
    })
}
