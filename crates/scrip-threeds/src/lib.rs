//! EMV 3-D Secure 2.1.0 and 2.2.0 for a 3DS server.
//!
//! The crate is pure: bytes, times and ids are arguments, and effects are returned as values.
//! Messages can be read and written in both directions, so a simulated directory server can use
//! them too.

pub mod authentication;
pub mod code;
pub mod encoding;
pub mod fault;
pub mod format;
mod json;
pub mod message;
pub mod range;
pub mod request;
pub mod session;
