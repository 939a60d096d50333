//! `scrip simulator`: a standalone simulator of directory servers and an issuer, to test 3-D
//! Secure.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::Args;
use scrip_server::{
    config::{self, Environment},
    telemetry,
};
use scrip_simulator::{ResultDestinations, Simulator, SimulatorSettings, Timers};
use tokio::net::TcpListener;

use crate::{commands::output::print_output, signals::termination_signal};

const EXAMPLES: &str = "\
Examples:
  scrip simulator
  scrip simulator --listen 127.0.0.1:0 --json
  scrip simulator --first-creq-seconds 30 --interaction-seconds 600

The simulator is for test cards only; its results have no value. docs/simulator.md lists its cards.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimulatorArguments {
    /// Address to listen on; port 0 selects a free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4243",
        value_parser = config::value::parse_address)]
    listen: SocketAddr,
    /// URL at which browsers and the 3DS server reach the simulator [default: http:// and the
    /// address].
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Maximum time from an authentication to its first challenge request; EMV requires 30.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    first_creq_seconds: u32,
    /// Maximum time between two steps of the cardholder.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    interaction_seconds: u32,
    /// Time until a decoupled authentication of the cardholder ends.
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    decoupled_seconds: u32,
    /// PEM file with root certificates for results over https.
    #[arg(long, value_name = "FILE")]
    trusted_roots: Option<PathBuf>,
    /// Send results to any address of an authentication, not only to this machine.
    #[arg(long)]
    allow_remote_results: bool,
    /// Print one line of JSON on standard output when listening.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &SimulatorArguments, environment: &Environment) -> anyhow::Result<()> {
    // Settings for the log only: no vault is opened.
    telemetry::start(&config::Settings::without_file(&[], environment)?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: &SimulatorArguments) -> anyhow::Result<()> {
    let address = arguments.listen;
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
    let simulator = Simulator::new(settings(arguments, listener.local_addr()?)?)?;
    let stop = termination_signal()?;
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
    if arguments.json {
        return print_output(&format!("{}\n", serde_json::json!({ "url": base_url })));
    }
    print_output(&format!(
        "
  The 3-D Secure simulator is ready at {base_url}

  directory servers  {base_url}/sim/ds/{{visa,mastercard,american-express,discover,
                     jcb,cartes-bancaires,unionpay}}
  behavior           {base_url}/sim/behavior

"
    ))
}
