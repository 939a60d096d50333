//! The cost of the guessing budget for creates by a public key.

use std::{
    path::Path,
    process::Command,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anyhow::ensure;

use crate::{
    harness::{
        load::{self, LoadDuration, LoadPlan},
        process::BenchServer,
        results::{MeasurementResult, print_result},
        script::{CreateScript, CreateVariant},
    },
    measurements::rounds::BenchPlan,
};

const CONNECTIONS: usize = 16;
const RATIO_MAX: f64 = 1.25;
const QUOTAS: [&str; 3] =
    ["number_guesses_day", "number_guesses_quarter", "number_guesses_application"];

/// The quotas of a production tenant. The last one is higher, so that it is not exhausted during a
/// run.
const BUDGET_ON: [&str; 3] = ["20", "40", "100000"];
const BUDGET_OFF: [&str; 3] = ["off"; 3];

#[derive(Debug)]
pub(crate) struct GuessingResult {
    /// Before and after the measurement with the budget.
    without_budget: [MeasurementResult; 2],
    with_budget: MeasurementResult,
}

pub(crate) async fn measure_guessing_budget(plan: &BenchPlan) -> anyhow::Result<GuessingResult> {
    let data = plan.folder.join("guessing");
    std::fs::create_dir(&data)?;
    let first_server = BenchServer::start_scrip(&plan.scrip, &data)?;
    let tenant = first_server.tenant.clone();
    first_server.stop()?;
    let bench = GuessingBench { plan, data: &data, tenant, serial: Arc::default() };
    let before = bench.create("create, no budget", BUDGET_OFF).await?;
    let with_budget = bench.create("create, with budget", BUDGET_ON).await?;
    let after = bench.create("create, no budget", BUDGET_OFF).await?;
    Ok(GuessingResult { without_budget: [before, after], with_budget })
}

struct GuessingBench<'a> {
    plan: &'a BenchPlan,
    data: &'a Path,
    tenant: String,
    serial: Arc<AtomicU64>,
}

impl GuessingBench<'_> {
    async fn create(
        &self,
        name: &'static str,
        values: [&str; 3],
    ) -> anyhow::Result<MeasurementResult> {
        let mut command = Command::new(&self.plan.scrip);
        command.args(["tenant", "quota", "set", &self.tenant]);
        command.args(QUOTAS.iter().zip(values).map(|(name, value)| format!("{name}={value}")));
        command.env("SCRIP_STORAGE_DATA_DIR", self.data).stdout(std::process::Stdio::null());
        ensure!(command.status()?.success(), "the quotas of the guessing budget cannot be set");
        let server = BenchServer::start_scrip(&self.plan.scrip, self.data)?;
        let build_script =
            |_| CreateScript::new(&server.public_key, CreateVariant::Plain, &self.serial);
        let scripts = (0..CONNECTIONS).map(build_script).collect::<anyhow::Result<Vec<_>>>()?;
        let (warm_up, measured): (Duration, Duration) = self.plan.durations;
        let until = LoadDuration::Time(warm_up, measured);
        let (address, pid) = (server.address, server.pid());
        let load = LoadPlan {
            name,
            address,
            server: pid,
            upstream: None,
            status: 201,
            until,
            interval: None,
        };
        let (result, _) = load::run(load, scripts).await?;
        print_result(&result)?;
        server.stop()?;
        Ok(result)
    }
}

pub(crate) fn report_guessing_budget(guessing: &GuessingResult) -> String {
    let [before, after] = &guessing.without_budget;
    let rate_without_budget = f64::midpoint(before.per_second, after.per_second);
    let ratio = rate_without_budget / guessing.with_budget.per_second.max(1e-9);
    let verdict = if ratio <= RATIO_MAX { "met" } else { "MISSED" };
    format!(
        "\nGuessing budget\n\ncreates by a public key with the budget, at most {RATIO_MAX} times of \
         without: {ratio:.2}, {verdict}\n"
    )
}
