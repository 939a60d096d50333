//! Data that a proxied call stores in a new token, and that its sender may not read.

use crate::{
    card::TokenType,
    policy::AccessTarget,
    token::data_origin::DataOrigin,
    types::{Containers, Plaintext, id::TokenId},
};

/// The whole data of a new token: data that a client encrypted for the call, or a part of an answer
/// that can repeat the data of a used token. Only the write of the token opens it.
///
/// No method returns the data:
/// ```compile_fail,E0599
/// use scrip_core::token::{CollectedData, Plaintext, TokenType};
/// let data = CollectedData::from_hidden_answer(TokenType::Token, Plaintext::default(), Vec::new());
/// data.expose();
/// ```
/// ```compile_fail,E0616
/// use scrip_core::token::{CollectedData, Plaintext, TokenType};
/// let data = CollectedData::from_hidden_answer(TokenType::Token, Plaintext::default(), Vec::new());
/// let plaintext = data.data;
/// ```
/// ```compile_fail,E0277
/// use scrip_core::token::{CollectedData, Plaintext, TokenType};
/// let data = CollectedData::from_hidden_answer(TokenType::Token, Plaintext::default(), Vec::new());
/// let json = serde_json::to_value(&data);
/// ```
pub struct CollectedData {
    token_type: TokenType,
    data: Plaintext,
    origin: DataOrigin,
    /// Where the data comes from. The sender must not have more rights on the new token.
    places: Vec<DataPlace>,
}

/// Where data is stored: containers, and the id of a token.
#[derive(Debug, Clone)]
pub struct DataPlace {
    pub containers: Containers,
    /// Rules of an access session may have conditions on the id.
    pub id: Option<TokenId>,
}

impl From<Containers> for DataPlace {
    fn from(containers: Containers) -> Self {
        Self { containers, id: None }
    }
}

impl<'a> From<&'a DataPlace> for AccessTarget<'a> {
    fn from(place: &'a DataPlace) -> Self {
        Self { containers: &place.containers, id: place.id.as_ref() }
    }
}

impl CollectedData {
    /// Data that a client encrypted for the call. The new token shows no details of it if the sender
    /// is a browser, which may have encrypted it without knowing it.
    pub fn from_encrypted(token_type: TokenType, data: Plaintext, is_from_browser: bool) -> Self {
        let origin = if is_from_browser { DataOrigin::Hidden } else { DataOrigin::Encrypted };
        let default = Containers::from(token_type.default_container());
        Self { token_type, data, origin, places: vec![default.into()] }
    }

    /// A part of the answer to a call that used tokens which its sender may not read. `places` are
    /// those of these tokens.
    pub fn from_hidden_answer(
        token_type: TokenType,
        data: Plaintext,
        places: Vec<DataPlace>,
    ) -> Self {
        Self { token_type, data, origin: DataOrigin::Hidden, places }
    }

    pub fn token_type(&self) -> TokenType {
        self.token_type
    }

    pub(crate) fn open(self) -> (TokenType, Plaintext, DataOrigin, Vec<DataPlace>) {
        let Self { token_type, data, origin, places } = self;
        (token_type, data, origin, places)
    }
}

hide_in_debug! { CollectedData }
