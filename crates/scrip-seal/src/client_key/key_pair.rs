//! The key pair for which clients encrypt.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    agreement::{PrivateKey, UnparsedPublicKey, X25519, agree},
    kdf::{SskdfDigestAlgorithmId, get_sskdf_digest_algorithm, sskdf_digest},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::{
    Secret,
    client_key::jwe::{Jwe, JweError, KEY_BYTES},
    random::fill_random,
};

/// An X25519 key pair.
pub struct ClientKeyPair {
    private_key: Secret,
}

/// The stored bytes are no private key, or the cryptographic library rejects them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the private key of a client encryption key cannot be used")]
pub struct ClientKeyError;

/// The other input of the Concat KDF (RFC 7518, 4.6.2): the algorithm with its length, an empty
/// `PartyUInfo`, an empty `PartyVInfo`, and the length of the key in bits.
const KDF_INFO: &[u8] = b"\0\0\0\x07A256GCM\0\0\0\0\0\0\0\0\0\0\x01\0";

impl ClientKeyPair {
    pub fn create() -> Self {
        let mut private_key = vec![0; KEY_BYTES];
        fill_random(&mut private_key);
        Self { private_key: Secret::new(private_key) }
    }

    /// Errors: the secret does not have 32 bytes.
    pub fn from_private_key(private_key: Secret) -> Result<Self, ClientKeyError> {
        let key_pair = Self { private_key };
        key_pair.parse_private_key()?;
        Ok(key_pair)
    }

    /// For the encryption of the stored form.
    pub fn private_key(&self) -> &Secret {
        &self.private_key
    }

    /// The 32 bytes of the public key in base64, between the lines of `PUBLIC KEY`. Existing
    /// clients expect this form, which is not a `SubjectPublicKeyInfo`.
    ///
    /// Errors: the cryptographic library rejects the private key.
    pub fn public_key_pem(&self) -> Result<String, ClientKeyError> {
        let public_key =
            self.parse_private_key()?.compute_public_key().map_err(|_| ClientKeyError)?;
        let text = STANDARD.encode(public_key.as_ref());
        Ok(format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----"))
    }

    /// Decrypts.
    /// Errors: the JWE was encrypted for another key or altered, or its ephemeral key is a point of
    /// low order.
    pub fn open(&self, jwe: &Jwe) -> Result<Secret, JweError> {
        let private_key = self.parse_private_key().map_err(|_| JweError::Undecryptable)?;
        let ephemeral_key = UnparsedPublicKey::new(&X25519, &jwe.ephemeral_key);
        // The library rejects a shared secret of zeros, which all points of low order give.
        let key = agree(&private_key, ephemeral_key, JweError::EphemeralKey, derive_key)?;
        let key = UnboundKey::new(&AES_256_GCM, key.as_ref())
            .map_err(|_| JweError::Undecryptable)
            .map(LessSafeKey::new)?;
        let mut bytes = Zeroizing::new(jwe.ciphertext_and_tag.clone());
        let nonce = Nonce::assume_unique_for_key(jwe.nonce);
        let aad = Aad::from(jwe.protected_header.as_bytes());
        let opened =
            key.open_in_place(nonce, aad, &mut bytes).map_err(|_| JweError::Undecryptable)?.len();
        bytes.truncate(opened);
        Ok(Secret::new(std::mem::take(&mut *bytes)))
    }

    fn parse_private_key(&self) -> Result<PrivateKey, ClientKeyError> {
        PrivateKey::from_private_key(&X25519, self.private_key.expose()).map_err(|_| ClientKeyError)
    }
}

/// The Concat KDF with SHA-256.
fn derive_key(shared_secret: &[u8]) -> Result<Zeroizing<[u8; KEY_BYTES]>, JweError> {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    get_sskdf_digest_algorithm(SskdfDigestAlgorithmId::Sha256)
        .and_then(|it| sskdf_digest(it, shared_secret, KDF_INFO, key.as_mut()).ok())
        .ok_or(JweError::Undecryptable)?;
    Ok(key)
}

hide_in_debug! { ClientKeyPair }

#[cfg(test)]
mod tests;
