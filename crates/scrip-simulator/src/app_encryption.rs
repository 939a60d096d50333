//! JWE encryption of the messages between an app and the ACS. Only the two sides know the keys.

use std::fmt;

use aws_lc_rs::{
    aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    cipher::{
        AES_128, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
        PaddedBlockEncryptingKey, UnboundCipherKey,
    },
    constant_time, digest, hmac,
    iv::FixedLength,
    rand,
};
use scrip_threeds::{
    encoding::{decode, encode},
    format::TransId,
};
use serde::Deserialize;
use serde_json::json;

/// The 32 bytes that both sides derive from the key agreement.
pub(crate) struct AppKeys {
    left: [u8; 16],
    right: [u8; 16],
}

impl fmt::Debug for AppKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AppKeys")
    }
}

/// The two encryption methods of EMV. The app chooses; the response uses the method of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Encryption {
    #[serde(rename = "A128CBC-HS256")]
    Cbc,
    #[serde(rename = "A128GCM")]
    Gcm,
}

#[derive(Debug, Deserialize)]
struct JweHeader {
    alg: String,
    enc: Encryption,
    kid: String,
}

/// A message that is not decrypted yet.
#[derive(Debug)]
pub(super) struct JweEnvelope {
    pub(super) acs_trans_id: TransId,
    pub(super) encryption: Encryption,
    header: String,
    iv: Vec<u8>,
    ciphertext: Vec<u8>,
    tag: Vec<u8>,
}

impl JweEnvelope {
    pub(super) fn parse(compact: &str) -> Option<Self> {
        let mut parts = compact.split('.');
        let (header, key) = (parts.next()?, parts.next()?);
        let mut bytes = || parts.next().and_then(|it| decode(it).ok()).map(|it| it.to_vec());
        let (iv, ciphertext, tag) = (bytes()?, bytes()?, bytes()?);
        let parsed_header: JweHeader = serde_json::from_slice(&decode(header).ok()?).ok()?;
        let is_well_formed = parts.next().is_none() && key.is_empty() && parsed_header.alg == "dir";
        let acs_trans_id = TransId::parse(&parsed_header.kid).ok().filter(|_| is_well_formed)?;
        let header = header.to_owned();
        Some(Self { acs_trans_id, encryption: parsed_header.enc, header, iv, ciphertext, tag })
    }
}

impl AppKeys {
    /// Concat KDF of RFC 7518 without an algorithm name, as EMV specifies: one round, 256 bits.
    pub(super) fn derive(secret: &[u8], sdk_reference_number: &str) -> Self {
        let party = sdk_reference_number.as_bytes();
        let length = u32::try_from(party.len()).unwrap_or(u32::MAX);
        let mut round = digest::Context::new(&digest::SHA256);
        round.update(&1_u32.to_be_bytes());
        round.update(secret);
        round.update(&[0; 8]);
        round.update(&length.to_be_bytes());
        round.update(party);
        round.update(&256_u32.to_be_bytes());
        let derived = round.finish();
        let (mut left, mut right) = ([0; 16], [0; 16]);
        for (to, from) in left.iter_mut().chain(&mut right).zip(derived.as_ref()) {
            *to = *from;
        }
        Self { left, right }
    }

    /// Decrypts a message from the app. Returns `None` for any invalid message.
    pub(super) fn open(&self, envelope: &JweEnvelope) -> Option<Vec<u8>> {
        let mut text = envelope.ciphertext.clone();
        match envelope.encryption {
            Encryption::Gcm => {
                let nonce = Nonce::try_assume_unique_for_key(&envelope.iv).ok()?;
                let aad = Aad::from(envelope.header.as_bytes());
                text.extend_from_slice(&envelope.tag);
                let plaintext = gcm_key(&self.left)?.open_in_place(nonce, aad, &mut text).ok()?;
                Some(plaintext.to_vec())
            }
            Encryption::Cbc => {
                let mac = self.mac(&envelope.header, &envelope.iv, &envelope.ciphertext)?;
                constant_time::verify_slices_are_equal(&mac, &envelope.tag).ok()?;
                let iv: [u8; 16] = envelope.iv.as_slice().try_into().ok()?;
                let key = UnboundCipherKey::new(&AES_128, &self.right).ok()?;
                let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
                let context = DecryptionContext::Iv128(FixedLength::from(iv));
                Some(key.decrypt(&mut text, context).ok()?.to_vec())
            }
        }
    }

    /// Encrypts a message to the app.
    pub(super) fn seal(
        &self,
        message: &[u8],
        acs_trans_id: &TransId,
        encryption: Encryption,
    ) -> Option<String> {
        let enc = match encryption {
            Encryption::Cbc => "A128CBC-HS256",
            Encryption::Gcm => "A128GCM",
        };
        let header = json!({ "alg": "dir", "enc": enc, "kid": acs_trans_id.expose() });
        let header = encode(header.to_string().as_bytes());
        let mut text = message.to_vec();
        let (iv, tag) = match encryption {
            Encryption::Gcm => {
                let mut iv = [0; 12];
                rand::fill(&mut iv).ok()?;
                let nonce = Nonce::assume_unique_for_key(iv);
                let aad = Aad::from(header.as_bytes());
                let tag = gcm_key(&self.right)?;
                let tag = tag.seal_in_place_separate_tag(nonce, aad, &mut text).ok()?;
                (iv.to_vec(), tag.as_ref().to_vec())
            }
            Encryption::Cbc => {
                let mut iv = [0; 16];
                rand::fill(&mut iv).ok()?;
                let key = UnboundCipherKey::new(&AES_128, &self.right).ok()?;
                let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).ok()?;
                let context = EncryptionContext::Iv128(FixedLength::from(iv));
                key.less_safe_encrypt(&mut text, context).ok()?;
                let tag = self.mac(&header, &iv, &text)?;
                (iv.to_vec(), tag.to_vec())
            }
        };
        Some(format!("{header}..{}.{}.{}", encode(&iv), encode(&text), encode(&tag)))
    }

    /// The first half of the HMAC over header, IV and ciphertext.
    fn mac(&self, header: &str, iv: &[u8], text: &[u8]) -> Option<[u8; 16]> {
        let bits = u64::try_from(header.len()).ok()?.checked_mul(8)?;
        let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &self.left));
        for part in [header.as_bytes(), iv, text, &bits.to_be_bytes()] {
            mac.update(part);
        }
        mac.sign().as_ref().first_chunk().copied()
    }
}

fn gcm_key(key: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_128_GCM, key).ok().map(LessSafeKey::new)
}
