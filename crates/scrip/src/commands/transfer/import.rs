//! `scrip import`: import a file of `scrip export` into empty storage.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;
use scrip_core::policy::{Directory, DirectoryRecords};
use scrip_operator::{
    action::{ActionSpec, Recording},
    error::explain,
    output::{CommandOutput, format_count},
};
use scrip_server::{
    config::{Environment, Settings},
    process,
};
use scrip_store::transfer::{CheckedExport, ImportPhase, ImportResult, TransferError, import};
use serde_json::json;

use crate::commands::{
    arguments::CommonArguments,
    init,
    local_action::{KeyUse, LocalAction},
    output::warn,
    transfer::{
        backup::{file::open_regular_file, unlock_copy},
        export::{contents_text, summary_json},
        restore::{describe_old_heads, move_head_file_aside},
    },
};

const EXAMPLES: &str = "\
Examples:
  scrip import /mnt/move/vault
  SCRIP_STORAGE_URL=postgres://scrip@db.internal/scrip scrip import /mnt/move/vault

The storage must be empty: a data directory without a vault, or a database after `scrip migrate`. Do
not run `scrip init`; provide the root key of the exported vault instead. To resume an interrupted
import, run the same command again. The vault cannot be served until the import is complete.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArguments {
    /// Export file, created by `scrip export`.
    file: PathBuf,
    /// Do not check that the root key opens the exported vault.
    #[arg(long)]
    without_root_key: bool,
    #[command(flatten)]
    common: CommonArguments,
}

pub(crate) fn run(arguments: &ImportArguments, environment: &Environment) -> anyhow::Result<()> {
    let (common, file) = (&arguments.common, &arguments.file);
    let settings = common.settings(environment)?;
    // Before the whole file is read, which takes long.
    let is_new_folder = init::create_data_dir(&settings)?;
    let export = check_file(file, common).inspect_err(|_| {
        if is_new_folder {
            // It is empty.
            drop(fs::remove_dir(&settings.storage.data_dir));
        }
    })?;
    process::confine_command(&settings.server)?;
    let spec = ActionSpec::change("import").with_recording(Recording::Success);
    let key = if arguments.without_root_key { KeyUse::Unused } else { KeyUse::Required };
    common.run_local(&LocalAction::on_files(spec, &settings, key), async |_| {
        if !arguments.without_root_key {
            check_root_key(&settings, &export).await?;
        }
        let mut old_head_file = None;
        let result = write_import(&settings, export, common, &mut old_head_file).await?;
        Ok(report(&settings, file, &result, old_head_file.as_deref()))
    })
}

fn check_file(file: &Path, common: &CommonArguments) -> anyhow::Result<CheckedExport> {
    let name = file.display();
    let opened_file = open_regular_file(file)?;
    let mut progress = common.record_progress("checking the file");
    let export =
        CheckedExport::check(opened_file, |checked, total| progress.update(checked, total));
    export.with_context(|| format!("{name} cannot be imported; nothing was changed"))
}

async fn write_import(
    settings: &Settings,
    export_file: CheckedExport,
    common: &CommonArguments,
    old_head_file: &mut Option<PathBuf>,
) -> anyhow::Result<ImportResult> {
    let mut engine = settings.open_transfer_engine().await?;
    let mut write_progress = common.record_progress("importing");
    let mut read_progress = common.record_progress("reading the vault back");
    let mut is_first = true;
    let mut report_progress = |step, it: scrip_store::transfer::TransferProgress| match step {
        ImportPhase::Writing => write_progress.update(it.rows, it.total),
        ImportPhase::ReadingBack => {
            // The storage was empty. An interrupted import does this again.
            if std::mem::take(&mut is_first) {
                let moved = move_head_file_aside(settings, "import");
                *old_head_file = moved.unwrap_or_else(|error| {
                    warn(&error);
                    None
                });
            }
            read_progress.update(it.rows, it.total);
        }
    };
    let result = import(&mut *engine, export_file, &mut report_progress).await;
    let location = settings.storage.location();
    result.map_err(|error| match error {
        TransferError::ContentMismatch { .. } => anyhow::anyhow!(
            "{location}: {error}, and cannot be served; empty this storage and import again"
        ),
        TransferError::VaultNotEmpty | TransferError::OtherImportUnfinished => {
            anyhow::anyhow!("{location}: {error}")
        }
        error @ (TransferError::Store(_)
        | TransferError::File(_)
        | TransferError::Damaged { .. }
        | TransferError::Unfinished { .. }
        | TransferError::NotAnExport
        | TransferError::VaultMissing
        | TransferError::VaultChanged
        | TransferError::ExportOutdated) => anyhow::Error::new(error)
            .context(format!("{location}: the import is incomplete; run it again")),
    })
}

/// Checks that the root key opens the exported vault, before anything is written.
async fn check_root_key(settings: &Settings, export: &CheckedExport) -> anyhow::Result<()> {
    let hint = "nothing was imported; provide the root key of the exported vault (or what another \
                unlock method of it needs), or use --without-root-key";
    let records = DirectoryRecords {
        system_keys: export.system_keys.clone(),
        unlocks: export.unlocks.clone(),
        ..DirectoryRecords::default()
    };
    let (source, _) = unlock_copy(settings, &records, hint).await?;
    Directory::open(records, &*source, None).map(drop).map_err(explain).context(hint)
}

fn report(
    settings: &Settings,
    file: &Path,
    result: &ImportResult,
    old_head_file: Option<&Path>,
) -> CommandOutput {
    let location = settings.storage.location();
    let summary = &result.summary;
    let mut warnings = vec![NO_CODES.to_owned(), ONE_VAULT.to_owned()];
    warnings.extend(old_head_file.map(describe_old_heads));
    let mut text = format!(
        "{location} has {} of {}, {} in total, read back and compared\n",
        contents_text(summary),
        file.display(),
        format_count(summary.rows(), "row"),
    );
    text.extend(warnings.iter().map(|it| format!("warning: {it}\n")));
    let json = json!({
        "location": location,
        "resumed_rows": result.resumed_rows,
        "export": summary_json(summary),
        "warnings": warnings,
    });
    CommandOutput::new(text, json)
}

const NO_CODES: &str = "an export does not contain CVCs; imported cards have none";
const ONE_VAULT: &str = "the exported vault still exists; serve only one of the two";
