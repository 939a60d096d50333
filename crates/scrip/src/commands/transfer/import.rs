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
use scrip_store::transfer::{Imported, MoveError, Step, Whole, import};
use serde_json::json;

use crate::commands::{
    Operator, Where, init,
    output::Said,
    runtime,
    transfer::export::{holds, told},
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
    at: Where,
}

pub(crate) fn run(arguments: &ImportArguments, environment: &Environment) -> anyhow::Result<()> {
    let (at, file) = (&arguments.at, &arguments.file);
    let settings = at.settings(environment)?;
    let whole = check(file, at)?;
    init::make_folder(&settings)?;
    process::confine_command(&settings.server)?;
    let imported = runtime()?.block_on(async {
        let imported = write(&settings, whole, at).await?;
        if !arguments.without_key {
            try_key(&settings).await?;
        }
        anyhow::Ok(imported)
    })?;
    at.say(&report(&settings, file, &imported))
}

fn check(file: &Path, at: &Where) -> anyhow::Result<Whole> {
    let name = file.display();
    let opened = File::open(file).with_context(|| format!("{name} cannot be read"))?;
    let mut progress = at.progress_of_records("checking the file");
    let whole = Whole::check(opened, |done, all| progress.tell(done, all));
    whole.with_context(|| format!("{name} cannot be imported; nothing was changed"))
}

async fn write(settings: &Settings, whole: Whole, at: &Where) -> anyhow::Result<Imported> {
    let mut rows = settings.open_rows().await?;
    let mut writing = at.progress_of_records("importing");
    let mut reading = at.progress_of_records("reading it back");
    let mut watch = |step, it: scrip_store::transfer::Done| match step {
        Step::Writing => writing.tell(it.rows, it.all),
        Step::ReadingBack => reading.tell(it.rows, it.all),
    };
    let imported = import(&mut *rows, whole, &mut watch).await;
    let place = settings.storage.place();
    imported.map_err(|error| match error {
        MoveError::Differs { .. } => anyhow::anyhow!(
            "{place}: {error}, and cannot be served; empty this place, and import again"
        ),
        MoveError::NotEmpty | MoveError::AnotherFile => anyhow::anyhow!("{place}: {error}"),
        other @ (MoveError::Store(_)
        | MoveError::File(_)
        | MoveError::Damaged { .. }
        | MoveError::Unfinished { .. }
        | MoveError::NoExport
        | MoveError::NoVault
        | MoveError::Changed
        | MoveError::ChangedBefore) => anyhow::Error::new(other)
            .context(format!("{place}: the import is not finished; run it again")),
    })
}

/// And where its logs end is kept apart from now on.
async fn try_key(settings: &Settings) -> anyhow::Result<()> {
    let hint =
        "the vault is in, but not opened; put its root key in its place, or say --without-key";
    let operator = Operator::open(settings).await.context(hint)?;
    operator.vault.record_command("import", "completed").await.map_err(explain)?;
    head_file::update(&settings.head_file(), &operator.vault).await
}

fn report(settings: &Settings, file: &Path, imported: &Imported) -> Said {
    let place = settings.storage.place();
    let summary = &imported.summary;
    let text = format!(
        "{place} has {} of {}, {} rows in all, read back and compared\nwarning: {NO_CODES}\n\
         warning: {ONE_VAULT}",
        holds(summary),
        file.display(),
        summary.rows(),
    );
    let json = json!({
        "place": place,
        "resumed_rows": imported.resumed_rows,
        "export": told(summary),
        "warnings": [NO_CODES, ONE_VAULT],
    });
    Said::new(text, json)
}

const NO_CODES: &str = "card verification codes are not in an export; cards come without";
const ONE_VAULT: &str = "the vault that was exported is still there; serve only one of the two";
