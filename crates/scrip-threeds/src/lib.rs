//! EMV 3-D Secure 2.1.0 and 2.2.0, as a 3DS server needs it.
//!
//! Pure: bytes, times and ids come in as arguments, and what is to be done comes out as values. The
//! messages are for both directions, so that a simulated directory server can be built of them too.

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
pub mod strict_json;
pub mod webhook;
