//! Identifiers, one type each, so that two of them cannot be swapped.

use std::fmt;

use serde::Deserialize;
use uuid::{Uuid, Variant};

use crate::error::FieldError;

macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
        pub struct $name(pub Uuid);

        impl $name {
            /// Nothing when the text is no identifier, and so nobody's.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Uuid::try_parse(text).ok().map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

uuid_id! {
    TenantId ApplicationId ApiKeyId TokenIntentId
    /// Of a 3-D Secure session; also what all its messages call the transaction.
    ThreeDsSessionId
    /// Of one writing of a card's number. It says nothing about the number.
    CardNumberVersion
}

impl TenantId {
    /// Not a tenant: the chain of records about the vault itself has this id. Ids of tenants are
    /// random, and never this one.
    pub const VAULT: Self = Self(Uuid::nil());
}

impl CardNumberVersion {
    #[must_use]
    pub fn random(fill_random: fn(&mut [u8])) -> Self {
        Self(random_uuid(fill_random))
    }
}

/// A new random (version 4) identifier.
#[must_use]
pub fn random_uuid(fill_random: fn(&mut [u8])) -> Uuid {
    let mut bytes = [0; 16];
    fill_random(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// What a client calls a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(String);

const TOKEN_ID_CHARS_MIN: usize = 3;
const TOKEN_ID_CHARS_MAX: usize = 400;
/// What stands at its place in a path.
const RESERVED_TOKEN_ID: &str = "search";
const TOKEN_ID_FORBIDDEN: &str = "#/\\+?[]|&=%<>{}^";

impl TokenId {
    #[must_use]
    pub fn random(fill_random: fn(&mut [u8])) -> Self {
        Self(random_uuid(fill_random).to_string())
    }

    /// # Errors
    /// The text is too short, too long, or holds a character that a path or a query would misread.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let length = text.chars().count();
        if !(TOKEN_ID_CHARS_MIN..=TOKEN_ID_CHARS_MAX).contains(&length) {
            return Err(FieldError::new("id", "must have 3 to 400 characters"));
        }
        if text.chars().any(|it| TOKEN_ID_FORBIDDEN.contains(it) || it.is_control()) {
            let rule =
                "must have no control character and none of # / \\ + ? [ ] | & = % < > { } ^";
            return Err(FieldError::new("id", rule));
        }
        if text == RESERVED_TOKEN_ID {
            return Err(FieldError::new("id", "is the name of an operation"));
        }
        Ok(Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether this has the form of a random id: of some other number it hardly ever has.
#[must_use]
pub fn is_random_uuid(text: &str) -> bool {
    let id = Uuid::try_parse(text).ok();
    id.is_some_and(|it| it.get_version_num() == 4 && it.get_variant() == Variant::RFC4122)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, valid: bool) {
        assert_eq!(TokenId::parse(text).is_ok(), valid, "{text:?}");
    }

    #[test]
    fn token_id_rejects_bad_lengths_and_reserved_characters() {
        check("abc", true);
        check("ab", false);
        check("customer-7 card", true);
        check("日本語", true);
        check(&"x".repeat(400), true);
        check(&"x".repeat(401), false);
        check("a\nb", false);
        check("search", false);
        check("Search", true);
        for forbidden in TOKEN_ID_FORBIDDEN.chars() {
            check(&format!("ab{forbidden}c"), false);
        }
    }
}
