//! Changes of a card number by a patch.

use crate::{Error, card::TokenType, token::TokenPatch, types::Plaintext};

/// Whether a patch contains a card number, with any value.
pub(crate) fn patch_has_card_number(token_type: TokenType, patch: &TokenPatch) -> bool {
    let data = patch.data.as_ref().map(Plaintext::expose);
    let has_number = data.is_some_and(|it| it.get("number").is_some() || !it.is_object());
    has_number && token_type == TokenType::Card
}

pub(crate) fn number_in_use_error() -> Error {
    let reason = "a 3-D Secure session was created for the number of this card";
    Error::Conflict { reason }
}
