//! The audit trail told to somebody else as it grows: every record of both logs, in the order of its
//! chain, as a line of JSON.
//!
//! Never in the path of a request: a task of its own reads what was committed. How far it is is
//! written down after the sink has taken a record, so that one that is killed in between is told
//! twice, and none is left out. What was pruned before it could be told is told as a number. A chain
//! that is not the one that was told, of a database that was brought back, is told from its
//! beginning, behind a line that says so.

mod line;
mod position;
mod sink;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use scrip_core::{
    Vault,
    audit::{Head, Log, LogRecord},
};
use scrip_seal::Mac;
use tokio::task::spawn_blocking;

use crate::{
    audit_sink::{
        position::{Chain, Positions, Told},
        sink::Sink,
    },
    background::every,
    config::Export,
    storage::explain,
};

const EVERY: Duration = Duration::from_secs(1);
const RECORDS_AT_ONCE: usize = 500;

/// Until the process ends.
pub async fn follow(to: Export, data: PathBuf, vault: Vault) {
    let begin =
        move || Outside { sink: Sink::new(to.clone()), data: data.clone(), positions: None };
    let mut exporter = Exporter { outside: None, begin: Box::new(begin) };
    let mut ticks = every(EVERY);
    let mut failing = false;
    loop {
        ticks.tick().await;
        match exporter.catch_up(&vault).await {
            Ok(()) if failing => {
                failing = false;
                tracing::info!("the audit trail is exported again");
            }
            Ok(()) => (),
            Err(error) if !failing => {
                failing = true;
                let cause = format!("{error:#}");
                tracing::warn!(cause, "the audit trail is not exported; trying again");
            }
            Err(_) => (),
        }
    }
}

struct Exporter {
    outside: Option<Box<Outside>>,
    begin: Box<dyn Fn() -> Outside + Send>,
}

impl Exporter {
    async fn catch_up(&mut self, vault: &Vault) -> anyhow::Result<()> {
        for log in Log::ALL {
            let heads = vault.store.list_heads(log).await.map_err(explain)?;
            for head in heads {
                while self.tell_some(vault, log, &head).await? {}
            }
        }
        Ok(())
    }

    /// Whether there may be more of this chain.
    async fn tell_some(&mut self, vault: &Vault, log: Log, head: &Head) -> anyhow::Result<bool> {
        let mut outside = self.outside.take().unwrap_or_else(|| Box::new((self.begin)()));
        let of = (log, head.tenant);
        let told = outside.positions()?.of(of);
        if told.map_or(head.n == 0, |it| it.n == head.n && it.link.is(&head.link)) {
            self.outside = Some(outside);
            return Ok(false);
        }
        let batch = batch(vault, log, head, told).await?;
        // Disks and daemons may take their time, and no request waits behind them.
        let tell = move || {
            let told = outside.tell(&batch.lines, of, batch.last);
            (outside, told)
        };
        let (outside, told) = spawn_blocking(tell).await?;
        self.outside = Some(outside);
        told.map(|()| true)
    }
}

/// What is told at once, and how far that is.
struct Batch {
    lines: Vec<String>,
    last: Told,
}

/// The next records of a chain up to its head as it was listed: one that is told beyond it would
/// look like a chain that has become shorter.
async fn batch(vault: &Vault, log: Log, head: &Head, told: Option<Told>) -> anyhow::Result<Batch> {
    let list = async |after| {
        let records = vault.store.list_records(log, head.tenant, after, RECORDS_AT_ONCE).await;
        let mut records = records.map_err(explain)?;
        records.retain(|it| it.n <= head.n);
        anyhow::Ok(records)
    };
    let mut lines = Vec::with_capacity(RECORDS_AT_ONCE.saturating_add(1));
    // With the one that was told last, to see that it is still the same.
    let mut records = list(told.map_or(0, |it| it.n.saturating_sub(1))).await?;
    match told {
        None => (),
        Some(told) if is_another(told, head, records.first()) => {
            tracing::warn!("a log is not the one that was exported: an older one was brought back");
            lines.push(line::rolled_back(log, head.tenant, told.n));
            records = list(0).await?;
        }
        Some(told) => {
            records.retain(|it| it.n > told.n);
            let first = records.first().map_or(head.n.saturating_add(1), |it| it.n);
            let missing = first.saturating_sub(told.n).saturating_sub(1);
            if missing > 0 {
                tracing::warn!(missing, "records were pruned before they could be exported");
                lines.push(line::missing(log, head.tenant, told.n, missing));
            }
        }
    }
    lines.extend(records.iter().map(|it| line::of(log, it)));
    // When nothing is left, all of it was pruned up to the head.
    let last = records.last().map_or((head.n, head.link), |it| (it.n, it.link));
    Ok(Batch { lines, last: Told { n: last.0, link: last.1 } })
}

/// Whether a chain is not the one that was told: it ends before that, or has another record there.
/// Of one that was pruned there it cannot be said.
fn is_another(told: Told, head: &Head, found: Option<&LogRecord>) -> bool {
    let differs = |(n, link): (i64, Mac)| n == told.n && !link.is(&told.link);
    let found = found.is_some_and(|it| differs((it.n, it.link)));
    head.n < told.n || found || differs((head.n, head.link))
}

/// What is outside of the vault: who takes the lines, and how far that is.
struct Outside {
    sink: Sink,
    data: PathBuf,
    /// As they were last read or written.
    positions: Option<Positions>,
}

impl Outside {
    fn positions(&mut self) -> anyhow::Result<&mut Positions> {
        if self.positions.is_none() {
            self.positions = Some(Positions::read(&self.data)?);
        }
        self.positions.as_mut().context("they were read just now")
    }

    fn tell(&mut self, lines: &[String], of: Chain, last: Told) -> anyhow::Result<()> {
        if !lines.is_empty() {
            self.sink.take(lines).context("it cannot be written")?;
        }
        let data = self.data.clone();
        let positions = self.positions()?;
        positions.set(of, last);
        positions.write(&data)
    }
}

/// Where positions are.
fn path(data: &Path) -> PathBuf {
    data.join("audit.exported")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use scrip_core::{
        operations::tenants::{
            create_tenant::{create_tenant, found_vault},
            delete_tenant::delete_tenant_by_id,
        },
        policy::{Directory, Name, Settings as TenantSettings, TenantKind},
    };

    use super::*;
    use crate::config::{Environment, Settings};

    #[tokio::test]
    async fn nothing_is_told_beyond_the_head_that_was_listed() {
        let folder = tempfile::tempdir().unwrap();
        let flag = ("storage.data_dir", folder.path().display().to_string());
        let settings = Settings::without_file(&[flag], &Environment::default()).unwrap();
        settings.create_store().await.unwrap();
        settings.create_root_key().unwrap();
        let (vault, source) =
            (settings.open_vault_beside().await.unwrap(), settings.key_source().unwrap());
        found_vault(&vault, &*source).await.unwrap();
        let directory = Directory::load(&*vault.store, &*source, None).await.unwrap();
        vault.audit.open(directory.audit_key());
        let (name, kind) = (Name::parse("Acme").unwrap(), TenantKind::Test);
        let made = create_tenant(&vault, &*source, name, kind, TenantSettings::default()).await;
        let listed = vault.store.list_heads(Log::Audit).await.unwrap();
        // The chain goes on after it was listed.
        delete_tenant_by_id(&vault, made.unwrap(), None).await.unwrap();
        let file = folder.path().join("trail.jsonl");
        let (to, data) = (Export::File(file.clone()), folder.path().to_owned());
        let begin =
            move || Outside { sink: Sink::new(to.clone()), data: data.clone(), positions: None };
        let mut exporter = Exporter { outside: None, begin: Box::new(begin) };
        let lines = || fs::read_to_string(&file).unwrap().lines().count();
        assert!(exporter.tell_some(&vault, Log::Audit, &listed[0]).await.unwrap());
        assert!(!exporter.tell_some(&vault, Log::Audit, &listed[0]).await.unwrap());
        assert_eq!(lines(), 1);
        exporter.catch_up(&vault).await.unwrap();
        assert_eq!(lines(), 2);
    }
}
