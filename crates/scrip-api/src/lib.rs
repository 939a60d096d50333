//! The HTTP API: route table, request pipeline, handlers, and JSON formats.
//!
//! Architecture invariant: this crate does not depend on sockets, settings or storage engines.

pub mod app;
pub mod deprecation;
pub mod handlers;
pub mod limiter;
pub mod metrics;
pub mod middleware;
pub mod openapi;
pub mod pipeline;
pub mod problem;
pub mod proxy;
pub mod route;
pub mod routes;
pub mod trace_id;
pub mod wire;
