//! 3DS sessions.

mod authenticate;
mod callbacks;
pub(crate) mod column_alterations;
mod conformance;
mod events;
mod messages;
mod model;
mod random_steps;
mod simulation;
