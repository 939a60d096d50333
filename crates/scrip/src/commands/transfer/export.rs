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
    files::atomic_file::{AtomicFile, OnFailure},
    process::clock::SystemClock,
};
use scrip_store::transfer::{
    ExportOptions, ExportResult, ExportSummary, PageBounds, RowKind, TransferError, export,
};
use serde_json::{Value, json};

use crate::commands::{
    CommonArguments,
    output::{self, CommandOutput, format_bytes},
    record_command, runtime,
    transfer::backup::folder_outside_data_dir,
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
    common: CommonArguments,
}

pub(crate) fn run(arguments: &ExportArguments, environment: &Environment) -> anyhow::Result<()> {
    let (at, file) = (&arguments.common, &arguments.file);
    let settings = at.confined_settings(environment)?;
    if settings.storage.url.is_none() {
        settings.existing_data_dir()?;
    }
    let name = file.display();
    let folder = folder_outside_data_dir(file, &settings)?;
    if !arguments.force && fs::symlink_metadata(file).is_ok() {
        bail!("{name} is there already; choose another name, or say --force to replace it");
    }
    let mut draft = AtomicFile::open(file, "export", OnFailure::Keep)?;
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
    let exported = runtime()?.block_on(write_export(&settings, &mut draft, at))?;
    draft
        .rename_into_place(file, &folder)
        .with_context(|| format!("{name} cannot be put in place"))?;
    record("completed")?;
    at.print_output(&report(file, &exported))
}

async fn write_export(
    settings: &Settings,
    temporary: &mut AtomicFile,
    common: &CommonArguments,
) -> anyhow::Result<ExportResult> {
    let mut rows = settings.open_rows().await?;
    let mut progress = common.record_progress("exporting");
    let exporting = ExportOptions {
        program: env!("CARGO_PKG_VERSION"),
        created_at_unix_ms: SystemClock.now().unix_ms,
        bounds: PageBounds::default(),
        report_progress: &mut |it| progress.update(it.rows, it.total),
    };
    let exported = export(&mut *rows, &mut temporary.file, exporting).await;
    let place = temporary.path.display();
    exported.map_err(|error| match error {
        TransferError::VaultChanged => {
            // What is in it is of no vault that there ever was.
            drop(fs::remove_file(&temporary.path));
            anyhow::anyhow!("{error}; stop every server and every command, and export again")
        }
        TransferError::ExportOutdated => {
            anyhow::anyhow!("{place}: {error}; say --force to begin anew")
        }
        TransferError::VaultMissing => anyhow::anyhow!("{error}; run: scrip init"),
        other @ (TransferError::Store(_)
        | TransferError::File(_)
        | TransferError::Damaged { .. }
        | TransferError::Unfinished { .. }
        | TransferError::NotAnExport
        | TransferError::VaultNotEmpty
        | TransferError::OtherImportUnfinished
        | TransferError::ContentMismatch { .. }) => {
            anyhow::Error::new(other).context(format!("{place} could not be made whole"))
        }
    })
}

fn report(file: &Path, exported: &ExportResult) -> CommandOutput {
    let text = format!(
        "{} has {}, in {}; it holds no root key, and no card verification codes",
        file.display(),
        contents_text(&exported.summary),
        format_bytes(exported.bytes)
    );
    let json = json!({
        "file": file,
        "bytes": exported.bytes,
        "resumed_rows": exported.resumed_rows,
        "export": summary_json(&exported.summary),
    });
    CommandOutput::new(text, json)
}

pub(crate) fn contents_text(summary: &ExportSummary) -> String {
    output::holds(summary.count(RowKind::Tenants), summary.count(RowKind::Tokens))
}

pub(crate) fn summary_json(summary: &ExportSummary) -> Value {
    let rows: serde_json::Map<_, _> =
        summary.counts.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    json!({
        "program": summary.info.program,
        "engine": summary.info.engine,
        "schema": summary.info.schema,
        "made_at_unix_ms": summary.info.created_at_unix_ms,
        "rows": rows,
    })
}
