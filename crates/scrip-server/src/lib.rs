//! HTTP, configuration, background work and the command line: everything at the edge.
//!
//! Architecture invariant: nobody depends on this crate but tests and benchmarks.

pub mod answer_memory;
pub mod app;
pub mod auth_failures;
mod background;
mod bin_file;
pub mod body_memory;
pub mod cli;
pub mod clock;
mod config;
mod connection;
mod connection_table;
mod control;
mod data;
pub mod demo;
mod dev;
pub mod epochs;
mod export;
mod head_file;
pub mod http;
mod init;
mod launch;
pub mod limited_stream;
pub mod limiter;
mod long_evaluation;
mod memory_pool;
pub mod metrics;
pub mod ongoing;
pub mod openapi;
mod operator;
mod process;
mod sealed;
mod secret_files;
pub mod serve;
mod simulator;
mod telemetry;
pub mod threeds;
mod tls;
mod tracked_body;
mod wire;
