//! Logs on standard error and, when there is a collector, traces: without a single submitted value.

mod collector;
pub(crate) mod traces;

use std::io::{self, IsTerminal};

use scrip_core::metrics::SPAN_TARGET;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{FilterExt, filter_fn},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::{
    config::{LogFormat, LogSettings, Settings},
    telemetry::traces::Traces,
};

type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Logs from now on; and what makes traces, if the settings have a place for them.
pub fn start(settings: &Settings) -> anyhow::Result<Option<Traces>> {
    let mut layers = vec![log_layer(&settings.log)?];
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

/// The interface was part of the server once: who names the server in a filter means both.
fn with_api_target(filter: &str) -> String {
    if !filter.contains("scrip_server") {
        return filter.to_owned();
    }
    format!("{filter},{}", filter.replace("scrip_server", "scrip_api"))
}

fn log_layer(log: &LogSettings) -> anyhow::Result<BoxedLayer> {
    // What is traced is no business of the log, whatever its filter says.
    let filter = EnvFilter::try_new(with_api_target(&log.filter.0))?
        .and(filter_fn(|it| it.target() != SPAN_TARGET));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_for_scrip_server_also_covers_scrip_api() {
        assert_eq!(with_api_target("info,hyper=off"), "info,hyper=off");
        let both = with_api_target("scrip_server=debug");
        assert_eq!(both, "scrip_server=debug,scrip_api=debug");
        assert!(EnvFilter::try_new(both).is_ok());
    }
}
