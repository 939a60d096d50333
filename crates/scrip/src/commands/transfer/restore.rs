//! `scrip restore`: restore a vault from a backup, completely or not at all.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use clap::Args;
use scrip_core::{Timestamp, types::time::Clock};
use scrip_operator::{
    action::{ActionSpec, Recording},
    error::explain,
    output::CommandOutput,
};
use scrip_server::{
    clock::SystemClock,
    config::{Environment, Settings},
    files::atomic_file::{path_with_suffix, sync_folder},
    process,
};
use scrip_store::sqlite::backup::{extract_read_log, lock_exclusively, upgrade};
use serde_json::json;

use crate::commands::{
    arguments::CommonArguments,
    init,
    keys::list::load_key_history,
    local_action::{KeyUse, LocalAction},
    runtime,
    transfer::backup::{
        READING, age_text, check_vault_key, contents_text, examine_database,
        file::{BackupFile, Manifest},
        manifest_json, reject_postgres,
    },
};

const EXAMPLES: &str = "\
Examples:
  scrip restore /mnt/backup/scrip-monday
  scrip restore /mnt/backup/scrip-monday --data-dir /var/lib/scrip

A backup does not contain the root key: provide the root key first. Stop the server first.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RestoreArguments {
    /// Backup file.
    file: PathBuf,
    /// Move an existing vault to a new folder in the data directory.
    #[arg(long)]
    force: bool,
    /// Do not check that the root key opens the vault.
    #[arg(long)]
    without_root_key: bool,
    #[command(flatten)]
    common: CommonArguments,
}

/// Files of a database: the database first, then files that SQLite would replay into another one.
const VAULT_FILES: [&str; 10] = [
    "scrip.db",
    "scrip.db-wal",
    "scrip.db-journal",
    "scrip.db-shm",
    "read_log.db",
    "read_log.db-wal",
    "read_log.db-journal",
    "read_log.db-shm",
    // Saved heads and sink positions of the old logs do not apply to the restored ones.
    "audit.head",
    "audit.sink-position",
];

pub(crate) fn run(arguments: &RestoreArguments, environment: &Environment) -> anyhow::Result<()> {
    let common = &arguments.common;
    let settings = common.settings(environment)?;
    reject_postgres(&settings, "its own tools to restore its backups")?;
    let folder = &settings.storage.data_dir;
    settings.check_no_server()?;
    if !arguments.force {
        reject_existing_vault(folder)?;
    }
    let compromised_at = find_compromise(&settings);
    let mut backup = BackupFile::open(&arguments.file)?;
    backup.check(&mut common.progress("checksum"))?;
    init::create_data_dir(&settings)?;
    process::confine_command(&settings.server)?;
    let lock = lock_exclusively(&settings.database_file()).map_err(explain)?;
    let Some(_lock) = lock else {
        bail!("{} is in use by another process; stop it first", folder.display());
    };
    // Check again, now under the lock.
    if !arguments.force {
        reject_existing_vault(folder)?;
    }
    let spec = ActionSpec::change("restore").with_recording(Recording::Success);
    let key = if arguments.without_root_key { KeyUse::Unused } else { KeyUse::Required };
    common.run_local(&LocalAction::on_files(spec, &settings, key), async |_| {
        let restored = RestoredDatabase::new(folder);
        let manifest = restored.extract_from(&mut backup, common)?;
        let mut warnings = prepare_database(&restored, &settings, arguments).await?;
        let old_vault_folder =
            move_vault_aside(folder).context("moving the existing vault aside failed")?;
        let old_head_file = move_head_file_aside(&settings, "restore")?;
        fs::rename(&restored.read_log_path, folder.join("read_log.db"))?;
        sync_folder(folder)?;
        fs::rename(&restored.path, settings.database_file())?;
        sync_folder(folder)?;
        if let Some(time) = compromised_at.filter(|it| manifest.created_at() < *it) {
            warnings.push(format!(
                "backups before {time} are exposed, and this is one of them: others may know its keys. \
                 Start the server and run: scrip keys rotate vault --compromised"
            ));
        }
        warnings.extend(old_head_file.as_deref().map(describe_old_heads));
        Ok(report(folder, &manifest, old_vault_folder.as_deref(), &warnings))
    })
}

/// When the vault in the data directory was compromised. `None` if there is none, or if it cannot be
/// opened.
fn find_compromise(settings: &Settings) -> Option<Timestamp> {
    let history = runtime().ok()?.block_on(async {
        let vault = settings.open_vault_for_command().await.ok()?;
        let records = vault.store.load_directory().await.ok()?;
        load_key_history(settings, &records).await
    });
    history?.compromised_ms.map(|unix_ms| Timestamp { unix_ms })
}

/// The warning about a head file that was moved.
pub(crate) fn describe_old_heads(file: &Path) -> String {
    format!("the chain heads of the old vault are in {}", file.display())
}

/// Moves a head file aside, because it belongs to the old vault. Returns `None` if there is none. A
/// restore has moved one in the data directory with the other files of the old vault.
///
/// Errors: the file cannot be moved.
pub(crate) fn move_head_file_aside(
    settings: &Settings,
    command: &str,
) -> anyhow::Result<Option<PathBuf>> {
    let file = settings.head_file();
    if fs::symlink_metadata(&file).is_err() {
        return Ok(None);
    }
    let new_path = path_with_suffix(&file, &format!(".before-{command}-{}", timestamp_digits()));
    fs::rename(&file, &new_path).with_context(|| format!("{} cannot be moved", file.display()))?;
    Ok(Some(new_path))
}

/// Rejects a directory that contains a vault. A read log without its database is not a vault: a
/// killed restore or a lost database can leave one. The restore moves it aside.
fn reject_existing_vault(folder: &Path) -> anyhow::Result<()> {
    let existing: Vec<_> =
        existing_vault_files(folder).into_iter().filter(|it| it.starts_with("scrip.db")).collect();
    if existing.is_empty() {
        return Ok(());
    }
    bail!(
        "{} already contains a vault; choose another directory with --data-dir, or use --force to \
         move the vault aside ({})",
        folder.display(),
        existing.join(", ")
    );
}

fn existing_vault_files(folder: &Path) -> Vec<&'static str> {
    let exists = |it: &&str| fs::symlink_metadata(folder.join(it)).is_ok();
    VAULT_FILES.into_iter().filter(exists).collect()
}

/// The restored database under its temporary name. Leftovers of a killed process are removed:
/// SQLite would roll back their journal into this database.
struct RestoredDatabase {
    path: PathBuf,
    /// The read log, after it was extracted.
    read_log_path: PathBuf,
}

impl RestoredDatabase {
    fn new(folder: &Path) -> Self {
        let [path, read_log_path] =
            ["restoring.db", "restoring-read_log.db"].map(|it| folder.join(it));
        let restored = Self { path, read_log_path };
        restored.remove();
        restored
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
        let mut file =
            file.with_context(|| format!("{} cannot be created", self.path.display()))?;
        let manifest = backup.extract(&mut file, &mut common.progress("restoring"))?;
        file.sync_all()?;
        Ok(manifest)
    }
}

/// Removes the temporary files of a failed restore. After a successful one there are none.
impl Drop for RestoredDatabase {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Checks that the database can be served, extracts its read log and migrates an older schema;
/// returns warnings.
async fn prepare_database(
    restored: &RestoredDatabase,
    settings: &Settings,
    arguments: &RestoreArguments,
) -> anyhow::Result<Vec<String>> {
    let check = async |examined| match arguments.without_root_key {
        true => Ok(Vec::new()),
        false => check_vault_key(settings, examined).await.map(|it| it.warnings),
    };
    let examined = examine_database(&restored.path, arguments.common.progress(READING))?;
    let is_current = examined.is_current;
    let warnings = check(examined).await?;
    extract_read_log(&restored.path, &restored.read_log_path)
        .map_err(explain)
        .context("the read log cannot be extracted from this backup")?;
    if is_current {
        return Ok(warnings);
    }
    // Only after the migration the policy can be read and checked.
    let upgraded = upgrade(&restored.path).map_err(explain);
    check(upgraded.context("migrating the restored database failed")?).await
}

/// Links every file of the old vault under a new name, and only then removes the old names: its WAL
/// must not be replayed into the new database, and must stay with the old one. The database is
/// removed first, so that an interruption leaves no vault rather than a vault without its WAL.
fn move_vault_aside(folder: &Path) -> anyhow::Result<Option<PathBuf>> {
    let names = existing_vault_files(folder);
    if names.is_empty() {
        return Ok(None);
    }
    let new_folder = create_aside_folder(folder)?;
    for name in &names {
        fs::hard_link(folder.join(name), new_folder.join(name))?;
    }
    sync_folder(&new_folder)?;
    for name in &names {
        fs::remove_file(folder.join(name))?;
        sync_folder(folder)?;
    }
    Ok(Some(new_folder))
}

/// Creates a folder with a new name. The name has a number if there is a folder of the same second.
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

const OLD_POLICY: &str = "the vault has the state of the backup: API keys, applications, tenants \
                          and tokens that were deleted since exist again, and revoked rights are \
                          granted again; delete and revoke them again where necessary";
const NO_CODES: &str = "a backup does not contain CVCs; restored cards have none";

fn report(
    folder: &Path,
    manifest: &Manifest,
    old_vault_folder: Option<&Path>,
    other_warnings: &[String],
) -> CommandOutput {
    let mut warnings = vec![OLD_POLICY.to_owned(), NO_CODES.to_owned()];
    warnings.extend_from_slice(other_warnings);
    let age = age_text(manifest, SystemClock.now());
    let mut text =
        format!("restored {} into {}, {age}\n", contents_text(manifest), folder.display());
    if let Some(old_vault_folder) = old_vault_folder {
        text += &format!("the previous vault is in {}\n", old_vault_folder.display());
    }
    text.extend(warnings.iter().map(|it| format!("warning: {it}\n")));
    let mut json = json!({
        "data_dir": folder,
        "backup": manifest_json(manifest),
        "warnings": warnings,
    });
    if let (Some(old_vault_folder), Some(members)) = (old_vault_folder, json.as_object_mut()) {
        members.insert("moved_aside".to_owned(), json!(old_vault_folder));
    }
    CommandOutput::new(text, json)
}
