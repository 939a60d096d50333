//! A node on PostgreSQL and `pgbench`, measured alternately on one server and one database.

mod pgbench;

use std::{
    path::PathBuf,
    process::Command,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anyhow::{Context, ensure};
use scrip_testing::postgres::cluster::Cluster;

use crate::{
    harness::{
        load::{self, LoadDuration, LoadPlan},
        process::BenchServer,
        results::{MeasurementResult, print_result},
        script::{CreateScript, CreateVariant, IdText, ReadScript},
    },
    measurements::{
        postgres::pgbench::{
            PgbenchOperation, PgbenchReference, TenantSpread, insert_token_statements,
        },
        rounds::BenchPlan,
    },
};

const CLIENT_COUNT: usize = 64;

/// A rate of the node with the reference rates directly before and after it.
#[derive(Debug)]
pub(crate) struct PostgresRound {
    operation: &'static str,
    tenants: usize,
    target: f64,
    scrip: MeasurementResult,
    pgbench: [f64; 2],
}

struct PostgresBench {
    cluster: Cluster,
    pgbench: PgbenchReference,
    scrip: PathBuf,
    folder: PathBuf,
    durations: (Duration, Duration),
    /// One key for each tenant.
    keys: Vec<String>,
    serial: Arc<AtomicU64>,
}

pub(crate) async fn measure_postgres(plan: &BenchPlan) -> anyhow::Result<Vec<PostgresRound>> {
    // Settings that an operator would use on such a machine. All others are defaults of PostgreSQL.
    let cluster = Cluster::start(&["shared_buffers=256MB", "max_wal_size=4GB"]);
    let pgbench = PgbenchReference { url: cluster.url(), folder: plan.folder.clone(), runs: 0 };
    let mut bench = PostgresBench {
        cluster,
        pgbench,
        scrip: plan.scrip.clone(),
        folder: plan.folder.clone(),
        durations: plan.durations,
        keys: Vec::new(),
        serial: Arc::default(),
    };
    bench.prepare_vault()?;
    let mut rounds = Vec::new();
    for tenants in [TenantSpread::Single, TenantSpread::OnePerClient] {
        rounds.extend(bench.measure_rounds(tenants).await?);
    }
    Ok(rounds)
}

impl PostgresBench {
    fn command(&self, read_log_mode: &str) -> Command {
        let mut command = Command::new(&self.scrip);
        command.env("SCRIP_STORAGE_URL", self.cluster.url());
        command.env("SCRIP_STORAGE_DATA_DIR", self.folder.join("node"));
        command.env("SCRIP_SERVER_LISTEN", "127.0.0.1:0");
        command.env("SCRIP_LIMITS_MODE", "off");
        // The epoch keys of CVCs are in memory.
        command.env("SCRIP_STORAGE_SINGLE_NODE", "true");
        command.env("SCRIP_AUDIT_READS", read_log_mode);
        command
    }

    fn run_command(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command("off").args(arguments).output()?;
        let error_output = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "scrip {arguments:?} failed: {error_output}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Creates a vault with a tenant for each client, and the rows that pgbench reads.
    fn prepare_vault(&mut self) -> anyhow::Result<()> {
        self.run_command(&["init"])?;
        for number in 0..CLIENT_COUNT {
            let name = format!("bench-{number}");
            self.run_command(&["tenant", "create", &name, "--type", "test"])?;
            let application = ["application", "create", "--tenant", &name, "--name", "bench"];
            let options = ["--type", "private", "--all", "--json"];
            let output = self.run_command(&[application.as_slice(), &options].concat())?;
            self.keys.push(parse_key(&output)?);
        }
        for sql in insert_token_statements(CLIENT_COUNT) {
            self.cluster.query_primary(&sql);
        }
        self.cluster.query_primary("ANALYZE");
        Ok(())
    }

    async fn measure_rounds(
        &mut self,
        tenants: TenantSpread,
    ) -> anyhow::Result<[PostgresRound; 3]> {
        let folder = self.folder.clone();
        let log_path = |name: &str| folder.join(format!("{name}.log"));
        let server = BenchServer::start_node(self.command("durable"), &log_path("durable"))?;
        let before = self.measure_reference(PgbenchOperation::Create, tenants)?;
        let (result, scripts) =
            load::run(self.load_plan("create", &server, 201), self.create_scripts(tenants)?)
                .await?;
        print_result(&result)?;
        let after = self.measure_reference(PgbenchOperation::Create, tenants)?;
        let creates = self.finish_round(result, 50.0, tenants, [before, after]);
        let ids = ids_to_read(scripts, tenants);
        let recorded =
            self.measure_reads(&server, PgbenchOperation::RecordedRead, tenants, &ids).await?;
        server.stop()?;
        let server = BenchServer::start_node(self.command("off"), &log_path("off"))?;
        let unrecorded = self.measure_reads(&server, PgbenchOperation::Read, tenants, &ids).await?;
        server.stop()?;
        Ok([creates, recorded, unrecorded])
    }

    async fn measure_reads(
        &mut self,
        server: &BenchServer,
        operation: PgbenchOperation,
        spread: TenantSpread,
        ids: &[Arc<Vec<IdText>>],
    ) -> anyhow::Result<PostgresRound> {
        let name = match operation {
            PgbenchOperation::RecordedRead => "read, recorded",
            PgbenchOperation::Create | PgbenchOperation::Read => "read, unrecorded",
        };
        let before = self.measure_reference(operation, spread)?;
        let scripts = self.connection_keys(spread).zip(ids.iter().cycle()).zip(0_u64..);
        let scripts = scripts.map(|((key, ids), seed)| ReadScript::new(key, ids, seed));
        let scripts = scripts.collect::<Result<Vec<_>, _>>()?;
        let (result, _) = load::run(self.load_plan(name, server, 200), scripts).await?;
        print_result(&result)?;
        let after = self.measure_reference(operation, spread)?;
        Ok(self.finish_round(result, 60.0, spread, [before, after]))
    }

    /// The key of each connection.
    fn connection_keys(&self, tenants: TenantSpread) -> impl Iterator<Item = &String> {
        self.keys.iter().take(tenant_count(tenants)).cycle().take(CLIENT_COUNT)
    }

    fn create_scripts(&self, tenants: TenantSpread) -> anyhow::Result<Vec<CreateScript>> {
        let build_script =
            |key: &String| CreateScript::new(key, CreateVariant::Plain, &self.serial);
        self.connection_keys(tenants).map(build_script).collect()
    }

    fn measure_reference(
        &mut self,
        operation: PgbenchOperation,
        tenants: TenantSpread,
    ) -> anyhow::Result<f64> {
        let measured = self.durations.1;
        // The other tasks of this process are idle during the run of pgbench.
        let rate = tokio::task::block_in_place(|| {
            self.pgbench.measure(operation, tenants, CLIENT_COUNT, measured)
        })?;
        let result = MeasurementResult {
            per_second: rate,
            ..MeasurementResult::new("pgbench", CLIENT_COUNT, vec![], 1, measured)
        };
        print_result(&result)?;
        Ok(rate)
    }

    fn load_plan(&self, name: &'static str, server: &BenchServer, status: u16) -> LoadPlan {
        let until = LoadDuration::Time(self.durations.0, self.durations.1);
        LoadPlan {
            name,
            address: server.address,
            server: server.pid(),
            upstream: None,
            status,
            until,
            interval: None,
        }
    }

    fn finish_round(
        &self,
        scrip: MeasurementResult,
        target: f64,
        tenants: TenantSpread,
        pgbench: [f64; 2],
    ) -> PostgresRound {
        PostgresRound {
            operation: scrip.name,
            tenants: tenant_count(tenants),
            target,
            scrip,
            pgbench,
        }
    }
}

fn tenant_count(tenants: TenantSpread) -> usize {
    match tenants {
        TenantSpread::Single => 1,
        TenantSpread::OnePerClient => CLIENT_COUNT,
    }
}

/// The ids to read for each connection.
fn ids_to_read(scripts: Vec<CreateScript>, tenants: TenantSpread) -> Vec<Arc<Vec<IdText>>> {
    let ids_of_scripts = scripts.into_iter().map(|it| it.ids);
    match tenants {
        TenantSpread::Single => vec![Arc::new(ids_of_scripts.flatten().collect())],
        TenantSpread::OnePerClient => ids_of_scripts.map(Arc::new).collect(),
    }
}

/// Parses the key of a new application. The program prints a key only when it creates the key.
fn parse_key(output: &str) -> anyhow::Result<String> {
    let output: serde_json::Value = serde_json::from_str(output)?;
    let key = output.get("key").and_then(|it| it.as_str());
    Ok(key.context("an application was created without a key")?.to_owned())
}

pub(crate) fn report_postgres(rounds: &[PostgresRound]) -> String {
    let mut text = "\nOn PostgreSQL, 64 connections\n\n\
        | what                  | tenants | per sec. |  p50 us |  p99 us | pgbench before, after | of pgbench | target |        |\n\
        |-----------------------|--------:|---------:|--------:|--------:|----------------------:|-----------:|-------:|--------|\n"
        .to_owned();
    for PostgresRound { operation, tenants, target, scrip, pgbench: [before, after] } in rounds {
        let share = scrip.per_second * 100.0 / ((before + after) / 2.0);
        let verdict = if share >= *target { "met" } else { "MISSED" };
        let line = format!(
            "| {operation:<21} | {tenants:>7} | {:>8.0} | {:>7} | {:>7} | {:>21} | {share:>8.1} % | {target:>4} % | {verdict:<6} |",
            scrip.per_second,
            scrip.p50_us,
            scrip.p99_us,
            format!("{before:.0}, {after:.0}"),
        );
        text.push_str(&line);
        text.push('\n');
    }
    text
}
