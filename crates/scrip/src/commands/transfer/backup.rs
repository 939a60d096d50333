//! `scrip backup`: write a backup of the vault to one file, and verify such a file.

pub(crate) mod file;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use scrip_core::{
    Timestamp,
    policy::{Directory, DirectoryRecords},
    types::time::Clock,
};
use scrip_operator::{
    action::ActionSpec,
    alterations::describe_alterations,
    error::explain,
    output::{CommandOutput, format_bytes, format_count, holds},
};
use scrip_seal::VaultKeyRing;
use scrip_server::{
    clock::SystemClock,
    config::{Environment, Settings},
    files::atomic_file::{AtomicFile, OnFailure, folder_of},
    process,
};
use scrip_store::sqlite::backup::{CopyResult, ExaminedBackup, copy_database, examine};
use serde_json::json;

use crate::commands::{
    arguments::{ApprovedArguments, CommonArguments},
    local_action::{KeyUse, LocalAction},
    progress::{Progress, ProgressUnit},
    runtime,
    transfer::backup::file::{BackupFile, Manifest, finish_backup},
    vault_opener::VaultOpener,
};

const EXAMPLES: &str = "\
Examples:
  scrip backup /mnt/backup/scrip-monday
  scrip backup verify /mnt/backup/scrip-monday

A server may keep running. The file does not contain the root key, and its tokens are unreadable
without it: store the root key in another place. A backup never contains CVCs.";

/// The step of [`examine_database`].
pub(crate) const READING: &str = "reading the database";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    /// Backup file to create, outside the data directory.
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Replace an existing file after the new one is complete.
    #[arg(long)]
    force: bool,
    /// Run without the root key; the audit log then has no record of this backup.
    #[arg(long)]
    without_root_key: bool,
    /// Maximum size of the WAL, which cannot be truncated during the backup.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    wal_mib_max: u64,
    #[command(flatten)]
    common: ApprovedArguments,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Verify a backup with the checks of `restore`, without changes.
    Verify(VerifyBackupArguments),
}

#[derive(Debug, Args)]
struct VerifyBackupArguments {
    /// Backup file.
    file: PathBuf,
    /// Do not check that an unlock method, such as the root key, opens the backup.
    #[arg(long)]
    without_root_key: bool,
    #[command(flatten)]
    common: CommonArguments,
}

pub(crate) fn run(arguments: &BackupArguments, environment: &Environment) -> anyhow::Result<()> {
    match (&arguments.command, &arguments.file) {
        (Some(BackupCommand::Verify(it)), _) => verify(it, environment),
        (None, Some(file)) => create_backup(file, arguments, environment),
        (None, None) => bail!("give a file"),
    }
}

fn create_backup(
    file: &Path,
    arguments: &BackupArguments,
    environment: &Environment,
) -> anyhow::Result<()> {
    let common = &arguments.common;
    let settings = common.settings(environment)?;
    reject_postgres(&settings, "its own backups (pg_basebackup, or WAL archiving)")?;
    process::confine_command(&settings.server)?;
    settings.existing_data_dir()?;
    let name = file.display();
    let folder = folder_outside_data_dir(file, &settings)?;
    if !arguments.force && fs::symlink_metadata(file).is_ok() {
        bail!("{name} exists already; choose another name, or use --force to replace it");
    }
    let parameters = json!({
        "file": std::path::absolute(file)?,
        "force": arguments.force,
        "without_root_key": arguments.without_root_key,
    });
    let key = if arguments.without_root_key { KeyUse::Unused } else { KeyUse::Required };
    let action = LocalAction::on_files(ActionSpec::approved_change("backup"), &settings, key);
    let action = action.approved(&parameters, common.wait)?;
    common.run_local(&action, async |_| {
        let mut temporary = AtomicFile::open(file, "backup", OnFailure::Remove)?;
        temporary.file.set_len(0)?;
        let created_at = SystemClock.now();
        let mut progress = common.progress("copying");
        let wal_bytes_max = arguments.wal_mib_max.saturating_mul(1024 * 1024);
        let report_progress = move |it: scrip_store::sqlite::backup::BackupProgress| {
            progress.update(it.done_bytes, it.total_bytes);
        };
        let copy_result = copy_database(
            &settings.database_file(),
            &temporary.path,
            wal_bytes_max,
            report_progress,
        );
        let copy_result = copy_result.map_err(explain).context("no backup was created")?;
        let manifest = manifest(copy_result, created_at);
        let length =
            finish_backup(&mut temporary.file, &manifest, &mut common.progress("checksum"));
        let length = length.with_context(|| format!("{name} cannot be written"))?;
        temporary
            .rename_into_place(file, &folder)
            .with_context(|| format!("renaming the temporary file to {name} failed"))?;
        let text = format!(
            "{name} has {}, in {}; it does not contain the root key or CVCs",
            contents_text(&manifest),
            format_bytes(length)
        );
        let json = json!({ "file": file, "bytes": length, "backup": manifest_json(&manifest) });
        Ok(CommandOutput::new(text, json))
    })
}

/// Errors: the vault is on PostgreSQL, which has its own tools.
pub(crate) fn reject_postgres(settings: &Settings, alternative: &str) -> anyhow::Result<()> {
    if settings.storage.url.is_some() {
        bail!(
            "this vault is on PostgreSQL, which has {alternative}; see docs/operate/backup.md. \
             They do not include the root key: store it separately"
        );
    }
    Ok(())
}

fn manifest(copy_result: CopyResult, created_at: Timestamp) -> Manifest {
    Manifest {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        engine: "embedded".to_owned(),
        schema: copy_result.schema,
        created_at_unix_ms: created_at.unix_ms,
        rows: copy_result.rows.into_iter().collect(),
    }
}

/// Returns the directory of the file, which must not be the data directory: the backup would be
/// lost with the vault, and a wrong name could replace the vault.
pub(crate) fn folder_outside_data_dir(file: &Path, settings: &Settings) -> anyhow::Result<PathBuf> {
    let error_context = || format!("the directory of {} does not exist", file.display());
    let folder = folder_of(file).canonicalize().with_context(error_context)?;
    // With PostgreSQL the data directory may be missing.
    let data_dir = settings.storage.data_dir.canonicalize();
    if data_dir.is_ok_and(|it| folder.starts_with(it)) {
        bail!("{} is in the data directory; store backups elsewhere", file.display());
    }
    Ok(folder)
}

fn verify(arguments: &VerifyBackupArguments, environment: &Environment) -> anyhow::Result<()> {
    let common = &arguments.common;
    let settings = common.confined_settings(environment)?;
    let manifest = BackupFile::open(&arguments.file)?
        .check(&mut Progress::of_report("checksum", ProgressUnit::Bytes))?;
    let examined =
        examine_database(&arguments.file, Progress::of_report(READING, ProgressUnit::Bytes))?;
    let opened = match arguments.without_root_key {
        true => None,
        false => Some(runtime()?.block_on(check_vault_key(&settings, examined))?),
    };
    let now = SystemClock.now();
    let (opener, warnings) = opened.map(|it| (it.opener, it.warnings)).unzip();
    let warnings = warnings.unwrap_or_default();
    let opener_text = opener.as_ref().map(|it| format!(", and {}", it.describe()));
    let opener_text = opener_text.unwrap_or_default();
    let mut text = format!(
        "{} is valid{opener_text}: {}, {}\n",
        arguments.file.display(),
        contents_text(&manifest),
        age_text(&manifest, now)
    );
    text.extend(warnings.iter().map(|it| format!("warning: {it}\n")));
    let json = json!({
        "file": arguments.file,
        "valid": true,
        "opened_by": opener.as_ref().map(VaultOpener::to_json),
        "backup": manifest_json(&manifest),
        "warnings": warnings,
    });
    common.print_output(&CommandOutput::new(text, json))
}

/// Reads a database of a backup completely.
pub(crate) fn examine_database(
    database: &Path,
    mut progress: Progress,
) -> anyhow::Result<ExaminedBackup> {
    let examined = examine(database, move || progress.tick());
    examined.map_err(explain).context("this backup cannot be used")
}

/// Opens the vault key of a copy of a vault. A copy has no running server, which could add a method.
/// Errors: no method returns the vault key.
pub(crate) async fn unlock_copy(
    settings: &Settings,
    records: &DirectoryRecords,
    hint: &'static str,
) -> anyhow::Result<(Arc<VaultKeyRing>, VaultOpener)> {
    if records.unlocks.needs_people() {
        bail!(
            "this vault opens only with shares, which a command cannot use; use --without-root-key"
        );
    }
    let unlocked = settings.unlock_with_method(records).await;
    let unlocked = unlocked.map_err(|problem| {
        let error = anyhow::Error::from(problem);
        match settings.describe_unused_root_key(&records.unlocks) {
            Some(text) => error.context(text),
            None => error,
        }
    });
    let (ring, method) = unlocked.context(hint)?;
    Ok((ring, VaultOpener(method)))
}

/// A backup that an unlock method has opened.
pub(crate) struct OpenedBackup {
    pub(crate) opener: VaultOpener,
    pub(crate) warnings: Vec<String>,
}

/// Checks that an unlock method opens the backup.
pub(crate) async fn check_vault_key(
    settings: &Settings,
    examined: ExaminedBackup,
) -> anyhow::Result<OpenedBackup> {
    let hint = "provide the root key of this vault (or what another unlock method of it needs), or \
                use --without-root-key";
    let (source, opener) = unlock_copy(settings, &examined.directory, hint).await?;
    let unused_root_key = settings.describe_unused_root_key(&examined.directory.unlocks);
    let directory = Directory::open(examined.directory, &*source, None).map_err(explain);
    let mut warnings = describe_alterations(&directory.context(hint)?);
    warnings.extend(unused_root_key);
    Ok(OpenedBackup { opener, warnings })
}

pub(crate) fn contents_text(manifest: &Manifest) -> String {
    holds(manifest.count("tenants"), manifest.count("tokens"))
}

/// Text such as `as of 2026-11-15T08:00:00+00:00, 3 hours ago`.
pub(crate) fn age_text(manifest: &Manifest, now: Timestamp) -> String {
    const UNITS: [(i64, &str); 3] = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
    let created_at = manifest.created_at();
    let seconds = now.unix_ms.saturating_sub(created_at.unix_ms) / 1000;
    let unit = UNITS.into_iter().find(|(length, _)| seconds >= *length);
    let Some((length, name)) = unit else { return format!("as of {created_at}, just now") };
    format!("as of {created_at}, {} ago", format_count(seconds / length, name))
}

pub(crate) fn manifest_json(manifest: &Manifest) -> serde_json::Value {
    json!({
        "program": manifest.program,
        "engine": manifest.engine,
        "schema": manifest.schema,
        "created_at": manifest.created_at().to_string(),
        "rows": manifest.rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_text_has_row_counts_and_age() {
        let rows = [("tenants".to_owned(), 1), ("tokens".to_owned(), 30)].into();
        let manifest = Manifest { created_at_unix_ms: 0, rows, ..empty_manifest() };
        assert_eq!(contents_text(&manifest), "1 tenant and 30 tokens");
        let check = |seconds: i64, expected: &str| {
            let text = age_text(&manifest, Timestamp { unix_ms: seconds * 1000 });
            assert_eq!(text, format!("as of 1970-01-01T00:00:00+00:00, {expected}"));
        };
        check(-5, "just now");
        check(59, "just now");
        check(60, "1 minute ago");
        check(7_300, "2 hours ago");
        check(86_400 * 30, "30 days ago");
    }

    fn empty_manifest() -> Manifest {
        manifest(CopyResult { schema: 3, rows: Vec::new() }, Timestamp { unix_ms: 0 })
    }
}
