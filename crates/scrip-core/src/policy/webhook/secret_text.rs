//! The secret of a webhook: deliveries are signed with it, and the receiver checks them.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use zeroize::Zeroizing;

/// The text of a secret. `Debug` does not print it, and it is wiped when dropped.
#[derive(Clone)]
pub struct WebhookSecretText(Zeroizing<String>);

/// The prefix that libraries for Standard Webhooks expect.
const PREFIX: &str = "whsec_";
const SECRET_BYTES: usize = 32;

impl WebhookSecretText {
    #[must_use]
    pub fn new(fill_random: fn(&mut [u8])) -> Self {
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        fill_random(bytes.as_mut());
        // Reserve the whole length: a text that grows leaves copies of itself in memory.
        let mut text = Zeroizing::new(String::with_capacity(64));
        text.push_str(PREFIX);
        STANDARD.encode_string(bytes.as_ref(), &mut text);
        Self(text)
    }

    pub(crate) fn from_stored(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for WebhookSecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecretText")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_secrets_are_thirty_two_random_bytes_and_not_printed() {
        let create = || WebhookSecretText::new(scrip_seal::fill_random);
        let secret = create();
        assert_ne!(secret.expose(), create().expose());
        let bytes = STANDARD.decode(secret.expose().strip_prefix("whsec_").unwrap()).unwrap();
        assert_eq!(bytes.len(), 32);
        assert_eq!(format!("{secret:?}"), "WebhookSecretText");
    }
}
