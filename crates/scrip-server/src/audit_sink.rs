//! Audit sink: writes every record of both logs to a file or to syslog, one JSON line per record,
//! in the order of the hash chain.
//!
//! The sink never delays a request: a separate task reads committed records. The task saves its
//! position after the sink accepted a record. A crash in between repeats records and never loses
//! one. Records that were pruned before the sink received them are reported as a count. If a chain
//! is not the chain that was written before (an older database was restored, or its head was
//! altered), a line reports this and the chain is written again from its first record, once.

pub mod health;
mod position;
mod sink;

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use scrip_api::wire::log::{LogBody, body};
use scrip_core::{
    Vault,
    audit::{ChainHead, LogKind, LogRecord},
    types::id::TenantId,
};
use scrip_operator::error::explain;
use scrip_seal::Mac;
use serde::Serialize;
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::{
    audit_sink::{
        health::SinkHealth,
        position::{ChainKey, SinkPosition, SinkPositions},
        sink::LineSink,
    },
    config::AuditSinkTarget,
    periodic_tasks::{FailureLog, delayed_interval},
};

const POLL_EVERY: Duration = Duration::from_secs(1);
const BATCH_RECORDS_MAX: usize = 500;

/// Writes new records to the sink every second, until the process exits.
pub async fn run_sink(
    target: AuditSinkTarget,
    data_dir: PathBuf,
    vault: Vault,
    health: Arc<SinkHealth>,
) {
    let open_state = move || SinkState::new(target.clone(), data_dir.clone());
    let mut writer = SinkWriter { state: None, open_state: Box::new(open_state) };
    let mut ticks = delayed_interval(POLL_EVERY);
    let mut failures = FailureLog::warning(
        "audit records were not written to the sink; retrying",
        "audit sink works again",
    );
    loop {
        ticks.tick().await;
        let result = writer.catch_up(&vault).await;
        health.set_cause(result.as_ref().err().map(|it| format!("{it:#}")));
        failures.record(&result);
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
        self.save_positions().await
    }

    /// Saves the positions again if that failed before. The sink works only when its positions are
    /// saved too: after a restart it would repeat records.
    async fn save_positions(&mut self) -> anyhow::Result<()> {
        let Some(mut state) = self.state.take_if(|it| it.has_unsaved_positions) else {
            return Ok(());
        };
        let save = move || {
            let result = state.save_positions();
            (state, result)
        };
        let (state, result) = spawn_blocking(save).await?;
        self.state = Some(state);
        result
    }

    /// Returns whether the chain may have more records.
    async fn write_next_batch(
        &mut self,
        vault: &Vault,
        log: LogKind,
        head: &ChainHead,
    ) -> anyhow::Result<bool> {
        let mut state = self.state.take().unwrap_or_else(|| Box::new((self.open_state)()));
        let chain = (log, head.tenant);
        let position = state.positions()?.chain(chain);
        if position.map_or(head.sequence == 0, |it| {
            it.sequence == head.sequence && it.link.constant_time_eq(&head.link)
        }) {
            self.state = Some(state);
            return Ok(false);
        }
        let batch = read_batch(vault, log, head, position).await?;
        // Disks and daemons can be slow: write on a thread that serves no request.
        let write = move || {
            let result = state.write_lines(&batch.lines, chain, batch.last_position);
            (state, result)
        };
        let (state, result) = spawn_blocking(write).await?;
        self.state = Some(state);
        result.map(|()| true)
    }
}

/// Lines of one write, and the position after them.
struct SinkBatch {
    lines: Vec<String>,
    last_position: SinkPosition,
}

/// Reads the next records of a chain, up to the listed head. A position beyond that head would make
/// the chain look truncated.
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
    // Includes the last written record, to check that it is unchanged.
    let mut records = list(position.map_or(0, |it| it.sequence.saturating_sub(1))).await?;
    match position {
        None => (),
        Some(last_written) if is_different_chain(last_written, head, records.first()) => {
            tracing::warn!(
                "a log differs from the records written to the audit sink: an older database was \
                 restored, or a chain head was altered; writing the log again from its start"
            );
            lines.push(format_rolled_back(log, head.tenant, last_written.sequence));
            records = list(0).await?;
        }
        Some(last_written) => {
            records.retain(|it| it.sequence > last_written.sequence);
            let first_sequence =
                records.first().map_or(head.sequence.saturating_add(1), |it| it.sequence);
            let missing = first_sequence.saturating_sub(last_written.sequence).saturating_sub(1);
            if missing > 0 {
                tracing::warn!(
                    missing,
                    "records were pruned before they were written to the audit sink"
                );
                lines.push(format_missing(log, head.tenant, last_written.sequence, missing));
            }
        }
    }
    lines.extend(records.iter().map(|it| format_record(log, it)));
    // If no record is left, all records up to the head were pruned. At the end of the chain the
    // position is the head itself: the head of an altered chain may differ from the last record, and
    // must not be reported and written again until it changes.
    let (sequence, link) = records
        .last()
        .filter(|it| it.sequence != head.sequence)
        .map_or((head.sequence, head.link), |it| (it.sequence, it.link));
    Ok(SinkBatch { lines, last_position: SinkPosition { sequence, link } })
}

/// Returns whether the chain differs from the written one: it ends earlier, or has another record
/// at that position. If the record at that position was pruned, the chain counts as the same.
fn is_different_chain(
    position: SinkPosition,
    head: &ChainHead,
    record: Option<&LogRecord>,
) -> bool {
    let differs = |(sequence, link): (i64, Mac)| {
        sequence == position.sequence && !link.constant_time_eq(&position.link)
    };
    let record_differs = record.is_some_and(|it| differs((it.sequence, it.link)));
    head.sequence < position.sequence || record_differs || differs((head.sequence, head.link))
}

/// State outside the vault: the sink and the positions.
struct SinkState {
    sink: LineSink,
    data_dir: PathBuf,
    /// Positions as last read or written.
    positions: Option<SinkPositions>,
    /// The sink accepted records, and the positions after them were not saved yet.
    has_unsaved_positions: bool,
}

impl SinkState {
    fn new(target: AuditSinkTarget, data_dir: PathBuf) -> Self {
        let sink = LineSink::new(target);
        Self { sink, data_dir, positions: None, has_unsaved_positions: false }
    }

    fn positions(&mut self) -> anyhow::Result<&mut SinkPositions> {
        if self.positions.is_none() {
            self.positions = Some(SinkPositions::read(&self.data_dir)?);
        }
        self.positions.as_mut().context("positions are not loaded")
    }

    fn write_lines(
        &mut self,
        lines: &[String],
        chain: ChainKey,
        position: SinkPosition,
    ) -> anyhow::Result<()> {
        if !lines.is_empty() {
            self.sink.write(lines).context("the audit sink cannot be written")?;
        }
        self.positions()?.set(chain, position);
        self.has_unsaved_positions = true;
        // A failure must not delay the other chains. `catch_up` saves again and reports it.
        drop(self.save_positions());
        Ok(())
    }

    fn save_positions(&mut self) -> anyhow::Result<()> {
        let data_dir = self.data_dir.clone();
        self.positions()?.write(&data_dir)?;
        self.has_unsaved_positions = false;
        Ok(())
    }
}

/// A record as a JSON line: the attributes of `GET /logs` with the log, sequence number and MAC. A
/// reader can find gaps and, with the key, verify the record.
#[derive(Serialize)]
struct AuditLine<'a> {
    log: &'static str,
    sequence: i64,
    #[serde(flatten)]
    record: LogBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os_user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<i64>,
    mac: String,
}

fn format_record(log: LogKind, record: &LogRecord) -> String {
    let mac = record.link.to_hex();
    let line = AuditLine {
        log: log.as_str(),
        sequence: record.sequence,
        record: body(log, record),
        os_user: record.os_user.as_deref(),
        repeats: record.repeats,
        mac,
    };
    serde_json::to_string(&line).unwrap_or_default()
}

/// Returns the line for `count` records that were pruned after the sequence number `after`.
fn format_missing(log: LogKind, tenant: TenantId, after: i64, count: i64) -> String {
    let (log, tenant) = (log.as_str(), tenant.to_string());
    json!({"log": log, "tenant_id": tenant, "sequence": after.saturating_add(1), "missing": count})
        .to_string()
}

/// Returns the line for a rollback: the records written up to this number belong to another chain
/// than the following ones.
fn format_rolled_back(log: LogKind, tenant: TenantId, sequence: i64) -> String {
    let (log, tenant) = (log.as_str(), tenant.to_string());
    json!({"log": log, "tenant_id": tenant, "sequence": sequence, "rolled_back": true}).to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use scrip_core::{
        operations::tenants::{create_tenant::create_tenant, delete_tenant::delete_tenant_by_id},
        policy::{DisplayName, TenantSettings},
        store::open_directory,
        types::{TenantKind, id::TenantId},
    };

    use super::*;
    use crate::{
        audit_sink::position::position_file,
        config::{Environment, Settings},
    };

    /// A vault with one tenant, and a writer of its records to a file.
    struct SinkHarness {
        folder: tempfile::TempDir,
        vault: Vault,
        tenant: TenantId,
        writer: SinkWriter,
    }

    impl SinkHarness {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let flag = ("storage.data_dir", folder.path().display().to_string());
            let settings = Settings::without_file(&[flag], &Environment::default()).unwrap();
            settings.create_store().await.unwrap();
            settings.create_root_key().unwrap();
            let vault = settings.open_vault_for_command().await.unwrap();
            settings.create_vault_keys(&vault).await.unwrap();
            let records = vault.store.load_directory().await.unwrap();
            let source = settings.unlock(&records).await.unwrap();
            let directory = open_directory(&*vault.store, &*source, None).await.unwrap();
            vault.audit_trail.set_key(directory.audit_key());
            let (name, kind) = (DisplayName::parse("Acme").unwrap(), TenantKind::Test);
            let tenant =
                create_tenant(&vault, &*source, name, kind, TenantSettings::default()).await;
            let target = AuditSinkTarget::File(folder.path().join("trail.jsonl"));
            let data_dir = folder.path().to_owned();
            let open_state = move || SinkState::new(target.clone(), data_dir.clone());
            let writer = SinkWriter { state: None, open_state: Box::new(open_state) };
            Self { folder, vault, tenant: tenant.unwrap(), writer }
        }

        fn count_lines(&self) -> usize {
            fs::read_to_string(self.folder.path().join("trail.jsonl")).unwrap().lines().count()
        }
    }

    #[tokio::test]
    async fn records_beyond_the_listed_head_are_not_written() {
        let mut it = SinkHarness::new().await;
        let heads = it.vault.store.list_heads(LogKind::Audit).await.unwrap();
        // Append to the chain after the head was listed.
        delete_tenant_by_id(&it.vault, it.tenant, None).await.unwrap();
        assert!(it.writer.write_next_batch(&it.vault, LogKind::Audit, &heads[0]).await.unwrap());
        assert!(!it.writer.write_next_batch(&it.vault, LogKind::Audit, &heads[0]).await.unwrap());
        assert_eq!(it.count_lines(), 1);
        it.writer.catch_up(&it.vault).await.unwrap();
        assert_eq!(it.count_lines(), 2);
    }

    #[tokio::test]
    async fn altered_head_is_reported_once_across_restarts() {
        let mut it = SinkHarness::new().await;
        delete_tenant_by_id(&it.vault, it.tenant, None).await.unwrap();
        it.writer.catch_up(&it.vault).await.unwrap();
        assert_eq!(it.count_lines(), 2);
        let head = it.vault.store.list_heads(LogKind::Audit).await.unwrap().remove(0);
        let lowered = ChainHead { sequence: 1, ..head };
        let other_link = ChainHead { link: Mac([0xa7; 32]), ..head };
        // Each state writes the report and the log up to the head. The last one is the real head.
        for (state, line_count) in [(&lowered, 4), (&other_link, 7), (&head, 10)] {
            for _ in 0..3 {
                while it.writer.write_next_batch(&it.vault, LogKind::Audit, state).await.unwrap() {
                    assert!(it.count_lines() <= line_count, "the log is written again and again");
                }
                assert_eq!(it.count_lines(), line_count);
                // A restart reads the saved positions.
                it.writer.state = None;
            }
        }
        it.writer.catch_up(&it.vault).await.unwrap();
        assert_eq!(it.count_lines(), 10);
    }

    #[tokio::test]
    async fn sink_fails_until_its_position_is_saved_and_writes_each_record_once() {
        let mut it = SinkHarness::new().await;
        // A directory in place of the temporary file: the position cannot be written.
        let obstacle = position_file(it.folder.path()).with_extension("sink-position.tmp");
        fs::create_dir(&obstacle).unwrap();
        for _ in 0..3 {
            let error = it.writer.catch_up(&it.vault).await.unwrap_err();
            assert!(format!("{error:#}").contains("audit.sink-position"), "{error:#}");
            assert_eq!(it.count_lines(), 1);
        }
        delete_tenant_by_id(&it.vault, it.tenant, None).await.unwrap();
        assert!(it.writer.catch_up(&it.vault).await.is_err());
        assert_eq!(it.count_lines(), 2);
        fs::remove_dir(&obstacle).unwrap();
        it.writer.catch_up(&it.vault).await.unwrap();
        assert!(position_file(it.folder.path()).exists());
        assert_eq!(it.count_lines(), 2);
    }
}
