//! The server: settings, sockets, storage, background tasks and metrics around the HTTP API.

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
