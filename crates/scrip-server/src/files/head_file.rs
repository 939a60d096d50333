//! The heads of the logs, kept apart from them: written every few seconds when there is something
//! new, never while a request waits.
//!
//! It never goes back. When a chain is not what the file knows and more, somebody brought back an
//! older database or altered it, and what the file says of that chain stays as it is, however far
//! the chain comes; the others are kept on.
//!
//! Where several nodes share a database each keeps a file of its own, and that is enough: heads are read
//! as they were committed, and they only grow, so a node whose file is older than another's says
//! nothing wrong, only less. The one that is furthest finds the most.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, fchown},
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, bail};
use scrip_core::{
    Vault,
    audit::{
        LogKind, SavedHead, SavedHeads,
        head_file::{HeadChange, chain_contains},
    },
};
use scrip_seal::AuditKey;
use tokio::{task::spawn_blocking, time::timeout};

use crate::{
    background::delayed_interval,
    files::atomic_file::{self, path_with_suffix},
    storage::explain,
};

const UPDATE_EVERY: Duration = Duration::from_secs(2);
/// How long one waits for another who writes, and how often it looks.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// For the last time, when a server ends: its disk may hang.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(5);

/// Writes down where the logs end now, if that is not written yet. Nothing happens while the
/// vault is sealed.
///
/// # Errors
/// The logs do not go on from what the file says, or either cannot be read or written.
pub async fn update(path: &Path, vault: &Vault) -> anyhow::Result<()> {
    let Some(key) = vault.audit_trail.key() else { return Ok(()) };
    let place = path.to_owned();
    // Before the logs are asked, or another could write what is newer meanwhile.
    let (lock, text) = spawn_blocking(move || lock_and_read(&place)).await??;
    let known = text.map(|it| parse(path, key, &it)).transpose()?;
    let mut next = BTreeMap::new();
    for log in LogKind::ALL {
        let ends = vault.store.list_heads(log).await.map_err(explain)?;
        // One that somebody altered says nothing; what was kept of it stays.
        let ours = ends.iter().filter(|it| it.has_valid_mac(key, log));
        next.extend(ours.map(|it| ((log, it.tenant), SavedHead::from_head(log, it))));
    }
    let mut is_behind = false;
    for then in known.iter().flat_map(|it| &it.heads) {
        let of = (then.log, then.tenant);
        if !is_continued(vault, key, then, next.get(&of)).await? {
            is_behind = true;
            next.insert(of, *then);
        }
    }
    let next = SavedHeads { saved_at: vault.clock.now(), heads: next.into_values().collect() };
    if known.is_none_or(|it| it.heads != next.heads) {
        let (place, text) = (path.to_owned(), next.to_text(key));
        let write = move || {
            let written = replace(&place, &text);
            drop(lock);
            written
        };
        let written = spawn_blocking(write).await?;
        written.with_context(|| format!("{} cannot be written", path.display()))?;
    }
    if is_behind {
        bail!(
            "the logs do not go on from what {} says: an older database was brought back, or \
             records or a head were altered or removed; run: scrip audit verify",
            path.display()
        );
    }
    Ok(())
}

/// Whether a chain is still the one that was kept.
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
            let has = chain_contains(&*vault.store, key, saved).await;
            has.map_err(explain)
        }
    }
}

/// Nothing when there is none.
///
/// # Errors
/// It cannot be read, or is not one of this vault.
pub fn read(path: &Path, key: &AuditKey) -> anyhow::Result<Option<SavedHeads>> {
    read_text(path)?.map(|it| parse(path, key, &it)).transpose()
}

fn parse(path: &Path, key: &AuditKey, text: &str) -> anyhow::Result<SavedHeads> {
    let altered = || format!("{} was altered, or is of another vault", path.display());
    SavedHeads::parse(key, text).with_context(altered)
}

fn read_text(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// What it says, and the lock under which it says so: a server and a command may both be at it.
fn lock_and_read(path: &Path) -> anyhow::Result<(File, Option<String>)> {
    let place = path_with_suffix(path, ".lock");
    let name = place.display();
    let mut options = OpenOptions::new();
    let lock = options.write(true).create(true).truncate(false).mode(0o600).open(&place);
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

/// A command that root ran must not leave a file that the server cannot open.
fn give_to_owner(path: &Path, file: &File) {
    if let Ok(owner) = fs::metadata(path) {
        drop(fchown(file, Some(owner.uid()), Some(owner.gid())));
    }
}

/// Whoever does it holds the lock.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    Ok(atomic_file::replace(path, &path_with_suffix(path, ".draft"), |file| {
        give_to_owner(path, file);
        file.write_all(text.as_bytes())
    })?)
}

/// As long as a server runs.
pub async fn update_periodically(path: PathBuf, vault: Vault) {
    let mut ticks = delayed_interval(UPDATE_EVERY);
    let mut failed = false;
    loop {
        ticks.tick().await;
        match update(&path, &vault).await {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                let cause = format!("{error:#}");
                tracing::error!(cause, "the heads of the logs are not kept");
            }
            Err(_) => (),
        }
    }
}

/// When a server ends, which a disk must not keep it from.
pub async fn update_at_shutdown(path: &Path, vault: &Vault) {
    let updated = timeout(SHUTDOWN_DEADLINE, update(path, vault)).await;
    let updated = updated.unwrap_or_else(|_| bail!("{} does not answer", path.display()));
    if let Err(error) = updated {
        tracing::error!(cause = format!("{error:#}"), "the heads of the logs are not kept");
    }
}
