//! The secret of a webhook, for the signatures of the Standard Webhooks specification.

use aws_lc_rs::hmac;
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::Secret;

/// A secret that the vault and one receiver share. Its text is `whsec_` and base64. There is no
/// `Display`, and `Debug` does not print it; it is wiped when dropped.
pub struct WebhookSecret {
    key: Secret,
    text: Zeroizing<String>,
}

/// Why a text is not a secret. Contains no part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WebhookSecretError {
    #[error("must begin with whsec_")]
    Prefix,
    #[error("must have base64 after whsec_")]
    Encoding,
    #[error("must have 24 to 64 bytes in base64")]
    Length,
}

const PREFIX: &str = "whsec_";
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
const GENERATED_BYTES: usize = 32;
/// The prefix and 64 bytes in base64.
const TEXT_BYTES_MAX: usize = 96;
/// The version of the scheme, in front of each signature.
const SCHEME: &str = "v1,";

impl WebhookSecret {
    /// A new random secret.
    pub fn new(fill_random: fn(&mut [u8])) -> Self {
        let mut key = vec![0; GENERATED_BYTES];
        fill_random(&mut key);
        Self::from_key(Secret::new(key))
    }

    /// Errors: the text has another form, or the secret is too short or too long.
    pub fn parse(text: &str) -> Result<Self, WebhookSecretError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(WebhookSecretError::Prefix)?;
        let decoded = STANDARD.decode(encoded).or_else(|_| STANDARD_NO_PAD.decode(encoded));
        let key = Secret::new(decoded.map_err(|_| WebhookSecretError::Encoding)?);
        if !SECRET_BYTES.contains(&key.expose().len()) {
            return Err(WebhookSecretError::Length);
        }
        Ok(Self::from_key(key))
    }

    /// The text that the receiver configures.
    pub fn expose(&self) -> &str {
        &self.text
    }

    fn from_key(key: Secret) -> Self {
        // With enough space: a text that grows leaves copies of itself in memory.
        let mut text = Zeroizing::new(String::with_capacity(TEXT_BYTES_MAX));
        text.push_str(PREFIX);
        STANDARD.encode_string(key.expose(), &mut text);
        Self { key, text }
    }

    /// One signature: the version of the scheme and the MAC of id, time and body in base64.
    fn sign(&self, message: &SignedMessage<'_>) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.key.expose());
        let mut context = hmac::Context::with_key(&key);
        context.update(message.id.as_bytes());
        context.update(b".");
        context.update(message.unix_seconds.to_string().as_bytes());
        context.update(b".");
        context.update(message.body);
        let mut signature = SCHEME.to_owned();
        STANDARD.encode_string(context.sign().as_ref(), &mut signature);
        signature
    }
}

struct SignedMessage<'a> {
    id: &'a str,
    unix_seconds: i64,
    body: &'a [u8],
}

/// The signatures of a delivery, with a space between them. During a rotation there are two
/// secrets: a receiver accepts the delivery if one signature matches the secret that it has.
pub fn sign_with_secrets(
    secrets: &[&WebhookSecret],
    id: &str,
    unix_seconds: i64,
    body: &[u8],
) -> String {
    let message = SignedMessage { id, unix_seconds, body };
    secrets.iter().map(|it| it.sign(&message)).collect::<Vec<_>>().join(" ")
}

impl Clone for WebhookSecret {
    fn clone(&self) -> Self {
        Self::from_key(Secret::new(self.key.expose().to_vec()))
    }
}

hide_in_debug! { WebhookSecret }

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fill_random;

    /// The example of the specification's reference libraries, verified with the Python library
    /// `standardwebhooks`.
    #[test]
    fn signature_equals_the_published_example() {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", br#"{"test": 2432232314}"#);
        let signature = sign_with_secrets(&[&secret], id, 1_614_265_330, body);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn signature_depends_on_secret_id_time_and_body() {
        let [one, other] = [(); 2].map(|()| WebhookSecret::new(fill_random));
        let sign = |secret, id, time, body: &[u8]| sign_with_secrets(&[secret], id, time, body);
        let signature = sign(&one, "a", 1, b"{}");
        assert_eq!(sign(&one, "a", 1, b"{}"), signature);
        let altered = [
            sign(&other, "a", 1, b"{}"),
            sign(&one, "b", 1, b"{}"),
            sign(&one, "a", 2, b"{}"),
            sign(&one, "a", 1, b"{ }"),
        ];
        assert!(!altered.contains(&signature));
    }

    #[test]
    fn delivery_during_a_rotation_has_the_signatures_of_both_secrets() {
        let [one, other] = [(); 2].map(|()| WebhookSecret::new(fill_random));
        let both = sign_with_secrets(&[&one, &other], "a", 1, b"{}");
        let [first, second] = [&one, &other].map(|it| sign_with_secrets(&[it], "a", 1, b"{}"));
        assert_eq!(both, format!("{first} {second}"));
    }

    #[test]
    fn malformed_secret_is_rejected_without_its_text() {
        let text = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        let cases = [
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(), WebhookSecretError::Prefix),
            ("WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(), WebhookSecretError::Prefix),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZI*2LaLaSw".to_owned(), WebhookSecretError::Encoding),
            (text(23), WebhookSecretError::Length),
            (text(65), WebhookSecretError::Length),
            ("whsec_".to_owned(), WebhookSecretError::Length),
        ];
        for (text, expected) in cases {
            assert_eq!(WebhookSecret::parse(&text).unwrap_err(), expected, "{text}");
        }
        assert!(WebhookSecret::parse(&text(24)).is_ok() && WebhookSecret::parse(&text(64)).is_ok());
    }

    #[test]
    fn generated_secrets_are_random_and_not_printed() {
        let [one, other] = [(); 2].map(|()| WebhookSecret::new(fill_random));
        assert_ne!(one.expose(), other.expose());
        assert_eq!(one.clone().expose(), one.expose());
        assert_eq!(format!("{one:?}"), "WebhookSecret");
        assert_eq!(one.key.expose().len(), GENERATED_BYTES);
    }

    proptest! {
        #[test]
        fn secret_round_trips_through_its_text(bytes in prop::collection::vec(any::<u8>(), 24..=64)) {
            let secret = WebhookSecret::from_key(Secret::new(bytes));
            let text = secret.expose();
            prop_assert!(text.len() <= TEXT_BYTES_MAX);
            let parsed = WebhookSecret::parse(text).unwrap();
            prop_assert!(parsed.key.constant_time_eq(secret.key.expose()));
            let unpadded = WebhookSecret::parse(text.trim_end_matches('=')).unwrap();
            prop_assert!(unpadded.key.constant_time_eq(secret.key.expose()));
        }

        #[test]
        fn parsing_any_secret_text_never_panics(text: String) {
            drop(WebhookSecret::parse(&text));
        }
    }
}
