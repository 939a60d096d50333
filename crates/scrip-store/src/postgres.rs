//! The PostgreSQL engine, for deployments with several nodes. docs/decisions/0034-postgresql.md
//! describes the guarantees when several nodes write.

pub mod bench_statements;
mod connect;
mod engine;
pub(crate) mod maintenance;
mod opening;
pub(crate) mod policy;
mod read_log;
mod store;
pub(crate) mod tokens;
pub mod transfer;

pub use crate::postgres::{
    connect::{
        address::{InvalidAddress, PostgresTransport},
        health::ServerHealth,
        migrate::MigrationResult,
        settings::PostgresSettings,
    },
    store::PostgresStore,
};
pub use tokio_postgres_rustls::MakeRustlsConnect;
