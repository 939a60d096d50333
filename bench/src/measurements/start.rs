//! The time from the start of the process to its first responses.

use std::{fs, path::Path, sync::Arc, time::Duration};

use crate::{
    harness::{
        load::{self, LoadDuration, LoadPlan},
        process::{BenchServer, Probe, StartCommand, measure_start},
        script::{CreateScript, CreateVariant},
    },
    measurements::rounds::BenchPlan,
};

const RUNS: usize = 20;
const CONNECTIONS: usize = 64;
const TOKENS: u32 = 10_000;
const DEV_TARGET_MS: f64 = 50.0;
const SERVE_TARGET_MS: f64 = 20.0;

/// One kind of start, with the durations of all runs, fastest first.
#[derive(Debug)]
pub(crate) struct StartResult {
    name: String,
    probe: Probe,
    durations: Vec<Duration>,
    /// The maximum median of the first answer. Readiness has no target.
    target_ms: Option<f64>,
}

pub(crate) async fn measure_starts(plan: &BenchPlan) -> anyhow::Result<Vec<StartResult>> {
    let data = plan.folder.join("start");
    let tokens = plan.tokens_max.unwrap_or(TOKENS);
    let mut results = Vec::new();
    for probe in [Probe::Healthz, Probe::Readyz] {
        let first_start = || {
            if data.exists() {
                fs::remove_dir_all(&data)?;
            }
            measure_start(&plan.scrip, &data, StartCommand::Dev, probe)
        };
        results.push(repeat("dev, empty directory".to_owned(), probe, DEV_TARGET_MS, first_start)?);
    }
    fill(plan, &data, tokens).await?;
    for probe in [Probe::Healthz, Probe::Readyz] {
        let later_start = || measure_start(&plan.scrip, &data, StartCommand::Dev, probe);
        let name = format!("dev, {tokens} tokens");
        results.push(repeat(name, probe, DEV_TARGET_MS, later_start)?);
        let serve = || measure_start(&plan.scrip, &data, StartCommand::Serve, probe);
        let name = format!("serve, {tokens} tokens");
        results.push(repeat(name, probe, SERVE_TARGET_MS, serve)?);
    }
    Ok(results)
}

async fn fill(plan: &BenchPlan, data: &Path, tokens: u32) -> anyhow::Result<()> {
    let server = BenchServer::start_scrip(&plan.scrip, data)?;
    let serial = Arc::default();
    let build_script = |_| CreateScript::new(&server.api_key, CreateVariant::Plain, &serial);
    let scripts = (0..CONNECTIONS).map(build_script).collect::<anyhow::Result<Vec<_>>>()?;
    let load = LoadPlan {
        name: "create",
        address: server.address,
        server: server.pid(),
        upstream: None,
        status: 201,
        until: LoadDuration::Count(tokens),
        interval: None,
    };
    load::run(load, scripts).await?;
    server.stop()
}

fn repeat(
    name: String,
    probe: Probe,
    target_ms: f64,
    measure: impl Fn() -> anyhow::Result<Duration>,
) -> anyhow::Result<StartResult> {
    let mut durations = (0..RUNS).map(|_| measure()).collect::<anyhow::Result<Vec<_>>>()?;
    durations.sort_unstable();
    let target_ms = (probe == Probe::Healthz).then_some(target_ms);
    Ok(StartResult { name, probe, durations, target_ms })
}

pub(crate) fn report_starts(results: &[StartResult]) -> String {
    let mut text = format!(
        "\nStart of the process to the first 200, in ms, {RUNS} runs\n\n\
        | start                 | probe    | median |    p90 |    max | target |        |\n\
        |-----------------------|----------|-------:|-------:|-------:|-------:|--------|\n"
    );
    for StartResult { name, probe, durations, target_ms } in results {
        let at = |index: usize| durations.get(index).map_or(0.0, |it| it.as_secs_f64() * 1e3);
        let (median, p90, max) = (at(RUNS / 2), at(RUNS * 9 / 10), at(RUNS - 1));
        let (target, verdict) = match target_ms {
            Some(target) => {
                (format!("{target:.0}"), if median <= *target { "met" } else { "MISSED" })
            }
            None => ("-".to_owned(), ""),
        };
        let probe = probe.path();
        text.push_str(&format!(
            "| {name:<21} | {probe:<8} | {median:>6.1} | {p90:>6.1} | {max:>6.1} | {target:>6} | \
             {verdict:<6} |\n"
        ));
    }
    text
}
