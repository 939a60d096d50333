//! The messages of the proxy: expressions in bodies and headers, transforms without code, and
//! errors.
//!
//! These functions use neither a socket nor the vault. A request passes them in this order: body,
//! request transforms, header expressions. A response passes the response transforms and the rules
//! for response headers.

pub mod body;
pub(crate) mod call;
pub mod error;
pub mod headers;
pub mod json_scanner;
pub mod secret_buffer;
pub mod transform;

pub use self::call::StreamedAnswer;

use scrip_core::{proxy::ProxyConfiguration, token::Plaintext};
use serde_json::Value;

/// The configuration of a proxy as expressions read it: an object of texts.
#[must_use]
pub fn configuration_value(configuration: Option<&ProxyConfiguration>) -> Plaintext {
    let entries = configuration.into_iter().flat_map(ProxyConfiguration::iter);
    let entries = entries.map(|(name, value)| (name.to_owned(), Value::from(value)));
    Plaintext::new(Value::Object(entries.collect()))
}
