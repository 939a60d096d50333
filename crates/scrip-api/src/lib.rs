//! The HTTP interface: the route table, the pipeline of a request, handlers and JSON shapes.
//!
//! Architecture invariant: this crate knows neither sockets, nor settings, nor storage engines.

pub mod app;
pub mod deprecation;
pub mod handlers;
pub mod limiter;
pub mod metrics;
pub mod middleware;
pub mod openapi;
pub mod pipeline;
pub mod problem;
pub mod route;
pub mod router;
pub mod routes;
pub mod wire;
