//! The guarded client against hostile destinations on this machine.

#![expect(
    clippy::unwrap_used,
    reason = "clippy.toml exempts #[test] functions but not the helpers of a test crate"
)]

mod address_classes;
mod connection_pools;
mod faulty_destinations;
mod forward_proxies;
mod hostile_destinations;
mod http_two;
mod name_lists;
mod peers;
mod rebinding;
mod shared_limits;
mod support;
mod tls_connections;
mod url_syntax;
