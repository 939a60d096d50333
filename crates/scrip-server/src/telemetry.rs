//! Logs on standard error, and traces if a collector is configured. Neither contains submitted
//! values.

mod collector;
mod otlp;
mod span_layer;
pub(crate) mod traces;

use std::io::{self, IsTerminal, Write};

use scrip_core::types::metrics::SPAN_TARGET;
use tracing::Level;
use tracing_subscriber::{
    Layer,
    filter::{FilterExt, Targets, filter_fn},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

use crate::{
    config::{LogFormat, LogSettings, Settings},
    telemetry::{span_layer::BoxedLayer, traces::Traces},
};

/// Starts logging. Returns the traces if a collector is configured.
pub fn start(settings: &Settings) -> anyhow::Result<Option<Traces>> {
    let mut layers = vec![log_layer(&settings.log)?];
    let traces = Traces::new(&settings.telemetry);
    layers.extend(traces.as_ref().map(Traces::layer));
    tracing_subscriber::registry().with(layers).try_init()?;
    // A panic message may quote a value; its location never does.
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(location, "panic");
    }));
    Ok(traces)
}

/// A filter for `scrip_server` also applies to `scrip_api`, which used to be part of the server.
fn with_api_target(filter: &str) -> String {
    if !filter.contains("scrip_server") {
        return filter.to_owned();
    }
    format!("{filter},{}", filter.replace("scrip_server", "scrip_api"))
}

/// Whether lines of a target may be in the log, whatever its filter. Spans are for traces. Details
/// of the `h2` crate quote what a client sent. The connection pool reports each connection of an
/// outage twice; the store logs the outage once.
fn may_be_logged(target: &str, level: Level) -> bool {
    let is_h2 = target == "h2" || target.starts_with("h2::");
    let is_pool = target == "deadpool.postgres";
    target != SPAN_TARGET && !(is_h2 && level > Level::WARN) && !(is_pool && level > Level::ERROR)
}

/// Writes to standard error. A failure is ignored: otherwise the library reports it on standard
/// error, and panics if the reader of a pipe has ended.
struct LogWriter(io::Stderr);

impl LogWriter {
    fn new() -> Self {
        Self(io::stderr())
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        drop(self.0.write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        drop(self.0.flush());
        Ok(())
    }
}

fn log_layer(log: &LogSettings) -> anyhow::Result<BoxedLayer> {
    let filter = with_api_target(&log.filter.0)
        .parse::<Targets>()?
        .and(filter_fn(|it| may_be_logged(it.target(), *it.level())));
    let is_text = match log.format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Json => false,
        LogFormat::Text => true,
    };
    Ok(if is_text {
        fmt::layer().with_target(false).with_writer(LogWriter::new).with_filter(filter).boxed()
    } else {
        let layer = fmt::layer().json().flatten_event(true).with_writer(LogWriter::new);
        layer.with_filter(filter).boxed()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_details_of_h2_and_of_the_connection_pool_are_never_logged() {
        assert!(may_be_logged("scrip_api", Level::TRACE));
        assert!(may_be_logged("h2::server", Level::WARN));
        assert!(!may_be_logged("h2::server", Level::DEBUG));
        assert!(!may_be_logged("h2", Level::INFO));
        assert!(!may_be_logged(SPAN_TARGET, Level::ERROR));
        assert!(!may_be_logged("deadpool.postgres", Level::WARN));
    }

    #[test]
    fn filter_for_scrip_server_also_covers_scrip_api() {
        assert_eq!(with_api_target("info,hyper=off"), "info,hyper=off");
        let extended_filter = with_api_target("scrip_server=debug");
        assert_eq!(extended_filter, "scrip_server=debug,scrip_api=debug");
        assert!(extended_filter.parse::<Targets>().is_ok());
    }
}
