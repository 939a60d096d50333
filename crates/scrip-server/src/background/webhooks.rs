//! Deliveries of events to webhooks.

pub mod attempt;
pub mod signed_delivery;
