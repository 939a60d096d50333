//! The cost of deduplication when many tokens have the same fingerprint.

use std::time::Duration;

use crate::{
    harness::{
        load::{self, LoadDuration, LoadPlan},
        process::BenchServer,
        results::{MeasurementResult, print_result},
        script::RepeatedCreateScript,
    },
    measurements::rounds::BenchPlan,
};

const CONNECTIONS: usize = 16;
const FEW_TOKENS: u32 = 10;
const MANY_TOKENS: u32 = 10_000;
const RATIO_MAX: f64 = 1.5;

const FEW_NUMBER: &str = "4242424242424242";
const MANY_NUMBER: &str = "4111111111111111";

#[derive(Debug)]
pub(crate) struct DuplicatesResult {
    /// Before and after the measurement with many duplicates.
    few_duplicates: [MeasurementResult; 2],
    many_duplicates: MeasurementResult,
}

pub(crate) async fn measure_duplicates(plan: &BenchPlan) -> anyhow::Result<DuplicatesResult> {
    let data = plan.folder.join("duplicates");
    std::fs::create_dir(&data)?;
    let server = BenchServer::start_scrip(&plan.scrip, &data)?;
    let bench = DuplicatesBench { server, durations: plan.durations };
    bench.fill("create, few the same", FEW_NUMBER, FEW_TOKENS).await?;
    bench.fill("create, all the same", MANY_NUMBER, MANY_TOKENS).await?;
    let before = bench.deduplicate("duplicate of few", FEW_NUMBER).await?;
    let many = bench.deduplicate("duplicate of many", MANY_NUMBER).await?;
    let after = bench.deduplicate("duplicate of few", FEW_NUMBER).await?;
    bench.server.stop()?;
    Ok(DuplicatesResult { few_duplicates: [before, after], many_duplicates: many })
}

struct DuplicatesBench {
    server: BenchServer,
    durations: (Duration, Duration),
}

impl DuplicatesBench {
    async fn fill(&self, name: &'static str, number: &str, count: u32) -> anyhow::Result<()> {
        self.create(name, number, "false", LoadDuration::Count(count)).await.map(drop)
    }

    async fn deduplicate(
        &self,
        name: &'static str,
        number: &str,
    ) -> anyhow::Result<MeasurementResult> {
        self.create(name, number, "true", LoadDuration::Time(self.durations.0, self.durations.1))
            .await
    }

    async fn create(
        &self,
        name: &'static str,
        number: &str,
        deduplicate: &str,
        until: LoadDuration,
    ) -> anyhow::Result<MeasurementResult> {
        let body = format!(
            r#"{{"type":"card","data":{{"number":"{number}"}},"deduplicate_token":{deduplicate}}}"#
        );
        let scripts =
            (0..CONNECTIONS).map(|_| RepeatedCreateScript::create(&self.server.api_key, &body));
        let (address, server) = (self.server.address, self.server.pid());
        let load =
            LoadPlan { name, address, server, upstream: None, status: 201, until, interval: None };
        let (result, _) = load::run(load, scripts.collect()).await?;
        print_result(&result)?;
        Ok(result)
    }
}

pub(crate) fn report_duplicates(duplicates: &DuplicatesResult) -> String {
    let [before, after] = &duplicates.few_duplicates;
    let few_rate = f64::midpoint(before.per_second, after.per_second);
    let ratio = few_rate / duplicates.many_duplicates.per_second.max(1e-9);
    let verdict = if ratio <= RATIO_MAX { "met" } else { "MISSED" };
    format!(
        "\nDeduplication\n\nagainst {MANY_TOKENS} tokens of one fingerprint, at most {RATIO_MAX} times of {FEW_TOKENS}: \
         {ratio:.2}, {verdict}\n"
    )
}
