//! Logs: structured, on standard error, without a single submitted value.

use std::io;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogForm {
    /// One JSON object a line, for machines.
    Json,
    Text,
}

pub(crate) fn start(form: LogForm, filter: Option<&str>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter.unwrap_or("info"))?;
    let registry = tracing_subscriber::registry().with(filter);
    match form {
        LogForm::Json => {
            let layer = fmt::layer().json().flatten_event(true).with_writer(io::stderr);
            registry.with(layer).try_init()?;
        }
        LogForm::Text => {
            let layer = fmt::layer().with_target(false).with_writer(io::stderr);
            registry.with(layer).try_init()?;
        }
    }
    // A panic's message may quote a value; where it happened never does.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic");
    }));
    Ok(())
}
