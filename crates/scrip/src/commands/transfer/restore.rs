//! `scrip restore`: a vault from a backup, whole or not at all.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::Args;
use scrip_core::time::Clock;
use scrip_server::{
    config::{Environment, Settings},
    control,
    files::{
        atomic_file::{path_with_suffix, sync_folder},
        head_file,
    },
    process::{self, clock::SystemClock},
    storage::explain,
};
use scrip_store::sqlite::backup::{extract_read_log, lock_exclusively, upgrade};
use serde_json::json;

use crate::commands::{
    CommonArguments, Operator, init,
    output::CommandOutput,
    runtime,
    transfer::backup::{
        age_text, check_root_key, contents_text, examine_database,
        file::{BackupFile, Manifest},
        manifest_json, reject_postgres,
    },
};

const EXAMPLES: &str = "\
Examples:
  scrip restore /mnt/backup/scrip-monday
  scrip restore /mnt/backup/scrip-monday --data-dir /var/lib/scrip

The root key is not in a backup: put it in its place first. No server may run here.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RestoreArguments {
    /// The backup.
    file: PathBuf,
    /// Move a vault that is there aside, into a folder of its own in the data directory.
    #[arg(long)]
    force: bool,
    /// Do not ask whether the root key opens it.
    #[arg(long)]
    without_key: bool,
    #[command(flatten)]
    common: CommonArguments,
}

/// What belongs to a database: itself first, then what would be replayed into another one.
const VAULT_FILES: [&str; 10] = [
    "scrip.db",
    "scrip.db-wal",
    "scrip.db-journal",
    "scrip.db-shm",
    "access.db",
    "access.db-wal",
    "access.db-journal",
    "access.db-shm",
    // What was kept apart of the old logs, and how far they were told, is not about the new ones.
    "audit.head",
    "audit.exported",
];

pub(crate) fn run(arguments: &RestoreArguments, environment: &Environment) -> anyhow::Result<()> {
    let at = &arguments.common;
    let settings = at.settings(environment)?;
    reject_postgres(&settings, "ways of its own to put back what its backups hold")?;
    let folder = settings.storage.data_dir.clone();
    if let Some(it) = control::query_status(&folder) {
        bail!("{} is served by process {}; stop it first", folder.display(), it.pid);
    }
    if !arguments.force {
        reject_existing_vault(&folder)?;
    }
    let mut backup = BackupFile::open(&arguments.file)?;
    backup.check(&mut at.progress("checksum"))?;
    init::create_data_dir(&settings)?;
    process::confine_command(&settings.server)?;
    let vacancy = lock_exclusively(&settings.database_file()).map_err(explain)?;
    let Some(_vacancy) = vacancy else {
        bail!("another process has {} open; stop it first", folder.display());
    };
    // Again, now that nobody else can.
    if !arguments.force {
        reject_existing_vault(&folder)?;
    }
    let draft = RestoredDatabase::new(&folder);
    let manifest = draft.extract_from(&mut backup, at)?;
    let warnings = check_database(&draft.path, &settings, arguments)?;
    extract_read_log(&draft.path, &draft.read_log_path)
        .map_err(explain)
        .context("the access log cannot be taken out of this backup")?;
    let aside =
        move_vault_aside(&folder).context("the vault that is there cannot be moved aside")?;
    let head_file = move_head_file_aside(&settings)?;
    fs::rename(&draft.read_log_path, folder.join("access.db"))?;
    sync_folder(&folder)?;
    fs::rename(&draft.path, settings.database_file())?;
    sync_folder(&folder)?;
    if !arguments.without_key {
        save_heads(&settings)?;
    }
    let mut warnings = warnings;
    warnings.extend(head_file.map(|it| {
        format!("where the logs ended before is in {}; it is about the old vault", it.display())
    }));
    at.print_output(&report(&folder, &manifest, aside.as_deref(), &warnings))
}

/// The heads that were kept elsewhere, which are beside the new vault from now on; nothing when
/// there are none.
fn move_head_file_aside(settings: &Settings) -> anyhow::Result<Option<PathBuf>> {
    let file = settings.head_file();
    if fs::symlink_metadata(&file).is_err() {
        return Ok(None);
    }
    let aside = path_with_suffix(&file, &format!(".before-restore-{}", timestamp_digits()));
    fs::rename(&file, &aside).with_context(|| format!("{} cannot be moved", file.display()))?;
    Ok(Some(aside))
}

fn save_heads(settings: &Settings) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let operator = Operator::open(settings).await?;
        operator.vault.record_command("restore", "completed").await.map_err(explain)?;
        head_file::update(&settings.head_file(), &operator.vault).await
    })
}

/// A log without its database is no vault: a restore that was killed may have left one, or somebody
/// who lost the other. It goes aside all the same.
fn reject_existing_vault(folder: &Path) -> anyhow::Result<()> {
    let there: Vec<_> =
        existing_vault_files(folder).into_iter().filter(|it| it.starts_with("scrip.db")).collect();
    if there.is_empty() {
        return Ok(());
    }
    bail!(
        "there is a vault in {}; choose another directory with --data-dir, or say --force to move \
         it aside ({})",
        folder.display(),
        there.join(", ")
    );
}

fn existing_vault_files(folder: &Path) -> Vec<&'static str> {
    let is_there = |it: &&str| fs::symlink_metadata(folder.join(it)).is_ok();
    VAULT_FILES.into_iter().filter(is_there).collect()
}

/// The database before it has its name. What a killed process left of another one is removed: the
/// engine would roll its journal back into this one.
struct RestoredDatabase {
    path: PathBuf,
    /// The access log, once it was taken out of it.
    read_log_path: PathBuf,
}

impl RestoredDatabase {
    fn new(folder: &Path) -> Self {
        let [path, access] = ["restoring.db", "restoring-access.db"].map(|it| folder.join(it));
        let draft = Self { path, read_log_path: access };
        draft.remove();
        draft
    }

    fn remove(&self) {
        for extension in ["db", "db-journal", "db-wal", "db-shm"] {
            drop(fs::remove_file(self.path.with_extension(extension)));
            drop(fs::remove_file(self.read_log_path.with_extension(extension)));
        }
    }

    fn extract_from(
        &self,
        backup: &mut BackupFile,
        common: &CommonArguments,
    ) -> anyhow::Result<Manifest> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&self.path);
        let mut file = file.with_context(|| format!("{} cannot be made", self.path.display()))?;
        let manifest = backup.extract(&mut file, &mut common.progress("restoring"))?;
        file.sync_all()?;
        Ok(manifest)
    }
}

/// Once it has its name, there is nothing under this one.
impl Drop for RestoredDatabase {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Whether it can be served; what there is to warn of.
fn check_database(
    database: &Path,
    settings: &Settings,
    arguments: &RestoreArguments,
) -> anyhow::Result<Vec<String>> {
    let mut examined = examine_database(database, &arguments.common)?;
    if !examined.is_current {
        upgrade(database).map_err(explain).context("it cannot be brought up to date")?;
        examined = examine_database(database, &arguments.common)?;
    }
    if arguments.without_key { Ok(Vec::new()) } else { check_root_key(settings, examined) }
}

/// Gives the old vault a second name for every file, and only then takes the first ones away: its
/// log must not be replayed into the new one, and must not be parted from the old one. The database
/// goes first, so that whoever is interrupted has no vault, and not one that lacks its log.
fn move_vault_aside(folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let parts = existing_vault_files(folder);
    if parts.is_empty() {
        return Ok(None);
    }
    let aside = create_aside_folder(folder)?;
    for part in &parts {
        fs::hard_link(folder.join(part), aside.join(part))?;
    }
    sync_folder(&aside)?;
    for part in &parts {
        fs::remove_file(folder.join(part))?;
        sync_folder(folder)?;
    }
    Ok(Some(aside))
}

/// A folder that was not there. Within a second there may be several.
fn create_aside_folder(folder: &Path) -> anyhow::Result<PathBuf> {
    let name = format!("before-restore-{}", timestamp_digits());
    let names = (1..100).map(|it| format!("{name}-{it}"));
    for name in std::iter::once(name.clone()).chain(names) {
        let aside = folder.join(name);
        match DirBuilder::new().mode(0o700).create(&aside) {
            Ok(()) => return Ok(aside),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => (),
            Err(error) => return Err(error.into()),
        }
    }
    bail!("there are too many folders {name}-…")
}

fn timestamp_digits() -> String {
    SystemClock.now().to_string().chars().filter(char::is_ascii_digit).take(14).collect()
}

const OLD_POLICY: &str = "everything is as it was then: API keys, applications and tenants that \
    were deleted since are back, and so are rights that were taken and tokens that were deleted; \
    take away again what must not be";
const NO_CODES: &str = "card verification codes are not in a backup; cards come back without";

fn report(
    folder: &Path,
    manifest: &Manifest,
    aside: Option<&Path>,
    warnings_found: &[String],
) -> CommandOutput {
    let mut warnings = vec![OLD_POLICY.to_owned(), NO_CODES.to_owned()];
    warnings.extend_from_slice(warnings_found);
    let age = age_text(manifest, SystemClock.now());
    let mut text =
        format!("restored {} into {}, {age}\n", contents_text(manifest), folder.display());
    if let Some(aside) = aside {
        text += &format!("the vault that was there is in {}\n", aside.display());
    }
    text.extend(warnings.iter().map(|it| format!("warning: {it}\n")));
    let mut json = json!({
        "data_dir": folder,
        "backup": manifest_json(manifest),
        "warnings": warnings,
    });
    if let (Some(aside), Some(members)) = (aside, json.as_object_mut()) {
        members.insert("moved_aside".to_owned(), json!(aside));
    }
    CommandOutput::new(text, json)
}
