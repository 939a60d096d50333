//! `scrip simulator`: a directory server and a bank to try 3-D Secure with, on its own.

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use scrip_server::{
    config::{self, Environment},
    telemetry,
};
use scrip_simulator::{ResultDestinations, Simulator, SimulatorSettings, Timers};
use tokio::net::TcpListener;

use crate::serve::told_to_stop;

const EXAMPLES: &str = "\
Examples:
  scrip simulator
  scrip simulator --listen 127.0.0.1:0 --json
  scrip simulator --first-creq-seconds 30 --interaction-seconds 600

It knows no real card, and nothing that it says is worth anything. docs/simulator.md has its cards.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimulatorArguments {
    /// Where to listen; port 0 takes any free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4243")]
    listen: SocketAddr,
    /// How browsers and the 3DS server reach it [default: http:// and the address].
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// From an authentication to the first request of its challenge; EMV has 30.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    first_creq_seconds: u32,
    /// From one step of the cardholder to the next.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    interaction_seconds: u32,
    /// Until a cardholder who is asked elsewhere has answered.
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    decoupled_seconds: u32,
    /// A file with certificates in PEM, by which a 3DS server over https is known.
    #[arg(long, value_name = "FILE")]
    trusted_roots: Option<PathBuf>,
    /// Send results to any address that an authentication names, not only to this machine.
    #[arg(long)]
    allow_remote_results: bool,
    /// Print one line of JSON when listening, and nothing else, on standard output.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &SimulatorArguments, environment: &Environment) -> anyhow::Result<()> {
    // Only for the log: nothing of a vault is opened here.
    telemetry::start(&config::Settings::without_file(&[], environment)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &SimulatorArguments) -> anyhow::Result<()> {
    let address = arguments.listen;
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    let simulator = Simulator::new(settings(arguments, listener.local_addr()?)?)?;
    let stop = told_to_stop()?;
    announce(arguments, simulator.base_url())?;
    simulator.serve(listener, stop).await;
    Ok(())
}

fn settings(
    arguments: &SimulatorArguments,
    address: SocketAddr,
) -> anyhow::Result<SimulatorSettings> {
    let seconds = |it: u32| Duration::from_secs(it.into());
    let roots = arguments
        .trusted_roots
        .as_ref()
        .map(|file| fs::read(file).with_context(|| format!("cannot read {}", file.display())));
    let base_url = arguments.base_url.clone().unwrap_or_else(|| format!("http://{address}"));
    Ok(SimulatorSettings {
        base_url: Some(base_url),
        timers: Timers {
            first_creq: seconds(arguments.first_creq_seconds),
            interaction: seconds(arguments.interaction_seconds),
            decoupled: seconds(arguments.decoupled_seconds),
            ..Timers::default()
        },
        trusted_roots: roots.transpose()?.unwrap_or_default(),
        result_destinations: if arguments.allow_remote_results {
            ResultDestinations::AnyHost
        } else {
            ResultDestinations::Loopback
        },
        ..SimulatorSettings::default()
    })
}

fn announce(arguments: &SimulatorArguments, base_url: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::json!({ "url": base_url }))?;
    } else {
        write!(
            out,
            "
  The 3-D Secure simulator is ready at {base_url}

  directory servers  {base_url}/sim/ds/{{visa,mastercard,american-express,discover,
                     jcb,cartes-bancaires,unionpay}}
  knobs              {base_url}/sim/knobs

"
        )?;
    }
    Ok(out.flush()?)
}
