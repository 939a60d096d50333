//! The strict parser of a JWE. It accepts one algorithm and one form, so that no header can select
//! a weaker one.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use thiserror::Error;

/// A well-formed JWE in compact form. Nothing in it is authenticated before it is opened.
pub struct Jwe {
    /// The header in its encoded form, which is the associated data.
    pub(super) protected_header: String,
    key_id: String,
    pub(super) ephemeral_key: [u8; KEY_BYTES],
    pub(super) nonce: [u8; NONCE_BYTES],
    pub(super) ciphertext_and_tag: Vec<u8>,
}

/// Why a JWE is rejected. The reason is a rule, never a part of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JweError {
    #[error("must have five parts, separated by dots")]
    Parts,
    #[error("each part must be base64url without padding")]
    Encoding,
    #[error("the header must have at most 1024 characters")]
    HeaderSize,
    #[error(
        "the header must be a JSON object with exactly alg, enc, kid and epk, each once; epk must \
         have exactly kty, crv and x (crit, zip, apu, apv and others are not supported)"
    )]
    Header,
    #[error("alg must be ECDH-ES, and enc must be A256GCM")]
    Algorithm,
    #[error("epk must be a valid X25519 public key (kty OKP, 32 bytes)")]
    EphemeralKey,
    #[error("the encrypted key (the second part) must be empty")]
    EncryptedKey,
    #[error("the initialization vector must have 96 bits, and the tag 128 bits")]
    NonceOrTag,
    #[error("the plaintext must have at most 65536 bytes")]
    PlaintextSize,
    #[error("cannot be decrypted with this key")]
    Undecryptable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    alg: String,
    enc: String,
    kid: String,
    epk: PublicJwk,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublicJwk {
    kty: String,
    crv: String,
    x: String,
}

pub(super) const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
const MAX_HEADER_CHARS: usize = 1024;
const MAX_PLAINTEXT_BYTES: usize = 65_536;
/// Base64 of the largest ciphertext. A longer text is rejected before it is decoded.
const MAX_CIPHERTEXT_CHARS: usize = MAX_PLAINTEXT_BYTES.div_ceil(3).saturating_mul(4);

impl Jwe {
    /// Errors: the text breaks a rule of [`JweError`].
    pub fn parse(text: &str) -> Result<Self, JweError> {
        let mut parts = text.split('.');
        let mut next_part = || parts.next().ok_or(JweError::Parts);
        let (header, encrypted_key, nonce) = (next_part()?, next_part()?, next_part()?);
        let (ciphertext, tag) = (next_part()?, next_part()?);
        if parts.next().is_some() {
            return Err(JweError::Parts);
        }
        if header.len() > MAX_HEADER_CHARS {
            return Err(JweError::HeaderSize);
        }
        if !encrypted_key.is_empty() {
            return Err(JweError::EncryptedKey);
        }
        if ciphertext.len() > MAX_CIPHERTEXT_CHARS {
            return Err(JweError::PlaintextSize);
        }
        let parsed: Header =
            serde_json::from_slice(&decode(header)?).map_err(|_| JweError::Header)?;
        if parsed.alg != "ECDH-ES" || parsed.enc != "A256GCM" {
            return Err(JweError::Algorithm);
        }
        if parsed.epk.kty != "OKP" || parsed.epk.crv != "X25519" {
            return Err(JweError::EphemeralKey);
        }
        let ephemeral_key = decode_array(&parsed.epk.x, JweError::EphemeralKey)?;
        let nonce = decode_array(nonce, JweError::NonceOrTag)?;
        let tag: [u8; TAG_BYTES] = decode_array(tag, JweError::NonceOrTag)?;
        let mut ciphertext_and_tag = decode(ciphertext)?;
        if ciphertext_and_tag.len() > MAX_PLAINTEXT_BYTES {
            return Err(JweError::PlaintextSize);
        }
        ciphertext_and_tag.extend_from_slice(&tag);
        Ok(Self {
            protected_header: header.to_owned(),
            key_id: parsed.kid,
            ephemeral_key,
            nonce,
            ciphertext_and_tag,
        })
    }

    /// The `kid` of the header.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// What identifies the encryption, in every spelling of the JWE: the initialization vector, and
    /// the ciphertext with its tag. Without the plaintext nobody can make another JWE of it.
    pub fn encrypted_parts(&self) -> [&[u8]; 2] {
        [&self.nonce, &self.ciphertext_and_tag]
    }
}

impl fmt::Debug for Jwe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jwe({} bytes)", self.ciphertext_and_tag.len())
    }
}

fn decode(part: &str) -> Result<Vec<u8>, JweError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| JweError::Encoding)
}

/// Checks the length before it decodes.
fn decode_array<const N: usize>(part: &str, wrong_length: JweError) -> Result<[u8; N], JweError> {
    if part.len() != N.saturating_mul(4).div_ceil(3) {
        return Err(wrong_length);
    }
    decode(part)?.try_into().map_err(|_| wrong_length)
}

#[cfg(test)]
mod tests;
