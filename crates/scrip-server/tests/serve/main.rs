//! `scrip serve` and what belongs to it, through the real program and real sockets.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test says what it expects by failing"
)]

mod bin;
mod control;
mod house;
#[cfg(target_os = "linux")]
mod hygiene;
mod operator;
mod sealed;
mod settings;
#[path = "../support/stop.rs"]
mod stop;
mod tls;
mod tls_client;
