//! The heads of the logs, kept apart from them: written every few seconds when there is something
//! new, never while a request waits.
//!
//! It never goes back. When a chain is behind it, somebody brought back an older database, and what
//! the file says of that chain stays as it is.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use scrip_core::{
    Vault,
    audit::{
        chain::Log,
        head_file::{KeptHead, KeptHeads},
    },
};
use scrip_seal::AuditKey;
use tokio::time::{MissedTickBehavior, interval};

use crate::data::explain;

const EVERY: Duration = Duration::from_secs(2);

/// Whoever writes the file.
#[derive(Debug)]
pub(crate) struct HeadKeeper {
    path: PathBuf,
    /// As it was last read or written here.
    known: Option<KeptHeads>,
}

impl HeadKeeper {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, known: None }
    }

    /// Writes down where the logs end now, if that is not written yet. Nothing happens while the
    /// vault is sealed.
    ///
    /// # Errors
    /// The logs are behind the file, or either cannot be read or written.
    pub(crate) async fn update(&mut self, vault: &Vault) -> anyhow::Result<()> {
        let Some(key) = vault.audit.key() else { return Ok(()) };
        let mut heads = Vec::new();
        for log in Log::ALL {
            let ends = vault.store.list_heads(log).await.map_err(|it| explain(it.into()))?;
            // One that somebody altered says nothing; what was kept of it stays.
            let ours = ends.iter().filter(|it| it.is_ours(key, log));
            heads.extend(ours.map(|it| KeptHead::of(log, it)));
        }
        if self.known.is_none() {
            self.known = read(&self.path, key)?;
        }
        let now = KeptHeads { at: vault.clock.now(), heads };
        let is_behind = self.known.as_ref().is_some_and(|it| !now.follows(it));
        let next = self.known.as_ref().map_or_else(|| now.clone(), |it| now.onto(it));
        if self.known.as_ref().is_none_or(|it| it.heads != next.heads) {
            replace(&self.path, &next.to_text(key))
                .with_context(|| format!("{} cannot be written", self.path.display()))?;
            self.known = Some(next);
        }
        if is_behind {
            bail!(
                "the logs end before {} says: an older database was brought back, or records or a \
                 head were altered or removed; run: scrip audit verify",
                self.path.display()
            );
        }
        Ok(())
    }
}

/// Nothing when there is none.
///
/// # Errors
/// It cannot be read, or is not one of this vault.
pub(crate) fn read(path: &Path, key: &AuditKey) -> anyhow::Result<Option<KeptHeads>> {
    let name = path.display();
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{name} cannot be read")),
    };
    let heads = KeptHeads::parse(key, &text);
    Ok(Some(heads.with_context(|| format!("{name} was altered, or is of another vault"))?))
}

/// Whole or not at all. A name of its own for each process: two may be at it.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}.draft", std::process::id()));
    let draft = PathBuf::from(draft);
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| fs::rename(&draft, path));
    if placed.is_err() {
        drop(fs::remove_file(&draft));
    }
    placed?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(folder)?.sync_all()?)
}

/// As long as a server runs.
pub(crate) async fn follow(path: PathBuf, vault: Vault) {
    let mut keeper = HeadKeeper::new(path);
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failed = false;
    loop {
        ticks.tick().await;
        match keeper.update(&vault).await {
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
