//! Logs: structured, on standard error, without a single submitted value.

use std::io::{self, IsTerminal};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::config::{Log, LogFormat};

pub(crate) fn start(log: &Log) -> anyhow::Result<()> {
    let registry = tracing_subscriber::registry().with(EnvFilter::try_new(&log.filter.0)?);
    let text = match log.format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Json => false,
        LogFormat::Text => true,
    };
    if text {
        let layer = fmt::layer().with_target(false).with_writer(io::stderr);
        registry.with(layer).try_init()?;
    } else {
        let layer = fmt::layer().json().flatten_event(true).with_writer(io::stderr);
        registry.with(layer).try_init()?;
    }
    // A panic's message may quote a value; where it happened never does.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic");
    }));
    Ok(())
}
