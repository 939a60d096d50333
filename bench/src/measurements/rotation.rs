//! The cost of a rotation of a tenant's sealing key for concurrent reads and creates.

use std::{
    path::PathBuf,
    process::Command,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anyhow::{Context, ensure};
use rusqlite::Connection;

use crate::{
    harness::{
        clock::now,
        load::{self, LoadDuration, LoadPlan},
        process::BenchServer,
        results::{MeasurementResult, TABLE_HEAD, print_result, result_row},
        script::{CreateScript, CreateVariant, IdText, ReadScript},
        target::{Bound, PerformanceTarget},
    },
    measurements::rounds::BenchPlan,
};

/// Connections that create, and as many that read.
const CONNECTIONS: usize = 32;
/// Measurements before the rotation, and as many after it.
const REFERENCES: usize = 3;
const ROTATION_TIMEOUT: Duration = Duration::from_secs(3600);
/// All tokens are older than the rotation, so the old key can be destroyed soon.
const SETTINGS: [(&str, &str); 2] =
    [("SCRIP_KEYS_PROMOTE_AFTER_SECONDS", "1"), ("SCRIP_KEYS_DESTROY_AFTER_SECONDS", "1")];

/// Creates and reads of the same seconds.
#[derive(Debug)]
pub(crate) struct MixedResult {
    creates: MeasurementResult,
    reads: MeasurementResult,
}

#[derive(Debug)]
pub(crate) struct RotationResult {
    tokens: u32,
    peak: MixedResult,
    /// At half of the peak, before the rotation and after it.
    without_rotation: Vec<MixedResult>,
    during_rotation: Vec<MixedResult>,
    resealed_rows: i64,
    duration: Duration,
}

struct RotationBench<'a> {
    plan: &'a BenchPlan,
    server: BenchServer,
    data: PathBuf,
    file: Connection,
    serial: Arc<AtomicU64>,
    ids: Arc<Vec<IdText>>,
}

/// Time between two requests of a connection; `None` for full speed.
#[derive(Debug, Clone, Copy)]
struct Intervals {
    create: Option<Duration>,
    read: Option<Duration>,
}

impl Intervals {
    fn half_of(peak: &MixedResult) -> Self {
        let interval = |it: &MeasurementResult| {
            Some(Duration::from_secs_f64(f64::from(32_u32) / (it.per_second / 2.0)))
        };
        Self { create: interval(&peak.creates), read: interval(&peak.reads) }
    }
}

pub(crate) async fn measure_rotation(
    plan: &BenchPlan,
    tokens: u32,
) -> anyhow::Result<RotationResult> {
    let data = plan.folder.join("rotated");
    std::fs::create_dir(&data)?;
    let server = BenchServer::start_scrip_with_settings(&plan.scrip, &data, &SETTINGS)?;
    let file = Connection::open(data.join("scrip.db"))?;
    file.busy_timeout(Duration::from_secs(10))?;
    let (serial, ids) = (Arc::default(), Arc::default());
    let mut bench = RotationBench { plan, server, data, file, serial, ids };
    bench.fill(tokens).await?;
    let full_speed = Intervals { create: None, read: None };
    let peak = bench.measure(["create, the peak", "  read, the peak"], full_speed).await?;
    let half = Intervals::half_of(&peak);
    let names = ["create, half of that", "  read, half of that"];
    let mut without_rotation = Vec::new();
    for _ in 0..REFERENCES {
        without_rotation.push(bench.measure(names, half).await?);
    }
    let start = now();
    bench.start_rotation()?;
    let mut during_rotation = Vec::new();
    let resealed_rows = loop {
        let names = ["create, rotating", "  read, rotating"];
        during_rotation.push(bench.measure(names, half).await?);
        if let Some(rows) = bench.resealed_rows()? {
            break rows;
        }
        ensure!(start.elapsed() < ROTATION_TIMEOUT, "the rotation does not end");
    };
    let duration = start.elapsed();
    for _ in 0..REFERENCES {
        without_rotation.push(bench.measure(names, half).await?);
    }
    bench.server.stop()?;
    ensure!(resealed_rows >= i64::from(tokens), "only {resealed_rows} rows were encrypted again");
    Ok(RotationResult { tokens, peak, without_rotation, during_rotation, resealed_rows, duration })
}

impl RotationBench<'_> {
    async fn fill(&mut self, tokens: u32) -> anyhow::Result<()> {
        let load = self.load_plan("create, to be rotated", 201, LoadDuration::Count(tokens), None);
        let (result, scripts) = load::run(load, self.create_scripts(2 * CONNECTIONS)?).await?;
        print_result(&result)?;
        self.ids = Arc::new(scripts.into_iter().flat_map(|it| it.ids).collect());
        Ok(())
    }

    /// Creates and reads at the same time. Any response with another status ends the benchmark, so
    /// a result means that no request failed.
    async fn measure(
        &self,
        [create, read]: [&'static str; 2],
        intervals: Intervals,
    ) -> anyhow::Result<MixedResult> {
        let (warm_up, measured) = self.plan.durations;
        let until = LoadDuration::Time(warm_up, measured);
        let readers = (1..).take(CONNECTIONS);
        let readers = readers.map(|seed| ReadScript::new(&self.server.api_key, &self.ids, seed));
        let readers = readers.collect::<anyhow::Result<Vec<_>>>()?;
        let creates = load::run(
            self.load_plan(create, 201, until, intervals.create),
            self.create_scripts(CONNECTIONS)?,
        );
        let reads = load::run(self.load_plan(read, 200, until, intervals.read), readers);
        let ((creates, _), (reads, _)) = tokio::try_join!(creates, reads)?;
        // Both measure the processor time of the same server, so it belongs to neither.
        let [creates, reads] = [creates, reads].map(|it| MeasurementResult {
            server_cpu_us: None,
            load_cpu_us: None,
            ..it
        });
        print_result(&creates)?;
        print_result(&reads)?;
        Ok(MixedResult { creates, reads })
    }

    fn create_scripts(&self, count: usize) -> anyhow::Result<Vec<CreateScript>> {
        let build_script =
            |_| CreateScript::new(&self.server.api_key, CreateVariant::Plain, &self.serial);
        (0..count).map(build_script).collect()
    }

    fn load_plan(
        &self,
        name: &'static str,
        status: u16,
        until: LoadDuration,
        interval: Option<Duration>,
    ) -> LoadPlan {
        let (address, server) = (self.server.address, self.server.pid());
        LoadPlan { name, address, server, upstream: None, status, until, interval }
    }

    fn start_rotation(&self) -> anyhow::Result<()> {
        let mut command = Command::new(&self.plan.scrip);
        command.args(["keys", "rotate", "tenant", &self.server.tenant]);
        command.env("SCRIP_STORAGE_DATA_DIR", &self.data);
        let output = command.output()?;
        let message = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the rotation did not start: {message}");
        Ok(())
    }

    /// The rows that were encrypted again, after the old key was destroyed; `None` before.
    fn resealed_rows(&self) -> anyhow::Result<Option<i64>> {
        let sql = "SELECT finished_at IS NOT NULL, resealed FROM key_rotations";
        let row = self.file.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
        let (is_finished, rows): (bool, i64) = row.context("the rotation is not stored")?;
        Ok(is_finished.then_some(rows))
    }
}

pub(crate) fn report_rotation(result: &RotationResult) -> String {
    let mut text = format!("\nRotation of a sealing key\n\n{TABLE_HEAD}\n");
    let (creates, reads): (P99, P99) = (create_p99, read_p99);
    let mut shown = vec![&result.peak];
    for turns in [&result.without_rotation, &result.during_rotation] {
        shown.extend(
            turns.iter().min_by_key(|it| it.creates.p99_us.abs_diff(median(turns, creates))),
        );
    }
    for it in shown {
        text.push_str(&format!("{}\n{}\n", result_row(&it.creates), result_row(&it.reads)));
    }
    let RotationResult { tokens, resealed_rows, during_rotation, without_rotation, .. } = result;
    let (seconds, turns) = (result.duration.as_secs_f64(), during_rotation.len());
    text.push_str(&format!(
        "\n{resealed_rows} rows of {tokens} tokens and those created since were encrypted again in \
         {seconds:.0} s; no request failed. Medians of {turns} turns during the rotation and of {} \
         without it.\n\n",
        without_rotation.len()
    ));
    for (name, p99) in [("create", creates), ("read", reads)] {
        let [during, without] = [during_rotation, without_rotation].map(|it| median(it, p99));
        let measured = f64::from(during) / f64::from(without.max(1));
        let name = format!("{name} p99 while rotating, of without");
        let target = PerformanceTarget { name, bound: Bound::AtMost(2.0), measured, unit: "x" };
        let range = |turns: &[MixedResult]| {
            let values = || turns.iter().map(p99);
            format!("{} to {}", values().min().unwrap_or(0), values().max().unwrap_or(0))
        };
        text.push_str(&format!(
            "{target}\n  p99 us: {} while rotating, {} without\n",
            range(during_rotation),
            range(without_rotation)
        ));
    }
    text
}

type P99 = fn(&MixedResult) -> u32;

fn create_p99(result: &MixedResult) -> u32 {
    result.creates.p99_us
}

fn read_p99(result: &MixedResult) -> u32 {
    result.reads.p99_us
}

fn median(turns: &[MixedResult], p99: P99) -> u32 {
    let mut values: Vec<u32> = turns.iter().map(p99).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
