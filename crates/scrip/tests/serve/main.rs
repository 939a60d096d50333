//! `scrip serve` and what belongs to it, through the real program and real sockets.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test says what it expects by failing"
)]

#[cfg(target_os = "linux")]
mod audit;
#[path = "../support/authority.rs"]
mod authority;
mod backup;
#[cfg(target_os = "linux")]
mod backup_killed;
mod bin;
#[path = "../support/cards.rs"]
mod cards;
#[path = "../support/client.rs"]
mod client;
#[cfg(target_os = "linux")]
mod codes;
mod control;
mod demo;
#[cfg(target_os = "linux")]
mod descriptors;
#[expect(dead_code, reason = "how it misbehaves is for tests of the client by itself")]
#[path = "../support/directory_server.rs"]
mod directory_server;
mod expensive_expressions;
#[cfg(target_os = "linux")]
mod export;
mod house;
#[cfg(target_os = "linux")]
mod hygiene;
mod limits;
mod metrics;
#[cfg(target_os = "linux")]
mod moving;
mod operator;
#[cfg(target_os = "linux")]
mod postgres;
#[path = "../support/prometheus.rs"]
mod prometheus;
#[cfg(target_os = "linux")]
mod quotas;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "what is asked of it by itself is for tests without the program")]
#[path = "../support/redis.rs"]
mod redis;
mod sealed;
mod secret_files;
mod settings;
mod simulator;
#[path = "../support/stop.rs"]
mod stop;
#[cfg(target_os = "linux")]
mod stuck;
mod sweeps;
mod threeds;
mod threeds_cards;
mod threeds_log;
mod threeds_production;
mod threeds_results;
mod threeds_stop;
mod tls;
mod tls_client;
mod traces;
