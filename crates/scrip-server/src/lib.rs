//! HTTP, configuration, background work and the command line: everything at the edge.
//!
//! Architecture invariant: nobody depends on this crate but tests and benchmarks.

pub mod app;
mod background;
pub mod cli;
pub mod clock;
mod config;
mod dev;
pub mod http;
pub mod serve;
mod telemetry;
mod wire;
