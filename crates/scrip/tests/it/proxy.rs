//! Proxied requests to a real destination with TLS.

mod attacks;
mod audit;
mod broken_destinations;
mod content_types;
mod error_answers;
pub(crate) mod harness;
mod headers;
pub(crate) mod hosts;
mod idempotency;
mod idempotency_limits;
mod interrupted_calls;
mod rights;
mod tls;
mod transforms;
mod urls;
