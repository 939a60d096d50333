//! Benchmarks that report ratios: each result of the vault is compared with references that the
//! same machine measured directly before and after it.

mod harness;
mod measurements;
mod report;

use std::{fs, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

use crate::{
    harness::{bare_server, output::print, process},
    measurements::{
        cost, duplicates, expressions, guessing, hostile, limits, metrics_cost, postgres, proxy,
        rotation, rounds, start, sweep, webhooks,
    },
};

/// Measures the vault against a bare HTTP server and against bare storage.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct BenchArguments {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// Seconds for each measurement, after one second of warm-up.
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
    /// One second per measurement: a check that the benchmark works, without usable results.
    #[arg(long)]
    quick: bool,
    /// Create up to 1,000,000 tokens at the end, and measure the memory again.
    #[arg(long)]
    million: bool,
    /// Only measure how much sweeping 100,000 expired tokens slows down creates at half of their
    /// peak.
    #[arg(long)]
    sweep: bool,
    /// Only measure how much the rotation of a tenant's sealing key slows down reads and creates at
    /// half of their peak, with 100,000 tokens or, with `--million`, 1,000,000.
    #[arg(long)]
    rotation: bool,
    /// Only measure the cost of rate limits for a request (a few seconds).
    #[arg(long)]
    limits: bool,
    /// Only measure nodes on PostgreSQL against pgbench with the same statements (two minutes).
    #[arg(long)]
    postgres: bool,
    /// Only measure how much silent connections and expensive requests of one address slow down
    /// creates of another (half a minute).
    #[arg(long)]
    hostile: bool,
    /// Only measure the processor time of the worst input of each route.
    #[arg(long)]
    cost: bool,
    /// Only measure the cost of deduplication among 10,000 tokens of one fingerprint.
    #[arg(long)]
    duplicates: bool,
    /// Only measure the cost of the guessing budget for creates by a public key.
    #[arg(long)]
    guessing: bool,
    /// Only measure the time from the start of the process to its first responses, with 10,000 tokens
    /// or, with `--million`, 1,000,000.
    #[arg(long)]
    start: bool,
    /// Only measure proxied calls against nginx as a reverse proxy (a minute; needs nginx).
    #[arg(long)]
    proxy: bool,
    /// Only measure the cost of webhooks for creates, and their deliveries (five minutes). With
    /// `--postgres`, on PostgreSQL.
    #[arg(long)]
    webhooks: bool,
    /// Write the results to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// The reference server. The benchmark starts it itself.
    #[command(hide = true)]
    BareServer,
}

fn main() -> anyhow::Result<()> {
    let arguments = BenchArguments::parse();
    if let Some(BenchCommand::BareServer) = arguments.command {
        return bare_server::serve();
    }
    if arguments.limits {
        return Ok(print(&limits::report_limits(&limits::measure_limits()?))?);
    }
    let scrip = process::find_scrip()?;
    // The data is in the folder of the program, because a folder in memory would make commits free.
    let program_folder = scrip.parent().context("the program has no folder")?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(program_folder)?;
    let (warm_up, measured) = if arguments.quick {
        (Duration::from_millis(300), Duration::from_secs(1))
    } else {
        (Duration::from_secs(1), Duration::from_secs(arguments.seconds.max(1)))
    };
    let plan = rounds::BenchPlan {
        scrip,
        folder: folder.path().to_owned(),
        durations: (warm_up, measured),
        tokens_max: arguments.million.then_some(1_000_000),
    };
    // Half of the cores generate the load. The other cores serve it.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime =
        Builder::new_multi_thread().worker_threads((cores / 2).max(1)).enable_all().build()?;
    if let Some(report) = run_single_measurement(&arguments, &runtime, &plan)? {
        return Ok(print(&report)?);
    }
    let (expression_cost, limiter_cost) =
        (expressions::measure_expressions()?, limits::measure_limits()?);
    let metrics_nanos = metrics_cost::measure_metrics();
    let results = runtime.block_on(rounds::measure_vault(&plan))?;
    print(&report::report_table(&results, cores))?;
    print(&report::report_expressions(&expression_cost, &results))?;
    print(&limits::report_limits(&limiter_cost))?;
    print(&report::report_metrics(metrics_nanos, &results))?;
    if let Some(file) = arguments.json {
        fs::write(&file, format!("{:#}\n", report::report_json(&results, cores)))
            .with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(())
}

/// The report of the measurement that a flag selects; `None` without such a flag.
fn run_single_measurement(
    arguments: &BenchArguments,
    runtime: &Runtime,
    plan: &rounds::BenchPlan,
) -> anyhow::Result<Option<String>> {
    let report = if arguments.sweep {
        let tokens = if arguments.quick { 20_000 } else { 100_000 };
        report::report_sweep(&runtime.block_on(sweep::measure_sweep(plan, tokens))?)
    } else if arguments.rotation {
        let tokens = if arguments.quick { 5_000 } else { plan.tokens_max.unwrap_or(100_000) };
        rotation::report_rotation(&runtime.block_on(rotation::measure_rotation(plan, tokens))?)
    } else if arguments.cost {
        cost::report_cost(&runtime.block_on(cost::measure_cost(plan))?)
    } else if arguments.duplicates {
        let results = runtime.block_on(duplicates::measure_duplicates(plan))?;
        duplicates::report_duplicates(&results)
    } else if arguments.guessing {
        let results = runtime.block_on(guessing::measure_guessing_budget(plan))?;
        guessing::report_guessing_budget(&results)
    } else if arguments.start {
        start::report_starts(&runtime.block_on(start::measure_starts(plan))?)
    } else if arguments.hostile {
        let results = runtime.block_on(hostile::measure_hostile_clients(plan))?;
        hostile::report_hostile_clients(&results)
    } else if arguments.proxy {
        match runtime.block_on(proxy::measure_proxy(plan))? {
            Some(results) => proxy::report_proxy(&results),
            None => proxy::NGINX_MISSING.to_owned(),
        }
    } else if arguments.webhooks {
        let engine =
            if arguments.postgres { webhooks::Engine::Postgres } else { webhooks::Engine::Sqlite };
        webhooks::report_webhooks(&runtime.block_on(webhooks::measure_webhooks(plan, engine))?)
    } else if arguments.postgres {
        postgres::report_postgres(&runtime.block_on(postgres::measure_postgres(plan))?)
    } else {
        return Ok(None);
    };
    Ok(Some(report))
}
