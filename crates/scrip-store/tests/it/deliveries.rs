//! Deliveries of events to webhooks.

mod bounds;
mod claims;
mod column_alterations;
mod nodes;
mod read_log;
mod writes;
