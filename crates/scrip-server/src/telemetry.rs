//! Logs on standard error and, when there is a collector, traces: without a single submitted value.

mod collector;
pub(crate) mod span;
pub(crate) mod traces;

use std::io::{self, IsTerminal};

use scrip_core::measure::SPAN_TARGET;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{FilterExt, filter_fn},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::{
    config::{Log, LogFormat, Settings},
    telemetry::traces::Traces,
};

type Boxed = Box<dyn Layer<Registry> + Send + Sync>;

/// Logs from now on; and what makes traces, if the settings have a place for them.
pub(crate) fn start(settings: &Settings) -> anyhow::Result<Option<Traces>> {
    let mut layers = vec![logs(&settings.log)?];
    let traces = Traces::new(&settings.telemetry);
    layers.extend(traces.as_ref().map(Traces::layer));
    tracing_subscriber::registry().with(layers).try_init()?;
    // A panic's message may quote a value; where it happened never does.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic");
    }));
    Ok(traces)
}

fn logs(log: &Log) -> anyhow::Result<Boxed> {
    // What is traced is no business of the log, whatever its filter says.
    let filter = EnvFilter::try_new(&log.filter.0)?.and(filter_fn(|it| it.target() != SPAN_TARGET));
    let text = match log.format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Json => false,
        LogFormat::Text => true,
    };
    Ok(if text {
        fmt::layer().with_target(false).with_writer(io::stderr).with_filter(filter).boxed()
    } else {
        let layer = fmt::layer().json().flatten_event(true).with_writer(io::stderr);
        layer.with_filter(filter).boxed()
    })
}
