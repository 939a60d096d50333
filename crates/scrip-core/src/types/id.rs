//! Identifiers: a separate type for each, so that they cannot be confused.

use std::fmt;

use serde::Deserialize;
use uuid::{Uuid, Variant};

use crate::{FieldError, Timestamp};

macro_rules! uuid_id {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
        pub struct $name(pub Uuid);

        impl $name {
            /// `None` when the text is not a UUID.
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
    TenantId ApplicationId ApiKeyId TokenIntentId ProxyId WebhookId ClientKeyId UnlockId
    /// The id of a vault. No other vault has it.
    VaultId
    /// The id of a 3-D Secure session; also the transaction id in all of its messages.
    ThreeDsSessionId
    /// A version of a card's number. It reveals nothing about the number.
    CardNumberVersion
    /// The id of an event. Ids of later events are greater.
    EventId
}

impl TenantId {
    /// The id of the vault's own chain of records. No tenant has it: tenant ids are random and
    /// never nil.
    pub const VAULT: Self = Self(Uuid::nil());
}

impl ApplicationId {
    /// In a response, the creator of a row that no application created. No application has it: ids
    /// of applications are random and never nil.
    pub const NONE: Self = Self(Uuid::nil());
}

impl CardNumberVersion {
    pub fn random(fill_random: fn(&mut [u8])) -> Self {
        Self(random_uuid(fill_random))
    }
}

impl EventId {
    /// The least id of an event at this time: ids of earlier events are less.
    pub fn first_at(at: Timestamp) -> Self {
        Self::new(at, |_| ())
    }

    /// An id (version 7) with the time of the event, so that the rows of events are stored in the
    /// order of their times.
    pub fn new(at: Timestamp, fill_random: fn(&mut [u8])) -> Self {
        let mut bytes = [0; 10];
        fill_random(&mut bytes);
        let unix_ms = u64::try_from(at.unix_ms).unwrap_or_default();
        Self(uuid::Builder::from_unix_timestamp_millis(unix_ms, &bytes).into_uuid())
    }
}

/// A new random (version 4) identifier.
pub fn random_uuid(fill_random: fn(&mut [u8])) -> Uuid {
    let mut bytes = [0; 16];
    fill_random(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// The id of a token. Clients can choose it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(String);

const TOKEN_ID_CHARS_MIN: usize = 3;
const TOKEN_ID_CHARS_MAX: usize = 400;
/// The name of an operation that has the position of the id in a path.
const RESERVED_TOKEN_ID: &str = "search";
const TOKEN_ID_FORBIDDEN: &str = "#/\\+?[]|&=%<>{}^";

impl TokenId {
    pub fn random(fill_random: fn(&mut [u8])) -> Self {
        Self(random_uuid(fill_random).to_string())
    }

    /// Errors: the text is too short, too long, or has a character with a special meaning in a path
    /// or a query.
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
            return Err(FieldError::new("id", "is reserved: an operation has this name"));
        }
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether the text has the form of a random UUID. Other numbers rarely have it.
pub fn is_random_uuid(text: &str) -> bool {
    let id = Uuid::try_parse(text).ok();
    id.is_some_and(|it| it.get_version_num() == 4 && it.get_variant() == Variant::RFC4122)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, is_valid: bool) {
        assert_eq!(TokenId::parse(text).is_ok(), is_valid, "token id {text:?}");
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
