//! What sweeping expired tokens costs those who create at the same time.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anyhow::{Context, ensure};
use rusqlite::Connection;
use tokio::time::sleep;

use crate::{
    harness::{
        clock::now,
        figures::{Figures, note},
        load::{self, Load, Until},
        process::Server,
        script::{Besides, Creates},
    },
    measurements::rounds::Plan,
};

const CONNECTIONS: usize = 64;
/// The sweeper looks every half minute.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Swept {
    pub(crate) peak: Figures,
    /// At half of the peak, before the sweep and after it.
    pub(crate) alone: [Figures; 2],
    pub(crate) beside: Figures,
    /// How many tokens the sweep removed while it was measured, and in how long.
    pub(crate) removed: i64,
    pub(crate) took: Duration,
}

struct Bench {
    server: Server,
    file: Connection,
    span: (Duration, Duration),
    serial: Arc<AtomicU64>,
}

pub(crate) async fn run(plan: &Plan, tokens: u32) -> anyhow::Result<Swept> {
    let data = plan.folder.join("swept");
    std::fs::create_dir(&data)?;
    let server = Server::scrip(&plan.scrip, &data)?;
    let file = Connection::open(data.join("scrip.db"))?;
    let bench = Bench { server, file, span: plan.span, serial: Arc::default() };
    let peak = bench.create("create, the peak", None).await?;
    let every = Duration::from_secs_f64(f64::from(64_u32) / (peak.per_second / 2.0));

    // They expire when they are all there and the first measurement is done.
    let filling = f64::from(tokens) / peak.per_second * 2.0;
    let (warm_up, measured) = bench.span;
    let ahead = Duration::from_secs_f64(filling) + warm_up + measured + Duration::from_secs(15);
    bench.fill(tokens, ahead).await?;
    let before = bench.create("create, half of that", Some(every)).await?;
    let there = bench.wait_for_sweep().await?;
    let start = now();
    let beside = bench.create("  while sweeping", Some(every)).await?;
    let (left, took) = (bench.expiring()?, start.elapsed());
    while bench.expiring()? > 0 {
        ensure!(start.elapsed() < PATIENCE, "the sweep does not end");
        sleep(LOOK_EVERY).await;
    }
    let after = bench.create("create, half of that", Some(every)).await?;
    bench.server.stop()?;
    let removed = there.saturating_sub(left);
    Ok(Swept { peak, alone: [before, after], beside, removed, took })
}

impl Bench {
    async fn create(&self, name: &'static str, every: Option<Duration>) -> anyhow::Result<Figures> {
        let script = |_| Creates::new(&self.server.api_key, Besides::Nothing, &self.serial);
        let scripts = (0..CONNECTIONS).map(script).collect::<anyhow::Result<Vec<_>>>()?;
        let until = Until::Time(self.span.0, self.span.1);
        let load = Load { every, ..self.load(name, until) };
        let (figures, _) = load::run(load, scripts).await?;
        note(&figures)?;
        Ok(figures)
    }

    async fn fill(&self, tokens: u32, ahead: Duration) -> anyhow::Result<()> {
        let sql = "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', 'now', ?1)";
        let ahead = format!("+{} seconds", ahead.as_secs());
        let at: String = self.file.query_row(sql, [ahead], |row| row.get(0))?;
        let script = |_| Creates::expiring(&self.server.api_key, &at, &self.serial);
        let scripts = (0..CONNECTIONS).map(script).collect::<anyhow::Result<Vec<_>>>()?;
        let load = self.load("create, expiring", Until::Count(tokens));
        let (figures, _) = load::run(load, scripts).await?;
        note(&figures)?;
        ensure!(self.expiring()? == i64::from(tokens), "the machine is too slow for this");
        Ok(())
    }

    fn load(&self, name: &'static str, until: Until) -> Load {
        let (address, server) = (self.server.address, self.server.pid());
        Load { name, address, server, status: 201, until, every: None }
    }

    fn expiring(&self) -> anyhow::Result<i64> {
        let sql = "SELECT count(*) FROM tokens WHERE expires_at IS NOT NULL";
        Ok(self.file.query_row(sql, [], |row| row.get(0))?)
    }

    /// How many there were just before.
    async fn wait_for_sweep(&self) -> anyhow::Result<i64> {
        let (start, there) = (now(), self.expiring()?);
        while self.expiring()? == there {
            ensure!(start.elapsed() < PATIENCE, "nothing is swept");
            sleep(LOOK_EVERY).await;
        }
        Some(there).filter(|it| *it > 0).context("it was swept too early")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiring_request_says_its_length() {
        let mut script = Creates::expiring("key", "2030-01-01T00:00:00Z", &Arc::default()).unwrap();
        let request =
            String::from_utf8(crate::harness::script::Script::next(&mut script).to_vec()).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(body.starts_with("{\"expires_at\":\"2030-01-01T00:00:00Z\",\"type\""));
        assert!(!body.contains("NNNN"));
    }
}
