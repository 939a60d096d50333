//! Plaintext that may be used and not read.

use std::fmt;

use scrip_core::{card::TokenType, token::CollectedData, types::Plaintext};
use serde_json::Value;

/// Data that goes into the message of a proxied call, and that its caller may not see: the data of a
/// used token, data that a client encrypted for the call, or the configuration of a proxy.
///
/// Its content has two sinks, both in the module `outgoing`: the bytes of the outgoing message, and
/// the whole data of a new token. Everything else does not compile:
/// ```compile_fail,E0624
/// // No other module reads it.
/// let data = scrip_api::proxy::outgoing::UsablePlaintext::default();
/// data.expose_for_message();
/// ```
/// ```compile_fail,E0616
/// let data = scrip_api::proxy::outgoing::UsablePlaintext::default();
/// let plaintext = data.0;
/// ```
/// ```compile_fail,E0277
/// // It is no JSON.
/// let data = scrip_api::proxy::outgoing::UsablePlaintext::default();
/// let json = serde_json::to_value(&data);
/// ```
/// ```compile_fail,E0277
/// let data = scrip_api::proxy::outgoing::UsablePlaintext::default();
/// let value: serde_json::Value = data.into();
/// ```
/// ```compile_fail,E0277
/// // No token takes it as plaintext.
/// let data = scrip_api::proxy::outgoing::UsablePlaintext::default();
/// let plaintext: scrip_core::types::Plaintext = data.into();
/// ```
/// ```compile_fail,E0308
/// use scrip_core::token::{NewToken, TokenType};
/// let data = scrip_api::proxy::outgoing::UsablePlaintext::default();
/// let token = NewToken::with_data(TokenType::Token, data);
/// ```
/// ```compile_fail,E0277
/// // No error takes it as text.
/// let data = scrip_api::proxy::outgoing::UsablePlaintext::default();
/// let error = scrip_core::FieldError::new(data.to_string(), "is required");
/// ```
/// ```compile_fail,E0277
/// // No log field shows it.
/// let data = scrip_api::proxy::outgoing::UsablePlaintext::default();
/// println!("{data}");
/// ```
/// ```compile_fail,E0599
/// let data = scrip_api::proxy::outgoing::UsablePlaintext::default();
/// let copy = data.clone();
/// ```
/// ```compile_fail,E0369
/// // Equality with a guess would disclose it.
/// let data = scrip_api::proxy::outgoing::UsablePlaintext::default();
/// let is_equal = data == scrip_api::proxy::outgoing::UsablePlaintext::default();
/// ```
/// `Debug` prints the name of the type:
/// ```
/// let data = scrip_api::proxy::outgoing::UsablePlaintext::default();
/// assert_eq!(format!("{data:?}"), "UsablePlaintext");
/// ```
#[derive(Default)]
pub struct UsablePlaintext(Plaintext);

impl From<Plaintext> for UsablePlaintext {
    fn from(plaintext: Plaintext) -> Self {
        Self(plaintext)
    }
}

impl UsablePlaintext {
    /// The content, for the bytes of the outgoing message.
    pub(super) fn expose_for_message(&self) -> &Value {
        self.0.expose()
    }

    /// The data of a new token: the attribute `data` of the decrypted object, or of the one with this
    /// name. `None` if there is no such object.
    pub(in crate::proxy) fn collect_data(
        &self,
        name: Option<&str>,
        is_from_browser: bool,
    ) -> Option<CollectedData> {
        let object = match name {
            Some(name) => self.0.expose().get(name)?,
            None => self.0.expose(),
        };
        let token_type = object.get("type").and_then(Value::as_str).and_then(TokenType::parse)?;
        let data = Plaintext::new(object.get("data")?.clone());
        Some(CollectedData::from_encrypted(token_type, data, is_from_browser))
    }
}

impl fmt::Debug for UsablePlaintext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UsablePlaintext")
    }
}
