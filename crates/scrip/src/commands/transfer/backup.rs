//! `scrip backup`: the vault as it is now, in one file; and whether such a file is good.

pub(crate) mod file;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use scrip_core::{
    policy::Directory,
    time::{Clock, Timestamp},
};
use scrip_server::{
    config::{Environment, Settings},
    files::atomic_file::{AtomicFile, OnFailure, folder_of},
    process::{self, clock::SystemClock},
    storage::explain,
};
use scrip_store::sqlite::backup::{CopyResult, ExaminedBackup, copy_database, examine};
use serde_json::json;

use crate::commands::{
    CommonArguments, describe_alterations,
    output::{self, CommandOutput, format_bytes},
    record_command, runtime,
    transfer::backup::file::{BackupFile, Manifest, finish_backup},
};

const EXAMPLES: &str = "\
Examples:
  scrip backup /mnt/backup/scrip-monday
  scrip backup verify /mnt/backup/scrip-monday

A server may go on serving. The file holds no root key, and no token in it can be read without one:
keep the root key in another place. Card verification codes are never in it.";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    command: Option<BackupCommand>,
    /// The file to make, outside of the data directory.
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Replace a file that is there, once the new one is whole.
    #[arg(long)]
    force: bool,
    /// Go without the root key: the audit trail then has no record of this backup.
    #[arg(long)]
    without_key: bool,
    /// Give up when the log of the database, which cannot be shortened meanwhile, is longer.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    log_mib_max: u64,
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Debug, Subcommand)]
enum BackupCommand {
    /// Check a backup as `restore` does, and change nothing.
    Verify(VerifyBackupArguments),
}

#[derive(Debug, Args)]
struct VerifyBackupArguments {
    /// The backup.
    file: PathBuf,
    /// Do not ask whether the root key opens it.
    #[arg(long)]
    without_key: bool,
    #[command(flatten)]
    common: CommonArguments,
}

pub(crate) fn run(arguments: &BackupArguments, environment: &Environment) -> anyhow::Result<()> {
    match (&arguments.command, &arguments.file) {
        (Some(BackupCommand::Verify(it)), _) => verify(it, environment),
        (None, Some(file)) => create_backup(file, arguments, environment),
        (None, None) => bail!("say which file"),
    }
}

fn create_backup(
    file: &Path,
    arguments: &BackupArguments,
    environment: &Environment,
) -> anyhow::Result<()> {
    let at = &arguments.common;
    let settings = at.settings(environment)?;
    reject_postgres(&settings, "backups of its own (pg_basebackup, or an archive of its log)")?;
    process::confine_command(&settings.server)?;
    settings.existing_data_dir()?;
    let name = file.display();
    let folder = folder_outside_data_dir(file, &settings)?;
    if !arguments.force && fs::symlink_metadata(file).is_ok() {
        bail!("{name} is there already; choose another name, or say --force to replace it");
    }
    let record = |outcome| match arguments.without_key {
        true => Ok(()),
        false => runtime()?.block_on(record_command(&settings, "backup", outcome)),
    };
    record("started")?;
    let mut draft = AtomicFile::open(file, "backup", OnFailure::Remove)?;
    draft.file.set_len(0)?;
    let made_at = SystemClock.now();
    let mut progress = at.progress("copying");
    let log_bytes_max = arguments.log_mib_max.saturating_mul(1024 * 1024);
    let watch = move |it: scrip_store::sqlite::backup::BackupProgress| {
        progress.update(it.done_bytes, it.total_bytes);
    };
    let copied = copy_database(&settings.database_file(), &draft.path, log_bytes_max, watch);
    let copied = copied.map_err(explain).context("no backup was made")?;
    let manifest = manifest(copied, made_at);
    let written = finish_backup(&mut draft.file, &manifest, &mut at.progress("checksum"));
    let length = written.with_context(|| format!("{name} cannot be written"))?;
    draft
        .rename_into_place(file, &folder)
        .with_context(|| format!("{name} cannot be put in place"))?;
    record("completed")?;

    let text = format!(
        "{name} has {}, in {}; it holds no root key, and no card verification codes",
        contents_text(&manifest),
        format_bytes(length)
    );
    let json = json!({ "file": file, "bytes": length, "backup": manifest_json(&manifest) });
    at.print_output(&CommandOutput::new(text, json))
}

/// # Errors
/// The vault is on PostgreSQL, which has its own means.
pub(crate) fn reject_postgres(settings: &Settings, alternative: &str) -> anyhow::Result<()> {
    if settings.storage.url.is_some() {
        bail!(
            "this vault is on PostgreSQL, which has {alternative}; see docs/operate/postgres.md. The root \
             key is not in them: keep it apart"
        );
    }
    Ok(())
}

fn manifest(copied: CopyResult, created_at: Timestamp) -> Manifest {
    Manifest {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        engine: "embedded".to_owned(),
        schema: copied.schema,
        created_at_unix_ms: created_at.unix_ms,
        rows: copied.rows.into_iter().collect(),
    }
}

/// The folder of the file. Beside the vault a backup would be lost with it, and a wrong name would
/// replace the vault by it.
pub(crate) fn folder_outside_data_dir(file: &Path, settings: &Settings) -> anyhow::Result<PathBuf> {
    let cannot = || format!("the folder of {} cannot be found", file.display());
    let folder = folder_of(file).canonicalize().with_context(cannot)?;
    // With PostgreSQL there need not be one.
    let data = settings.storage.data_dir.canonicalize();
    if data.is_ok_and(|it| folder.starts_with(it)) {
        bail!("{} lies in the data directory; keep backups elsewhere", file.display());
    }
    Ok(folder)
}

fn verify(arguments: &VerifyBackupArguments, environment: &Environment) -> anyhow::Result<()> {
    let at = &arguments.common;
    let settings = at.confined_settings(environment)?;
    let manifest = BackupFile::open(&arguments.file)?.check(&mut at.progress("checksum"))?;
    let examined = examine_database(&arguments.file, at)?;
    let warnings =
        if arguments.without_key { Vec::new() } else { check_root_key(&settings, examined)? };
    let now = SystemClock.now();
    let opens = if arguments.without_key { "" } else { ", and the root key opens it" };
    let mut text = format!(
        "{} is whole{opens}: {}, {}\n",
        arguments.file.display(),
        contents_text(&manifest),
        age_text(&manifest, now)
    );
    text.extend(warnings.iter().map(|it| format!("warning: {it}\n")));
    let json = json!({
        "file": arguments.file,
        "whole": true,
        "key_opens": !arguments.without_key,
        "backup": manifest_json(&manifest),
        "warnings": warnings,
    });
    at.print_output(&CommandOutput::new(text, json))
}

/// Reads a database of a backup through.
pub(crate) fn examine_database(
    database: &Path,
    common: &CommonArguments,
) -> anyhow::Result<ExaminedBackup> {
    let mut progress = common.progress("reading the database through");
    let examined = examine(database, move || progress.tick());
    examined.map_err(explain).context("this backup cannot be used")
}

/// Whether the root key opens it; what else there is to say then.
pub(crate) fn check_root_key(
    settings: &Settings,
    examined: ExaminedBackup,
) -> anyhow::Result<Vec<String>> {
    let hint = "put the root key of this vault in its place, or say --without-key";
    let source = settings.key_source().context(hint)?;
    let directory = Directory::open(examined.directory, &*source, None).map_err(explain);
    let directory = directory.context(hint)?;
    Ok(describe_alterations(&directory))
}

pub(crate) fn contents_text(manifest: &Manifest) -> String {
    output::holds(manifest.count("tenants"), manifest.count("tokens"))
}

/// `as of 2026-11-15T08:00:00+00:00, 3 hours ago`.
pub(crate) fn age_text(manifest: &Manifest, now: Timestamp) -> String {
    const UNITS: [(i64, &str); 3] = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
    let made_at = manifest.created_at();
    let seconds = now.unix_ms.saturating_sub(made_at.unix_ms) / 1000;
    let unit = UNITS.into_iter().find(|(length, _)| seconds >= *length);
    let Some((length, name)) = unit else { return format!("as of {made_at}, just now") };
    let count = seconds / length;
    let many = if count == 1 { "" } else { "s" };
    format!("as of {made_at}, {count} {name}{many} ago")
}

pub(crate) fn manifest_json(manifest: &Manifest) -> serde_json::Value {
    json!({
        "program": manifest.program,
        "engine": manifest.engine,
        "schema": manifest.schema,
        "made_at": manifest.created_at().to_string(),
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
            let output = age_text(&manifest, Timestamp { unix_ms: seconds * 1000 });
            assert_eq!(output, format!("as of 1970-01-01T00:00:00+00:00, {expected}"));
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
