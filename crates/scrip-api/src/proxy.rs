//! The messages of the proxy: expressions in bodies and headers, transforms without code, and
//! errors.
//!
//! These functions use neither a socket nor the vault. A request passes them in this order: body,
//! request transforms, header expressions. A response passes the response transforms and the rules
//! for response headers.

pub mod body;
pub(crate) mod call;
pub mod edits;
pub mod error;
pub mod headers;
pub mod json_scanner;
pub mod outgoing;
pub mod secret_buffer;
pub mod transform;

pub use self::call::StreamedAnswer;
