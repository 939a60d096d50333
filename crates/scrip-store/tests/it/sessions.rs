//! 3-D Secure sessions.

mod authenticate;
pub(crate) mod column_alterations;
mod conformance;
mod messages;
mod model;
mod random_steps;
mod simulation;
