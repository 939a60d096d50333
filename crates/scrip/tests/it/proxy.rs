//! Proxied requests to a real destination with TLS.

mod attackers;
mod audit;
mod broken_destinations;
mod content_types;
mod error_answers;
mod harness;
mod headers;
mod hostile_destinations;
mod hosts;
mod idempotency;
mod idempotency_limits;
mod own_network;
mod rights;
mod tls;
mod transforms;
mod urls;
