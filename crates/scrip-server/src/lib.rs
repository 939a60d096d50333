//! The server: settings, sockets, storage, background tasks and metrics around the HTTP API.

pub mod audit_sink;
pub mod background;
pub mod clock;
pub mod config;
pub mod connections;
pub mod control;
pub mod directory_servers;
pub mod dual_control;
pub mod epoch_keys;
pub mod files;
pub mod listen;
pub mod metrics;
pub mod node;
pub mod periodic_tasks;
pub mod process;
pub mod rate_limit;
pub mod request_log;
pub mod storage;
pub mod telemetry;
pub mod tls;
pub mod unlock;
