//! Tests of the PostgreSQL engine only.

mod clock;
mod column_alterations;
mod group_commit;
mod hosts;
mod nodes;
mod policy;
mod round_trips;
mod tenant_isolation;
mod tenant_locks;
mod unresponsive_server;
