//! 3-D Secure sessions.

pub(crate) mod altered;
mod authenticate;
mod conformance;
mod messages;
mod model;
mod random;
mod simulation;
