//! Data that a proxied call stores in a new token, and that its sender may not read.

use std::fmt;

use crate::token::{Plaintext, TokenType, write::conversion::DataOrigin};

/// The whole data of a new token: data that a client encrypted for the call, or a part of an answer
/// that can repeat the data of a used token. Only the write of the token opens it.
///
/// No method returns the data:
/// ```compile_fail,E0599
/// use scrip_core::token::{CollectedData, Plaintext, TokenType};
/// let data = CollectedData::from_hidden_answer(TokenType::Token, Plaintext::default());
/// data.expose();
/// ```
/// ```compile_fail,E0616
/// use scrip_core::token::{CollectedData, Plaintext, TokenType};
/// let data = CollectedData::from_hidden_answer(TokenType::Token, Plaintext::default());
/// let plaintext = data.data;
/// ```
/// ```compile_fail,E0277
/// use scrip_core::token::{CollectedData, Plaintext, TokenType};
/// let data = CollectedData::from_hidden_answer(TokenType::Token, Plaintext::default());
/// let json = serde_json::to_value(&data);
/// ```
pub struct CollectedData {
    token_type: TokenType,
    data: Plaintext,
    origin: DataOrigin,
}

impl CollectedData {
    /// Data that a client encrypted for the call. The new token shows no details of it if the sender
    /// is a browser, which may have encrypted it without knowing it.
    #[must_use]
    pub fn from_encrypted(token_type: TokenType, data: Plaintext, is_from_browser: bool) -> Self {
        let origin = if is_from_browser { DataOrigin::Hidden } else { DataOrigin::Encrypted };
        Self { token_type, data, origin }
    }

    /// A part of the answer to a call that used a token which its sender may not read.
    #[must_use]
    pub fn from_hidden_answer(token_type: TokenType, data: Plaintext) -> Self {
        Self { token_type, data, origin: DataOrigin::Hidden }
    }

    #[must_use]
    pub fn token_type(&self) -> TokenType {
        self.token_type
    }

    pub(super) fn open(self) -> (TokenType, Plaintext, DataOrigin) {
        let Self { token_type, data, origin } = self;
        (token_type, data, origin)
    }
}

impl fmt::Debug for CollectedData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CollectedData")
    }
}
