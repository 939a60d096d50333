//! The PostgreSQL engine alone.

mod altered;
mod clock;
mod groups;
mod hosts;
mod lanes;
mod nodes;
mod policy;
mod round_trips;
mod silence;
mod tenant_isolation;
