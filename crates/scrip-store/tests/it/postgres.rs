//! Tests of the PostgreSQL engine only.

mod clock;
pub(crate) mod column_alterations;
pub(crate) mod group_commit;
mod hosts;
mod nodes;
mod policy;
mod round_trips;
mod tenant_isolation;
mod tenant_locks;
mod unresponsive_server;
