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
    audit::{ChainHead, LogKind, LogRecord},
};
use scrip_seal::Mac;
use tokio::task::spawn_blocking;

use crate::{
    audit_sink::{
        position::{ChainKey, SinkPosition, SinkPositions},
        sink::LineSink,
    },
    background::delayed_interval,
    config::AuditSinkTarget,
    storage::explain,
};

const POLL_EVERY: Duration = Duration::from_secs(1);
const BATCH_RECORDS_MAX: usize = 500;

/// Until the process ends.
pub async fn run_sink(target: AuditSinkTarget, data: PathBuf, vault: Vault) {
    let begin = move || SinkState {
        sink: LineSink::new(target.clone()),
        data_dir: data.clone(),
        positions: None,
    };
    let mut exporter = SinkWriter { state: None, open_state: Box::new(begin) };
    let mut ticks = delayed_interval(POLL_EVERY);
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

struct SinkWriter {
    state: Option<Box<SinkState>>,
    open_state: Box<dyn Fn() -> SinkState + Send>,
}

impl SinkWriter {
    async fn catch_up(&mut self, vault: &Vault) -> anyhow::Result<()> {
        for log in LogKind::ALL {
            let heads = vault.store.list_heads(log).await.map_err(explain)?;
            for head in heads {
                while self.write_next_batch(vault, log, &head).await? {}
            }
        }
        Ok(())
    }

    /// Whether there may be more of this chain.
    async fn write_next_batch(
        &mut self,
        vault: &Vault,
        log: LogKind,
        head: &ChainHead,
    ) -> anyhow::Result<bool> {
        let mut outside = self.state.take().unwrap_or_else(|| Box::new((self.open_state)()));
        let of = (log, head.tenant);
        let told = outside.positions()?.chain(of);
        if told.map_or(head.sequence == 0, |it| {
            it.n == head.sequence && it.link.constant_time_eq(&head.link)
        }) {
            self.state = Some(outside);
            return Ok(false);
        }
        let batch = read_batch(vault, log, head, told).await?;
        // Disks and daemons may take their time, and no request waits behind them.
        let tell = move || {
            let told = outside.write_lines(&batch.lines, of, batch.last_position);
            (outside, told)
        };
        let (outside, told) = spawn_blocking(tell).await?;
        self.state = Some(outside);
        told.map(|()| true)
    }
}

/// What is told at once, and how far that is.
struct SinkBatch {
    lines: Vec<String>,
    last_position: SinkPosition,
}

/// The next records of a chain up to its head as it was listed: one that is told beyond it would
/// look like a chain that has become shorter.
async fn read_batch(
    vault: &Vault,
    log: LogKind,
    head: &ChainHead,
    position: Option<SinkPosition>,
) -> anyhow::Result<SinkBatch> {
    let list = async |after| {
        let records = vault.store.list_records(log, head.tenant, after, BATCH_RECORDS_MAX).await;
        let mut records = records.map_err(explain)?;
        records.retain(|it| it.sequence <= head.sequence);
        anyhow::Ok(records)
    };
    let mut lines = Vec::with_capacity(BATCH_RECORDS_MAX.saturating_add(1));
    // With the one that was told last, to see that it is still the same.
    let mut records = list(position.map_or(0, |it| it.n.saturating_sub(1))).await?;
    match position {
        None => (),
        Some(told) if is_different_chain(told, head, records.first()) => {
            tracing::warn!("a log is not the one that was exported: an older one was brought back");
            lines.push(line::format_rolled_back(log, head.tenant, told.n));
            records = list(0).await?;
        }
        Some(told) => {
            records.retain(|it| it.sequence > told.n);
            let first = records.first().map_or(head.sequence.saturating_add(1), |it| it.sequence);
            let missing = first.saturating_sub(told.n).saturating_sub(1);
            if missing > 0 {
                tracing::warn!(missing, "records were pruned before they could be exported");
                lines.push(line::format_missing(log, head.tenant, told.n, missing));
            }
        }
    }
    lines.extend(records.iter().map(|it| line::format_record(log, it)));
    // When nothing is left, all of it was pruned up to the head.
    let last = records.last().map_or((head.sequence, head.link), |it| (it.sequence, it.link));
    Ok(SinkBatch { lines, last_position: SinkPosition { n: last.0, link: last.1 } })
}

/// Whether a chain is not the one that was told: it ends before that, or has another record there.
/// Of one that was pruned there it cannot be said.
fn is_different_chain(
    position: SinkPosition,
    head: &ChainHead,
    record: Option<&LogRecord>,
) -> bool {
    let differs = |(n, link): (i64, Mac)| n == position.n && !link.constant_time_eq(&position.link);
    let found = record.is_some_and(|it| differs((it.sequence, it.link)));
    head.sequence < position.n || found || differs((head.sequence, head.link))
}

/// What is outside of the vault: who takes the lines, and how far that is.
struct SinkState {
    sink: LineSink,
    data_dir: PathBuf,
    /// As they were last read or written.
    positions: Option<SinkPositions>,
}

impl SinkState {
    fn positions(&mut self) -> anyhow::Result<&mut SinkPositions> {
        if self.positions.is_none() {
            self.positions = Some(SinkPositions::read(&self.data_dir)?);
        }
        self.positions.as_mut().context("they were read just now")
    }

    fn write_lines(
        &mut self,
        lines: &[String],
        chain: ChainKey,
        position: SinkPosition,
    ) -> anyhow::Result<()> {
        if !lines.is_empty() {
            self.sink.write(lines).context("it cannot be written")?;
        }
        let data = self.data_dir.clone();
        let positions = self.positions()?;
        positions.set(chain, position);
        positions.write(&data)
    }
}

/// Where positions are.
fn position_file(data_dir: &Path) -> PathBuf {
    data_dir.join("audit.exported")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use scrip_core::{
        operations::tenants::{
            create_tenant::{create_tenant, initialize_vault_keys},
            delete_tenant::delete_tenant_by_id,
        },
        policy::{Directory, DisplayName, TenantKind, TenantSettings},
    };

    use super::*;
    use crate::config::{Environment, Settings};

    #[tokio::test]
    async fn records_beyond_the_listed_head_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let flag = ("storage.data_dir", folder.path().display().to_string());
        let settings = Settings::without_file(&[flag], &Environment::default()).unwrap();
        settings.create_store().await.unwrap();
        settings.create_root_key().unwrap();
        let (vault, source) =
            (settings.open_vault_for_command().await.unwrap(), settings.key_source().unwrap());
        initialize_vault_keys(&vault, &*source).await.unwrap();
        let directory = Directory::load(&*vault.store, &*source, None).await.unwrap();
        vault.audit_trail.set_key(directory.audit_key());
        let (name, kind) = (DisplayName::parse("Acme").unwrap(), TenantKind::Test);
        let created = create_tenant(&vault, &*source, name, kind, TenantSettings::default()).await;
        let listed = vault.store.list_heads(LogKind::Audit).await.unwrap();
        // The chain goes on after it was listed.
        delete_tenant_by_id(&vault, created.unwrap(), None).await.unwrap();
        let file = folder.path().join("trail.jsonl");
        let (to, data) = (AuditSinkTarget::File(file.clone()), folder.path().to_owned());
        let begin = move || SinkState {
            sink: LineSink::new(to.clone()),
            data_dir: data.clone(),
            positions: None,
        };
        let mut exporter = SinkWriter { state: None, open_state: Box::new(begin) };
        let lines = || fs::read_to_string(&file).unwrap().lines().count();
        assert!(exporter.write_next_batch(&vault, LogKind::Audit, &listed[0]).await.unwrap());
        assert!(!exporter.write_next_batch(&vault, LogKind::Audit, &listed[0]).await.unwrap());
        assert_eq!(lines(), 1);
        exporter.catch_up(&vault).await.unwrap();
        assert_eq!(lines(), 2);
    }
}
