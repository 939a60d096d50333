//! The cost of sweeping expired tokens for concurrent creates.

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
        load::{self, LoadDuration, LoadPlan},
        process::BenchServer,
        results::{MeasurementResult, print_result},
        script::{CreateScript, CreateVariant},
    },
    measurements::rounds::BenchPlan,
};

const CONNECTIONS: usize = 64;
/// The sweeper runs every half minute.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct SweepResult {
    pub(crate) peak: MeasurementResult,
    /// At half of the peak, before the sweep and after it.
    pub(crate) without_sweep: [MeasurementResult; 2],
    pub(crate) during_sweep: MeasurementResult,
    /// The number of tokens that the sweep removed during the measurement, and the duration.
    pub(crate) removed: i64,
    pub(crate) duration: Duration,
}

struct SweepBench {
    server: BenchServer,
    file: Connection,
    durations: (Duration, Duration),
    serial: Arc<AtomicU64>,
}

pub(crate) async fn measure_sweep(plan: &BenchPlan, tokens: u32) -> anyhow::Result<SweepResult> {
    let data = plan.folder.join("swept");
    std::fs::create_dir(&data)?;
    let server = BenchServer::start_scrip(&plan.scrip, &data)?;
    let file = Connection::open(data.join("scrip.db"))?;
    let bench = SweepBench { server, file, durations: plan.durations, serial: Arc::default() };
    let peak = bench.measure_creates("create, the peak", None).await?;
    let interval = Duration::from_secs_f64(f64::from(64_u32) / (peak.per_second / 2.0));

    // The tokens expire after all are created and the first measurement is done.
    let fill_seconds = f64::from(tokens) / peak.per_second * 2.0;
    let (warm_up, measured) = bench.durations;
    let expiry_delay =
        Duration::from_secs_f64(fill_seconds) + warm_up + measured + Duration::from_secs(15);
    bench.fill(tokens, expiry_delay).await?;
    let before = bench.measure_creates("create, half of that", Some(interval)).await?;
    let expiring = bench.wait_for_sweep().await?;
    let start = now();
    let during = bench.measure_creates("  while sweeping", Some(interval)).await?;
    let (remaining, duration) = (bench.count_expiring()?, start.elapsed());
    while bench.count_expiring()? > 0 {
        ensure!(start.elapsed() < SWEEP_TIMEOUT, "the sweep does not end");
        sleep(POLL_INTERVAL).await;
    }
    let after = bench.measure_creates("create, half of that", Some(interval)).await?;
    bench.server.stop()?;
    let removed = expiring.saturating_sub(remaining);
    Ok(SweepResult {
        peak,
        without_sweep: [before, after],
        during_sweep: during,
        removed,
        duration,
    })
}

impl SweepBench {
    async fn measure_creates(
        &self,
        name: &'static str,
        interval: Option<Duration>,
    ) -> anyhow::Result<MeasurementResult> {
        let build_script =
            |_| CreateScript::new(&self.server.api_key, CreateVariant::Plain, &self.serial);
        let scripts = (0..CONNECTIONS).map(build_script).collect::<anyhow::Result<Vec<_>>>()?;
        let until = LoadDuration::Time(self.durations.0, self.durations.1);
        let load = LoadPlan { interval, ..self.load_plan(name, until) };
        let (result, _) = load::run(load, scripts).await?;
        print_result(&result)?;
        Ok(result)
    }

    async fn fill(&self, tokens: u32, expiry_delay: Duration) -> anyhow::Result<()> {
        let sql = "SELECT strftime('%Y-%m-%dT%H:%M:%SZ', 'now', ?1)";
        let expiry_delay = format!("+{} seconds", expiry_delay.as_secs());
        let expires_at: String = self.file.query_row(sql, [expiry_delay], |row| row.get(0))?;
        let build_script =
            |_| CreateScript::with_expiry(&self.server.api_key, &expires_at, &self.serial);
        let scripts = (0..CONNECTIONS).map(build_script).collect::<anyhow::Result<Vec<_>>>()?;
        let load = self.load_plan("create, expiring", LoadDuration::Count(tokens));
        let (result, _) = load::run(load, scripts).await?;
        print_result(&result)?;
        ensure!(self.count_expiring()? == i64::from(tokens), "the machine is too slow for this");
        Ok(())
    }

    fn load_plan(&self, name: &'static str, until: LoadDuration) -> LoadPlan {
        let (address, server) = (self.server.address, self.server.pid());
        LoadPlan { name, address, server, upstream: None, status: 201, until, interval: None }
    }

    fn count_expiring(&self) -> anyhow::Result<i64> {
        let sql = "SELECT count(*) FROM tokens WHERE expires_at IS NOT NULL";
        Ok(self.file.query_row(sql, [], |row| row.get(0))?)
    }

    /// Waits until the sweep starts, and returns the number of tokens before it.
    async fn wait_for_sweep(&self) -> anyhow::Result<i64> {
        let (start, expiring) = (now(), self.count_expiring()?);
        while self.count_expiring()? == expiring {
            ensure!(start.elapsed() < SWEEP_TIMEOUT, "the sweep does not start");
            sleep(POLL_INTERVAL).await;
        }
        Some(expiring).filter(|it| *it > 0).context("the tokens were swept too early")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_request_with_expiry_has_the_right_content_length() {
        let mut script =
            CreateScript::with_expiry("key", "2030-01-01T00:00:00Z", &Arc::default()).unwrap();
        let request = String::from_utf8(
            crate::harness::script::RequestScript::next_request(&mut script).to_vec(),
        )
        .unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(body.starts_with("{\"expires_at\":\"2030-01-01T00:00:00Z\",\"type\""));
        assert!(!body.contains("NNNN"));
    }
}
