//! Head file: the chain heads of both logs, stored outside the database. A background task updates
//! it every few seconds; no request waits for it.
//!
//! The file never goes back. If a chain does not continue the saved head, an older database was
//! restored or the chain was altered. The saved head of that chain then stays unchanged, however
//! long the chain becomes; the heads of other chains are still updated.
//!
//! Each node that shares a database has its own file, which is sufficient: heads are read as
//! committed and only advance, so an older file is never wrong, only less complete. The newest file
//! detects the most.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, bail};
use scrip_core::{
    Timestamp, Vault,
    audit::{HeadChange, LogKind, LogRecord, SavedHead},
    log_tasks::{SavedHeads, head_file::chain_contains},
    types::id::TenantId,
};
use scrip_operator::error::explain;
use scrip_seal::{AuditKey, Mac};
use tokio::{task::spawn_blocking, time::timeout};

use crate::{
    clock::ticks,
    files::atomic_file::{self, path_with_suffix},
    periodic_tasks::{FailureLog, delayed_interval},
};

const UPDATE_EVERY: Duration = Duration::from_secs(2);
/// Maximum wait for the lock of another process, and the pause between attempts.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// Maximum duration of the last update at shutdown, because the disk may hang.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether an update found the file, or created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileBefore {
    Existing,
    Missing,
}

/// Saves the current chain heads if they changed. Does nothing while the vault is sealed, and
/// returns `None` then.
///
/// Errors: a log does not continue its saved head, or the file or the logs cannot be read or
/// written.
async fn update(path: &Path, vault: &Vault) -> anyhow::Result<Option<FileBefore>> {
    let Some(key) = vault.audit_trail.key() else { return Ok(None) };
    let owned_path = path.to_owned();
    // Lock before reading the heads: otherwise another process could save newer heads in between.
    let (lock, text) = spawn_blocking(move || lock_and_read(&owned_path)).await??;
    let saved = text.map(|it| parse(path, key, &it)).transpose()?;
    let file_before = if saved.is_some() { FileBefore::Existing } else { FileBefore::Missing };
    let mut current = list_current_heads(vault, key).await?;
    let discontinued = find_discontinued(vault, key, saved.as_ref(), &current).await?;
    current.extend(discontinued.iter().map(|it| ((it.log, it.tenant), *it)));
    let current =
        SavedHeads { saved_at: vault.clock.now(), heads: current.into_values().collect() };
    if saved.is_none_or(|it| it.heads != current.heads) {
        let (owned_path, text) = (path.to_owned(), current.to_text(key));
        let write = move || {
            let result = replace(&owned_path, &text);
            drop(lock);
            result
        };
        let result = spawn_blocking(write).await?;
        result.with_context(|| format!("{} cannot be written", path.display()))?;
    }
    if !discontinued.is_empty() {
        bail!(describe_rollback(path));
    }
    Ok(Some(file_before))
}

/// Saves the current chain heads. Returns a warning if the file was missing, for a command on a
/// vault that has existed before: the new file knows only the current heads.
///
/// Errors: a log does not continue its saved head, or the file or the logs cannot be read or
/// written.
pub async fn update_by_command(path: &Path, vault: &Vault) -> anyhow::Result<Option<String>> {
    let file_before = update(path, vault).await?;
    Ok((file_before == Some(FileBefore::Missing)).then(|| describe_missing_file(path)))
}

/// Returns the message about a file that an update has created. Only the operator knows whether
/// this node ever had one.
fn describe_missing_file(path: &Path) -> String {
    format!(
        "{} was missing and was created from the current logs: this node is new, its vault was \
         restored or imported, or the file was moved or removed. If it was moved or removed, \
         compare the logs with a copy of the old file: a rollback that happened before stays \
         undetected",
        path.display()
    )
}

/// The heads of all chains.
type HeadsByChain = BTreeMap<(LogKind, TenantId), SavedHead>;

/// Ignores altered heads; their saved heads stay.
async fn list_current_heads(vault: &Vault, key: &AuditKey) -> anyhow::Result<HeadsByChain> {
    let mut current = BTreeMap::new();
    for log in LogKind::ALL {
        let heads = vault.store.list_heads(log).await.map_err(explain)?;
        let valid_heads = heads.iter().filter(|it| it.has_valid_mac(key, log));
        current.extend(valid_heads.map(|it| ((log, it.tenant), SavedHead::from_head(log, it))));
    }
    Ok(current)
}

/// Returns the saved heads that the chains do not continue.
async fn find_discontinued(
    vault: &Vault,
    key: &AuditKey,
    saved: Option<&SavedHeads>,
    current: &HeadsByChain,
) -> anyhow::Result<Vec<SavedHead>> {
    let mut discontinued = Vec::new();
    for saved_head in saved.iter().flat_map(|it| &it.heads) {
        let current_head = current.get(&(saved_head.log, saved_head.tenant));
        if !is_continued(vault, key, saved_head, current_head).await? {
            discontinued.push(*saved_head);
        }
    }
    Ok(discontinued)
}

/// Returns the heads in the file that the chains do not continue, and changes nothing. A missing
/// file has no heads.
/// Errors: the file was altered, or the file or the logs cannot be read.
pub async fn list_discontinued_chains(
    path: &Path,
    vault: &Vault,
) -> anyhow::Result<Vec<SavedHead>> {
    let Some(key) = vault.audit_trail.key() else { return Ok(Vec::new()) };
    // Before the heads, which a server may advance and save at the same time.
    let saved = read(path, key)?;
    let current = list_current_heads(vault, key).await?;
    find_discontinued(vault, key, saved.as_ref(), &current).await
}

/// Returns the message about chains that do not continue the heads in the file.
pub fn describe_rollback(path: &Path) -> String {
    format!(
        "the logs do not continue the chain heads in {}: an older database was restored, or \
         records or a head were altered or removed; run: scrip audit verify",
        path.display()
    )
}

/// Returns whether the chain still contains the saved head.
async fn is_continued(
    vault: &Vault,
    key: &AuditKey,
    saved: &SavedHead,
    current: Option<&SavedHead>,
) -> anyhow::Result<bool> {
    match saved.change_to(current) {
        HeadChange::Unchanged => Ok(true),
        HeadChange::RolledBack => Ok(false),
        HeadChange::Advanced => {
            let contains = chain_contains(&*vault.store, key, saved).await;
            contains.map_err(explain)
        }
    }
}

/// Whether the chain of a tenant continues its head in the file. A chain without a saved head does.
/// Errors: the file was altered, or the file or the log cannot be read.
pub async fn is_chain_continued(
    path: &Path,
    vault: &Vault,
    log: LogKind,
    tenant: TenantId,
) -> anyhow::Result<bool> {
    let Some(key) = vault.audit_trail.key() else { return Ok(true) };
    // Before the heads, which a server may advance and save at the same time.
    let saved = read(path, key)?;
    let is_chain = |it: &&SavedHead| it.log == log && it.tenant == tenant;
    let Some(saved_head) = saved.iter().flat_map(|it| &it.heads).find(is_chain) else {
        return Ok(true);
    };
    let heads = vault.store.list_heads(log).await.map_err(explain)?;
    let current = heads.iter().find(|it| it.tenant == tenant && it.has_valid_mac(key, log));
    let current = current.map(|it| SavedHead::from_head(log, it));
    is_continued(vault, key, saved_head, current.as_ref()).await
}

/// Reads the saved heads. Returns `None` if the file does not exist.
/// Errors: the file cannot be read, was altered, or belongs to another vault.
pub fn read(path: &Path, key: &AuditKey) -> anyhow::Result<Option<SavedHeads>> {
    read_text(path)?.map(|it| parse(path, key, &it)).transpose()
}

fn parse(path: &Path, key: &AuditKey, text: &str) -> anyhow::Result<SavedHeads> {
    let error_context = || format!("{} was altered or belongs to another vault", path.display());
    SavedHeads::parse(key, text).with_context(error_context)
}

fn read_text(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// Locks the file and returns the lock and the content. A server and a command may both update the
/// file.
fn lock_and_read(path: &Path) -> anyhow::Result<(File, Option<String>)> {
    let lock_path = path_with_suffix(path, ".lock");
    let name = lock_path.display();
    let mut options = OpenOptions::new();
    let lock = options.write(true).create(true).truncate(false).mode(0o600).open(&lock_path);
    let lock = lock.with_context(|| format!("{name} cannot be opened"))?;
    give_to_owner(path, &lock);
    let mut waited = Duration::ZERO;
    loop {
        match lock.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if waited < LOCK_TIMEOUT => sleep(LOCK_PAUSE),
            Err(error) => return Err(error).with_context(|| format!("{name} cannot be locked")),
        }
        waited = waited.saturating_add(LOCK_PAUSE);
    }
    Ok((lock, read_text(path)?))
}

/// Gives the file to the owner of `path`: a command run by root must not leave a file that the
/// server cannot open.
fn give_to_owner(path: &Path, file: &File) {
    if let Ok(owner) = fs::metadata(path) {
        drop(fchown(file, Some(owner.uid()), Some(owner.gid())));
    }
}

/// Replaces the head file. The caller has the lock.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    Ok(atomic_file::replace(path, &path_with_suffix(path, ".tmp"), |file| {
        give_to_owner(path, file);
        file.write_all(text.as_bytes())
    })?)
}

/// The head file of a running server, which notices that the file is missing.
#[derive(Debug)]
pub struct ServerHeadFile {
    path: PathBuf,
    started_at: Duration,
    /// Whether an update has succeeded, so that the file exists.
    was_updated: AtomicBool,
}

impl ServerHeadFile {
    pub fn new(path: PathBuf) -> Self {
        Self { path, started_at: ticks(), was_updated: AtomicBool::new(false) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Saves the current chain heads. Logs that the file was missing, and returns the text: the new
    /// file knows only the current heads, so this line is the only trace.
    ///
    /// Errors: as [`update_by_command`].
    pub async fn update(&self, vault: &Vault) -> anyhow::Result<Option<String>> {
        let Some(file_before) = update(&self.path, vault).await? else { return Ok(None) };
        let was_updated = self.was_updated.swap(true, Ordering::Relaxed);
        if file_before == FileBefore::Existing {
            return Ok(None);
        }
        if was_updated {
            let text = self.describe_lost_file();
            tracing::error!("{text}");
            return Ok(Some(text));
        }
        let uptime = ticks().saturating_sub(self.started_at);
        if is_vault_younger(vault, uptime).await {
            return Ok(None);
        }
        let text = describe_missing_file(&self.path);
        tracing::warn!("{text}");
        Ok(Some(text))
    }

    fn describe_lost_file(&self) -> String {
        format!(
            "{} was moved or removed while the server was running; it was created again from the \
             current logs. Compare the logs with a copy of the old file: a rollback that happened \
             before stays undetected",
            self.path.display()
        )
    }
}

/// The link before the first record of a chain.
const NO_LINK: Mac = Mac([0; 32]);

/// Whether the vault was created within this time. Its own chain begins with its creation; a pruned
/// chain is old.
async fn is_vault_younger(vault: &Vault, age_max: Duration) -> bool {
    let Some(key) = vault.audit_trail.key() else { return false };
    let records = vault.store.list_records(LogKind::Read, TenantId::VAULT, 0, 1).await;
    // The caller has just read the heads, so a failure is a failure of the store, which it logs.
    records.is_ok_and(|it| is_young_start(it.first(), key, vault.clock.now(), age_max))
}

/// Whether a chain begins with this record, and not earlier than this time ago. A missing or altered
/// record and one of the future count as old: a writer of the database can make them.
fn is_young_start(
    first: Option<&LogRecord>,
    key: &AuditKey,
    now: Timestamp,
    age_max: Duration,
) -> bool {
    let has_valid_link = |it: &LogRecord| it.to_row().has_valid_link(key, LogKind::Read, NO_LINK);
    let Some(first) = first.filter(|it| it.sequence == 1 && has_valid_link(it)) else {
        return false;
    };
    let age = u64::try_from(now.unix_ms.saturating_sub(first.at.unix_ms));
    age.is_ok_and(|it| Duration::from_millis(it) <= age_max)
}

/// Updates the file every two seconds, until the server stops.
pub async fn update_periodically(file: Arc<ServerHeadFile>, vault: Vault) {
    let mut ticks = delayed_interval(UPDATE_EVERY);
    let mut failures = FailureLog::error(
        "saving the chain heads failed: a rollback of the database may stay undetected",
        "the chain heads are saved again",
    );
    loop {
        ticks.tick().await;
        failures.record(&file.update(&vault).await);
    }
}

/// Updates the file at shutdown, with a timeout: a hanging disk must not block the exit.
pub async fn update_at_shutdown(file: &ServerHeadFile, vault: &Vault) {
    let result = timeout(SHUTDOWN_TIMEOUT, file.update(vault)).await;
    let result = result.unwrap_or_else(|_| bail!("writing {} took too long", file.path.display()));
    if let Err(error) = result {
        tracing::error!(cause = format!("{error:#}"), "saving the chain heads failed at shutdown");
    }
}

#[cfg(test)]
mod tests {
    use scrip_testing::vault_harness::{Engine, VaultHarness};

    use super::*;

    #[tokio::test]
    async fn vault_is_young_only_with_an_unaltered_first_record_of_the_past() {
        const MINUTE: Duration = Duration::from_secs(60);
        let harness = VaultHarness::open(Engine::Memory).await;
        let vault = &harness.vault;
        let directory = harness.directory().await;
        let key = directory.audit_key();
        vault.audit_trail.set_key(key);
        vault.record_command("init", "completed").await.unwrap();
        let records = vault.store.list_records(LogKind::Read, TenantId::VAULT, 0, 1).await.unwrap();
        let first = records.first().unwrap();
        let now = vault.clock.now();
        let is_young = |first, now| is_young_start(first, key, now, MINUTE);
        assert!(is_young(Some(first), now));
        assert!(!is_young(Some(first), now.plus(MINUTE + Duration::from_millis(1))), "old");
        assert!(!is_young(None, now), "an empty chain");
        let future = Timestamp { unix_ms: first.at.unix_ms - 1 };
        assert!(!is_young(Some(first), future), "a time of the future");
        let altered = LogRecord { at: first.at.plus(MINUTE), ..first.clone() };
        assert!(!is_young(Some(&altered), now.plus(2 * MINUTE)), "an altered time");
        let pruned = LogRecord { sequence: 2, ..first.clone() };
        assert!(!is_young(Some(&pruned), now));
    }
}
