//! `scrip export`: export a stopped vault to a file that another engine can import.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::Args;
use scrip_core::types::time::Clock;
use scrip_operator::{
    action::{ActionSpec, Recording},
    output::{CommandOutput, format_bytes, holds},
};
use scrip_server::{
    clock::SystemClock,
    config::{Environment, Settings},
    files::atomic_file::{AtomicFile, OnFailure, path_with_suffix},
};
use scrip_store::transfer::{
    ExportOptions, ExportResult, ExportSummary, PageBounds, RowKind, TransferError, export,
};
use serde_json::{Value, json};

use crate::commands::{
    arguments::{ApprovedArguments, CommonArguments},
    local_action::{KeyUse, LocalAction, is_on_without_key},
    runtime,
    transfer::backup::folder_outside_data_dir,
};

const EXAMPLES: &str = "\
Examples:
  scrip export /mnt/move/vault
  SCRIP_STORAGE_URL=postgres://scrip@db.internal/scrip scrip export /mnt/move/vault

Stop every server first: a vault that changes during the export is not exported. To resume an
interrupted export, run the same command again. The file does not contain the root key, and its tokens
are unreadable without it. An export never contains CVCs.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArguments {
    /// Export file to create, outside the data directory.
    file: PathBuf,
    /// Start again, and replace an existing file after the new one is complete.
    #[arg(long)]
    force: bool,
    /// Run without the root key; the audit log then has no record of this export.
    #[arg(long)]
    without_root_key: bool,
    #[command(flatten)]
    common: ApprovedArguments,
}

pub(crate) fn run(arguments: &ExportArguments, environment: &Environment) -> anyhow::Result<()> {
    let (common, file) = (&arguments.common, &arguments.file);
    let settings = common.confined_settings(environment)?;
    if settings.storage.url.is_none() {
        settings.existing_data_dir()?;
    }
    let name = file.display();
    let folder = folder_outside_data_dir(file, &settings)?;
    if !arguments.force && fs::symlink_metadata(file).is_ok() {
        bail!("{name} exists already; choose another name, or use --force to replace it");
    }
    let parameters = json!({ "file": std::path::absolute(file)?, "force": arguments.force });
    let temporary = fs::metadata(path_with_suffix(file, ".tmp"));
    // An approval is for one complete export, which must not begin with rows of another one.
    let is_resumed = !arguments.force
        && temporary.is_ok_and(|it| it.len() > 0)
        && !runtime()?.block_on(is_on_without_key(&settings))?;
    // An additional record would change the vault.
    let recording = if is_resumed { Recording::Success } else { Recording::StartAndSuccess };
    let spec = ActionSpec::approved_change("export").with_recording(recording);
    let key = if arguments.without_root_key { KeyUse::Unused } else { KeyUse::Required };
    let action =
        LocalAction { needs_stopped_server: true, ..LocalAction::on_files(spec, &settings, key) };
    let action = action.approved(&parameters, common.wait)?;
    common.run_local(&action, async |_| {
        let mut temporary = AtomicFile::open(file, "export", OnFailure::Keep)?;
        if !is_resumed {
            temporary.file.set_len(0)?;
        }
        let result = write_export(&settings, &mut temporary, common).await?;
        temporary
            .rename_into_place(file, &folder)
            .with_context(|| format!("renaming the temporary file to {name} failed"))?;
        Ok(report(file, &result))
    })
}

async fn write_export(
    settings: &Settings,
    temporary: &mut AtomicFile,
    common: &CommonArguments,
) -> anyhow::Result<ExportResult> {
    let mut engine = settings.open_transfer_engine().await?;
    let mut progress = common.record_progress("exporting");
    let options = ExportOptions {
        program: env!("CARGO_PKG_VERSION"),
        created_at_unix_ms: SystemClock.now().unix_ms,
        bounds: PageBounds::default(),
        report_progress: &mut |it| progress.update(it.rows, it.total),
    };
    let result = export(&mut *engine, &mut temporary.file, options).await;
    let file_name = temporary.path.display();
    result.map_err(|error| match error {
        TransferError::VaultChanged => {
            // The file contains a mixture of states; delete it.
            drop(fs::remove_file(&temporary.path));
            anyhow::anyhow!("{error}; stop every server and every command, and export again")
        }
        TransferError::ExportOutdated => {
            anyhow::anyhow!("{file_name}: {error}; use --force to start again")
        }
        TransferError::VaultMissing => anyhow::anyhow!("{error}; run: scrip init"),
        error @ (TransferError::Store(_)
        | TransferError::File(_)
        | TransferError::Damaged { .. }
        | TransferError::Unfinished { .. }
        | TransferError::NotAnExport
        | TransferError::VaultNotEmpty
        | TransferError::OtherImportUnfinished
        | TransferError::ContentMismatch { .. }) => {
            anyhow::Error::new(error).context(format!("{file_name} could not be completed"))
        }
    })
}

fn report(file: &Path, result: &ExportResult) -> CommandOutput {
    let text = format!(
        "{} has {}, in {}; it does not contain the root key or CVCs",
        file.display(),
        contents_text(&result.summary),
        format_bytes(result.bytes)
    );
    let json = json!({
        "file": file,
        "bytes": result.bytes,
        "resumed_rows": result.resumed_rows,
        "export": summary_json(&result.summary),
    });
    CommandOutput::new(text, json)
}

pub(crate) fn contents_text(summary: &ExportSummary) -> String {
    holds(summary.count(RowKind::Tenants), summary.count(RowKind::Tokens))
}

pub(crate) fn summary_json(summary: &ExportSummary) -> Value {
    let rows: serde_json::Map<_, _> =
        summary.counts.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    json!({
        "program": summary.info.program,
        "engine": summary.info.engine,
        "schema": summary.info.schema,
        "created_at_unix_ms": summary.info.created_at_unix_ms,
        "rows": rows,
    })
}
