//! The audit trail told to somebody else as it grows: every record of both logs, in the order of its
//! chain, as a line of JSON.
//!
//! Never in the path of a request: a task of its own reads what was committed. How far it is is
//! written down after the sink has taken a record, so that one that is killed in between is told
//! twice, and none is left out. What was pruned before it could be told is told as a number.

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
    audit::chain::{Head, Log},
    id::TenantId,
};
use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use crate::{
    config::Export,
    data::explain,
    export::{
        position::{Known, Positions},
        sink::Sink,
    },
};

const EVERY: Duration = Duration::from_secs(1);
const RECORDS_AT_ONCE: usize = 500;

/// Until the process ends.
pub(crate) async fn follow(to: Export, data: PathBuf, vault: Vault) {
    let begin =
        move || Outside { sink: Sink::new(to.clone()), data: data.clone(), positions: None };
    let mut exporter = Exporter { outside: None, begin: Box::new(begin) };
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
            let heads = vault.store.list_heads(log).await.map_err(|it| explain(it.into()))?;
            for head in heads {
                while self.tell_some(vault, log, &head).await? {}
            }
        }
        Ok(())
    }

    /// Whether there may be more of this chain.
    async fn tell_some(&mut self, vault: &Vault, log: Log, head: &Head) -> anyhow::Result<bool> {
        let mut outside = self.outside.take().unwrap_or_else(|| Box::new((self.begin)()));
        let Some((after, known)) = outside.positions()?.behind(log, head) else {
            self.outside = Some(outside);
            return Ok(false);
        };
        let of = (log, head.tenant);
        let records = vault.store.list_records(of, after, RECORDS_AT_ONCE).await;
        let records = records.map_err(|it| explain(it.into()))?;
        // When nothing is left, all of it was pruned up to the head.
        let last = records.last().map_or(head.n, |it| it.n);
        let first = records.first().map_or(head.n.saturating_add(1), |it| it.n);
        let missing = first.saturating_sub(after).saturating_sub(1);
        let mut lines = Vec::with_capacity(records.len().saturating_add(1));
        if missing > 0 && known == Known::Told {
            tracing::warn!(missing, "records were pruned before they could be exported");
            lines.push(line::missing(log, head.tenant, (after, missing)));
        }
        lines.extend(records.iter().map(|it| line::of(log, it)));
        // Disks and daemons may take their time, and no request waits behind them.
        let tell = move || {
            let told = outside.tell(&lines, (of, last));
            (outside, told)
        };
        let (outside, told) = spawn_blocking(tell).await?;
        self.outside = Some(outside);
        told.map(|()| true)
    }
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

    fn tell(&mut self, lines: &[String], (of, last): ((Log, TenantId), i64)) -> anyhow::Result<()> {
        self.sink.take(lines).context("it cannot be written")?;
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
