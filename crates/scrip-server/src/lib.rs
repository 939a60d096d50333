//! A server around the HTTP interface: settings, sockets, storage, background work and metrics.

pub mod audit_sink;
pub mod background;
pub mod config;
pub mod control;
pub mod directory_servers;
pub mod epoch_keys;
pub mod files;
pub mod listen;
pub mod metrics;
pub mod node;
pub mod process;
pub mod rate_limit;
pub mod storage;
pub mod telemetry;
