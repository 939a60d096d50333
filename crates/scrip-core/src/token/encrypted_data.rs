//! Data that a client encrypted for a client encryption key of the tenant.
//!
//! The caller that sends the JWE need not know its content: it may have taken the JWE from another
//! request. So the rules of a conversion apply to it, and the plaintext decides the type, because
//! the type is outside of the encryption.

use scrip_seal::{Jwe, JweError};
use scrip_types::strict_json::{self, JsonLimits};
use serde_json::Value;

use crate::{
    Error, FieldError, Timestamp,
    card::TokenType,
    policy::{Caller, has_reveal_right},
    types::{Containers, Plaintext, error::Denial, id::ClientKeyId},
};

/// A parsed `encrypted` with its `type`.
#[derive(Debug)]
pub struct EncryptedData {
    pub token_type: TokenType,
    jwe: Jwe,
    /// The JWE as the client sent it.
    text: String,
}

/// The limits of the decrypted JSON. The text has at most 64 KiB.
const JSON_LIMITS: JsonLimits = JsonLimits { depth_max: 32, memory_max: 2 * 1024 * 1024 };

/// One text for both cases, so that a client without the right to list keys does not learn which
/// keys existed.
const UNKNOWN_KEY: &str = "is encrypted for a key that is unknown or expired";
const INVALID_JSON: &str = "must contain JSON without duplicate names, at most 32 levels deep";

impl EncryptedData {
    /// Errors: the text is no JWE that the vault supports.
    pub fn parse(token_type: TokenType, text: &str) -> Result<Self, FieldError> {
        let jwe = Jwe::parse(text).map_err(field_error)?;
        Ok(Self { token_type, jwe, text: text.to_owned() })
    }

    /// Decrypts the data and checks its type. The rules of the type are not checked.
    /// Errors: as for [`EncryptedData::decrypt_any_type`], or the data is not of this type.
    pub(crate) fn decrypt(&self, caller: &Caller, now: Timestamp) -> Result<Plaintext, Error> {
        let data = self.decrypt_any_type(caller, now)?;
        self.check_type(&data)?;
        Ok(data)
    }

    /// Decrypts the data. Whether this fails does not depend on the content of valid JSON.
    ///
    /// Errors: the caller may not choose this type, the key is unknown or expired, or the JWE was
    /// not encrypted for it.
    pub(crate) fn decrypt_any_type(
        &self,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<Plaintext, Error> {
        check_encrypted_type(caller, self.token_type)?;
        decrypt(caller, &self.jwe, now)
    }

    /// Errors: the data is not of this type.
    pub(crate) fn check_type(&self, data: &Plaintext) -> Result<(), FieldError> {
        check_type(self.token_type, data.expose())
    }

    /// The JWE as the client sent it.
    pub(crate) fn as_sent(&self) -> &str {
        &self.text
    }

    /// What identifies the encryption, in every spelling of the JWE.
    pub(crate) fn encrypted_parts(&self) -> [&[u8]; 2] {
        self.jwe.encrypted_parts()
    }

    /// The key that the JWE names.
    pub(crate) fn key_id(&self) -> Option<ClientKeyId> {
        ClientKeyId::parse(self.jwe.key_id())
    }
}

/// The types whose data is a text of digits. One text fits several of them, and the client chooses the
/// type outside of the encryption.
const DIGIT_TYPES: [TokenType; 3] =
    [TokenType::SocialSecurityNumber, TokenType::EmployerIdNumber, TokenType::UsBankAccountNumber];

/// Checks that the type gives the caller no right on the digits of another type: a caller that reads
/// account numbers in clear could read a social security number as one. The mask of a routing number
/// hides nothing, so this type needs a reveal right on the others. The same holds for the sender of a
/// call whose data a proxy collects.
fn check_encrypted_type(caller: &Caller, token_type: TokenType) -> Result<(), Error> {
    let reveals = |it: &Caller, token_type: TokenType| {
        has_reveal_right(it, &Containers::from(token_type.default_container()))
    };
    let is_shown = |it: &Caller| {
        token_type == TokenType::UsBankRoutingNumber
            || DIGIT_TYPES.contains(&token_type) && reveals(it, token_type)
    };
    let gains = |it: &Caller| is_shown(it) && DIGIT_TYPES.iter().any(|other| !reveals(it, *other));
    if gains(caller) || caller.collection_sender().is_some_and(gains) {
        return Err(Error::Forbidden(Denial::ExposingExpression("type")));
    }
    Ok(())
}

fn decrypt(caller: &Caller, jwe: &Jwe, now: Timestamp) -> Result<Plaintext, Error> {
    let tenant = caller.tenant();
    let client_key = ClientKeyId::parse(jwe.key_id()).and_then(|it| tenant.client_keys.get(&it));
    let client_key = client_key.filter(|it| it.is_live(now));
    let client_key = client_key.ok_or_else(|| FieldError::new("encrypted", UNKNOWN_KEY))?;
    let secret = client_key.decrypt(&tenant.keys, jwe)?.map_err(field_error)?;
    let text = std::str::from_utf8(secret.expose()).ok();
    let value = text.and_then(|it| strict_json::parse(it, JSON_LIMITS).ok()).map(Plaintext::new);
    let value = value.filter(|it| !it.expose().is_null());
    value.ok_or_else(|| FieldError::new("encrypted", INVALID_JSON).into())
}

fn field_error(error: JweError) -> FieldError {
    FieldError { field: "encrypted".into(), problem: error.to_string().into() }
}

/// Without this check, a caller could store a card that it cannot read as a type with weaker rules,
/// in a container where it can read.
fn check_type(token_type: TokenType, data: &Value) -> Result<(), FieldError> {
    let has = |name| data.as_object().is_some_and(|it| it.contains_key(name));
    let is_card = matches!(token_type, TokenType::Card | TokenType::NetworkToken);
    let problem = if has("number") && !is_card {
        "must be card or network_token, because the encrypted data has a number"
    } else if has("account_number") && token_type != TokenType::Bank {
        "must be bank, because the encrypted data has an account_number"
    } else if is_card_number(data) && token_type != TokenType::CardNumber {
        "must be card_number, because the encrypted data is a text of 12 to 19 digits"
    } else {
        return Ok(());
    };
    Err(FieldError::new("type", problem))
}

/// A text or number of 12 to 19 digits. Separators are ignored, because people write card numbers
/// with them.
fn is_card_number(data: &Value) -> bool {
    let text = match data {
        Value::String(text) => text.as_str(),
        Value::Number(number) => number.as_str(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return false,
    };
    let is_allowed = |it: char| it.is_ascii_digit() || it.is_whitespace() || "-._".contains(it);
    let digits = text.chars().filter(char::is_ascii_digit).count();
    text.chars().all(is_allowed) && (12..=19).contains(&digits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(data: &Value, allowed: &[TokenType]) {
        for token_type in TokenType::ALL {
            let is_allowed = check_type(token_type, data).is_ok();
            assert_eq!(is_allowed, allowed.contains(&token_type), "{data} as {token_type:?}");
        }
    }

    #[test]
    fn plaintext_decides_the_type_of_encrypted_data() {
        use TokenType::{Bank, Card, CardNumber, NetworkToken};
        check(&json!({"number": "4242424242424242"}), &[Card, NetworkToken]);
        check(&json!({"number": null}), &[Card, NetworkToken]);
        check(&json!({"account_number": "1", "routing_number": "021000021"}), &[Bank]);
        check(&json!({"account_number": "1", "number": "1"}), &[]);
        check(&json!("4242424242424242"), &[CardNumber]);
        check(&json!("424242424242"), &[CardNumber]);
        check(&json!("4242424242424242424"), &[CardNumber]);
        check(&json!(4_242_424_242_424_242_u64), &[CardNumber]);
        check(&json!("4242 4242-4242.4242"), &[CardNumber]);
        check(&json!("42424242424"), &TokenType::ALL);
        check(&json!("42424242424242424242"), &TokenType::ALL);
        check(&json!("x4242424242424242"), &TokenType::ALL);
        check(&json!({"name": "4242424242424242"}), &TokenType::ALL);
    }
}
