//! Measurements, as ratios within one run: each figure of the vault stands beside a reference that
//! the same machine gave a moment before and after.

mod harness;
mod measurements;
mod report;

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use anyhow::Context;
use clap::{Parser, Subcommand};

use crate::{
    harness::{bare_server, process},
    measurements::{
        duplicates, expressions, guessing, hostile, limits, metrics_cost, postgres, rounds, sweep,
    },
};

/// Measures the vault against a bare HTTP server and against bare storage.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct BenchArguments {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// How long each figure is measured, after a second of warming up.
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
    /// One second for each figure: to see that it works, not to quote.
    #[arg(long)]
    quick: bool,
    /// Load up to 1,000,000 tokens at the end, and look at the memory again.
    #[arg(long)]
    million: bool,
    /// Only this: what sweeping 100,000 expired tokens costs creates at half of their peak.
    #[arg(long)]
    sweep: bool,
    /// Only this, in a few seconds: what rate limits cost a request.
    #[arg(long)]
    limits: bool,
    /// Only this, in two minutes: nodes on PostgreSQL beside pgbench with the same statements.
    #[arg(long)]
    postgres: bool,
    /// Only this, in half a minute: what silent connections and expensive requests of one address
    /// cost creates of another.
    #[arg(long)]
    hostile: bool,
    /// Only this: what deduplication costs among 10,000 tokens of one fingerprint.
    #[arg(long)]
    duplicates: bool,
    /// Only this: what the guessing budget costs creates by a public key.
    #[arg(long)]
    guessing: bool,
    /// Write the figures to a file as well.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// The reference server; started by the benchmark itself.
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
    // Beside the program: a folder in memory would make every commit look free.
    let other = scrip.parent().context("the program has no folder")?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(other)?;
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
    // Half of the cores make the load, so that the rest can answer it.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores / 2).max(1))
        .enable_all()
        .build()?;
    if arguments.sweep {
        let tokens = if arguments.quick { 20_000 } else { 100_000 };
        let swept = runtime.block_on(sweep::measure_sweep(&plan, tokens))?;
        return Ok(print(&report::result(&swept))?);
    }
    if arguments.duplicates {
        return Ok(print(&duplicates::report_duplicates(
            &runtime.block_on(duplicates::measure_duplicates(&plan))?,
        ))?);
    }
    if arguments.guessing {
        return Ok(print(&guessing::report_guessing_budget(
            &runtime.block_on(guessing::measure_guessing_budget(&plan))?,
        ))?);
    }
    if arguments.hostile {
        return Ok(print(&hostile::report_hostile_clients(
            &runtime.block_on(hostile::measure_hostile_clients(&plan))?,
        ))?);
    }
    if arguments.postgres {
        return Ok(print(&postgres::report_postgres(
            &runtime.block_on(postgres::measure_postgres(&plan))?,
        ))?);
    }
    let (cost, limited) = (expressions::measure_expressions()?, limits::measure_limits()?);
    let counting = metrics_cost::measure_metrics();
    let results = runtime.block_on(rounds::measure_vault(&plan))?;
    print(&report::report_table(&results, cores))?;
    print(&report::report_expressions(&cost, &results))?;
    print(&limits::report_limits(&limited))?;
    print(&report::report_metrics(counting, &results))?;
    if let Some(file) = arguments.json {
        fs::write(&file, format!("{:#}\n", report::report_json(&results, cores)))
            .with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(())
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}
