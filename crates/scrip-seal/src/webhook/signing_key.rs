//! The key pair of the vault for signatures of webhook deliveries.

use aws_lc_rs::{
    encoding::{AsDer, PublicKeyX509Der},
    rand::SystemRandom,
    rsa::{KeyPair, KeySize},
    signature::{KeyPair as _, RSA_PSS_SHA256},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use thiserror::Error;

use crate::{KeySource, KeySourceError, Place, Sealed, Secret, root::vault_key::rewrap};

/// RSA-2048. Signatures are RSA-PSS with SHA-256 and a salt of 32 bytes, because existing receivers
/// verify this form.
pub struct WebhookSigningKey {
    key_pair: KeyPair,
    public_key_pem: String,
}

/// Why there is no key pair or no signature.
#[derive(Debug, Error)]
pub enum WebhookKeyError {
    #[error(transparent)]
    Source(#[from] KeySourceError),
    #[error("the key pair for webhooks cannot be generated, parsed or used")]
    Unusable,
}

/// The size of an RSA-2048 signature.
const SIGNATURE_BYTES: usize = 256;
/// The longest line of a PEM file.
const PEM_LINE_CHARS: usize = 64;

impl WebhookSigningKey {
    /// Generates a key pair and wraps it for the store. This takes up to a second.
    /// Errors: the key source is unavailable, or the key pair cannot be generated.
    pub fn create(source: &dyn KeySource) -> Result<(Self, Sealed), WebhookKeyError> {
        let key_pair =
            KeyPair::generate(KeySize::Rsa2048).map_err(|_| WebhookKeyError::Unusable)?;
        let pkcs8 = key_pair.as_der().map_err(|_| WebhookKeyError::Unusable)?;
        let wrapped = source.wrap(&Self::place(), &Secret::new(pkcs8.as_ref().to_vec()))?;
        Ok((Self::from_key_pair(key_pair)?, wrapped))
    }

    /// Errors: the key source is unavailable, or another source wrapped this key pair.
    pub fn unwrap(source: &dyn KeySource, wrapped: &Sealed) -> Result<Self, WebhookKeyError> {
        let pkcs8 = source.unwrap(&Self::place(), wrapped)?;
        let key_pair =
            KeyPair::from_pkcs8(pkcs8.expose()).map_err(|_| WebhookKeyError::Unusable)?;
        Self::from_key_pair(key_pair)
    }

    /// Wraps the stored key pair with another source.
    /// Errors: a key source is unavailable, or another source wrapped this key pair.
    pub fn rewrap(
        old: &dyn KeySource,
        new: &dyn KeySource,
        wrapped: &Sealed,
    ) -> Result<Sealed, KeySourceError> {
        rewrap(old, new, &Self::place(), wrapped)
    }

    /// The signature of a body, in base64. Each signature of the same body differs.
    /// Errors: the cryptographic library rejects the key pair.
    pub fn sign(&self, body: &[u8]) -> Result<String, WebhookKeyError> {
        let mut signature = [0; SIGNATURE_BYTES];
        // A wrong length would be a panic in the library.
        if self.key_pair.public_modulus_len() != SIGNATURE_BYTES {
            return Err(WebhookKeyError::Unusable);
        }
        self.key_pair
            .sign(&RSA_PSS_SHA256, &SystemRandom::new(), body, &mut signature)
            .map_err(|_| WebhookKeyError::Unusable)?;
        Ok(STANDARD.encode(signature))
    }

    /// The public key as PEM: a `SubjectPublicKeyInfo` between the lines of `PUBLIC KEY`.
    pub fn public_key_pem(&self) -> &str {
        &self.public_key_pem
    }

    fn from_key_pair(key_pair: KeyPair) -> Result<Self, WebhookKeyError> {
        let public_key: PublicKeyX509Der<'_> =
            key_pair.public_key().as_der().map_err(|_| WebhookKeyError::Unusable)?;
        let public_key_pem = encode_pem(public_key.as_ref());
        Ok(Self { key_pair, public_key_pem })
    }

    fn place() -> Place {
        Place::new("webhook.signing-key")
    }
}

fn encode_pem(public_key: &[u8]) -> String {
    let mut pem = String::from("-----BEGIN PUBLIC KEY-----\n");
    let mut line_chars = 0_usize;
    for letter in STANDARD.encode(public_key).chars() {
        if line_chars == PEM_LINE_CHARS {
            pem.push('\n');
            line_chars = 0;
        }
        pem.push(letter);
        line_chars = line_chars.saturating_add(1);
    }
    pem.push_str("\n-----END PUBLIC KEY-----\n");
    pem
}

hide_in_debug! { WebhookSigningKey }

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{RSA_PSS_2048_8192_SHA256, UnparsedPublicKey};

    use super::*;
    use crate::{AuditKey, RootKey};

    fn root(text: &str) -> RootKey {
        RootKey::from_text(text).unwrap()
    }

    fn source() -> RootKey {
        root("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
    }

    /// Verifies as a receiver does: with the content of the PEM file.
    fn is_valid(pem: &str, body: &[u8], signature: &str) -> bool {
        let lines: String = pem.lines().filter(|it| !it.starts_with("-----")).collect();
        let public_key = STANDARD.decode(lines).unwrap();
        let signature = STANDARD.decode(signature).unwrap();
        let key = UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, public_key);
        key.verify(body, &signature).is_ok()
    }

    #[test]
    fn signature_is_valid_for_its_body_and_key_pair_only() {
        let (key, _) = WebhookSigningKey::create(&source()).unwrap();
        let (other_key, _) = WebhookSigningKey::create(&source()).unwrap();
        let signature = key.sign(b"{}").unwrap();
        assert!(is_valid(key.public_key_pem(), b"{}", &signature));
        assert!(!is_valid(key.public_key_pem(), b"{ }", &signature));
        assert!(!is_valid(other_key.public_key_pem(), b"{}", &signature));
        assert_ne!(key.sign(b"{}").unwrap(), signature, "the salt is random");
    }

    #[test]
    fn unwrapped_signing_key_has_the_same_public_key() {
        let (created, wrapped) = WebhookSigningKey::create(&source()).unwrap();
        let opened = WebhookSigningKey::unwrap(&source(), &wrapped).unwrap();
        assert_eq!(created.public_key_pem(), opened.public_key_pem());
        let signature = opened.sign(b"{}").unwrap();
        assert!(is_valid(created.public_key_pem(), b"{}", &signature));
    }

    #[test]
    fn signing_key_unwraps_only_with_its_root_key_and_place() {
        let (_, wrapped) = WebhookSigningKey::create(&source()).unwrap();
        let other_root = root("ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
        assert!(WebhookSigningKey::unwrap(&other_root, &wrapped).is_err());
        let (_, audit_key) = AuditKey::create(&source()).unwrap();
        assert!(WebhookSigningKey::unwrap(&source(), &audit_key).is_err());
        let no_key = source().wrap(&WebhookSigningKey::place(), &Secret::new(vec![7; 32])).unwrap();
        let error = WebhookSigningKey::unwrap(&source(), &no_key).unwrap_err();
        assert!(matches!(error, WebhookKeyError::Unusable));
    }

    #[test]
    fn public_key_pem_has_short_lines_and_no_private_key() {
        let (key, wrapped) = WebhookSigningKey::create(&source()).unwrap();
        let pem = key.public_key_pem();
        assert!(pem.starts_with("-----BEGIN PUBLIC KEY-----\nMII"));
        assert!(pem.ends_with("\n-----END PUBLIC KEY-----\n"));
        assert!(pem.lines().all(|it| it.len() <= PEM_LINE_CHARS && !it.is_empty()));
        // The private key has about 1200 bytes.
        assert!(pem.len() < 500 && wrapped.as_bytes().len() > 1000);
        assert_eq!(format!("{key:?}"), "WebhookSigningKey");
    }
}
