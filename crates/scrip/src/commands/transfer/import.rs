//! `scrip import`: a vault from a file of `scrip export`, into an empty place.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::Args;
use scrip_server::{
    config::{Environment, Settings},
    files::head_file,
    process,
    storage::explain,
};
use scrip_store::transfer::{CheckedExport, ImportPhase, ImportResult, TransferError, import};
use serde_json::json;

use crate::commands::{
    CommonArguments, Operator, init,
    output::CommandOutput,
    runtime,
    transfer::export::{contents_text, summary_json},
};

const EXAMPLES: &str = "\
Examples:
  scrip import /mnt/move/vault
  SCRIP_STORAGE_URL=postgres://scrip@db.internal/scrip scrip import /mnt/move/vault

The place has to be empty: a data directory without a vault, or a database after `scrip migrate`. Do
not run `scrip init`; put the root key of the vault in its place instead. An import that was broken
off is gone on with by the same command, and until it has ended nobody can serve the vault.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ImportArguments {
    /// The file that `scrip export` made.
    file: PathBuf,
    /// Do not ask whether the root key opens it.
    #[arg(long)]
    without_key: bool,
    #[command(flatten)]
    common: CommonArguments,
}

pub(crate) fn run(arguments: &ImportArguments, environment: &Environment) -> anyhow::Result<()> {
    let (at, file) = (&arguments.common, &arguments.file);
    let settings = at.settings(environment)?;
    let whole = check_file(file, at)?;
    init::create_data_dir(&settings)?;
    process::confine_command(&settings.server)?;
    let imported = runtime()?.block_on(async {
        let imported = write_import(&settings, whole, at).await?;
        if !arguments.without_key {
            check_root_key(&settings).await?;
        }
        anyhow::Ok(imported)
    })?;
    at.print_output(&report(&settings, file, &imported))
}

fn check_file(file: &Path, common: &CommonArguments) -> anyhow::Result<CheckedExport> {
    let name = file.display();
    let opened = File::open(file).with_context(|| format!("{name} cannot be read"))?;
    let mut progress = common.record_progress("checking the file");
    let whole = CheckedExport::check(opened, |done, all| progress.update(done, all));
    whole.with_context(|| format!("{name} cannot be imported; nothing was changed"))
}

async fn write_import(
    settings: &Settings,
    export_file: CheckedExport,
    common: &CommonArguments,
) -> anyhow::Result<ImportResult> {
    let mut rows = settings.open_rows().await?;
    let mut writing = common.record_progress("importing");
    let mut reading = common.record_progress("reading it back");
    let mut watch = |step, it: scrip_store::transfer::TransferProgress| match step {
        ImportPhase::Writing => writing.update(it.rows, it.total),
        ImportPhase::ReadingBack => reading.update(it.rows, it.total),
    };
    let imported = import(&mut *rows, export_file, &mut watch).await;
    let place = settings.storage.location();
    imported.map_err(|error| match error {
        TransferError::ContentMismatch { .. } => anyhow::anyhow!(
            "{place}: {error}, and cannot be served; empty this place, and import again"
        ),
        TransferError::VaultNotEmpty | TransferError::OtherImportUnfinished => {
            anyhow::anyhow!("{place}: {error}")
        }
        other @ (TransferError::Store(_)
        | TransferError::File(_)
        | TransferError::Damaged { .. }
        | TransferError::Unfinished { .. }
        | TransferError::NotAnExport
        | TransferError::VaultMissing
        | TransferError::VaultChanged
        | TransferError::ExportOutdated) => anyhow::Error::new(other)
            .context(format!("{place}: the import is not finished; run it again")),
    })
}

/// And where its logs end is kept apart from now on.
async fn check_root_key(settings: &Settings) -> anyhow::Result<()> {
    let hint =
        "the vault is in, but not opened; put its root key in its place, or say --without-key";
    let operator = Operator::open(settings).await.context(hint)?;
    operator.vault.record_command("import", "completed").await.map_err(explain)?;
    head_file::update(&settings.head_file(), &operator.vault).await
}

fn report(settings: &Settings, file: &Path, imported: &ImportResult) -> CommandOutput {
    let place = settings.storage.location();
    let summary = &imported.summary;
    let text = format!(
        "{place} has {} of {}, {} rows in all, read back and compared\nwarning: {NO_CODES}\n\
         warning: {ONE_VAULT}",
        contents_text(summary),
        file.display(),
        summary.rows(),
    );
    let json = json!({
        "place": place,
        "resumed_rows": imported.resumed_rows,
        "export": summary_json(summary),
        "warnings": [NO_CODES, ONE_VAULT],
    });
    CommandOutput::new(text, json)
}

const NO_CODES: &str = "card verification codes are not in an export; cards come without";
const ONE_VAULT: &str = "the vault that was exported is still there; serve only one of the two";
