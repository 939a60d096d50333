//! Signatures of requests to services that share a secret with the caller.

use aws_lc_rs::{digest, hmac};
use scrip_types::hex::encode_hex;
use zeroize::Zeroizing;

/// SHA-256 in lower-case hexadecimal, as signed requests contain it.
pub fn sha256_hex(message: &[u8]) -> String {
    encode_hex(digest::digest(&digest::SHA256, message).as_ref())
}

/// A key that signs requests of one scope, such as one day, region and service. A service that
/// learns this key cannot sign for another scope.
pub struct RequestSigningKey(Zeroizing<[u8; 32]>);

impl RequestSigningKey {
    /// Each part of the scope is the message of an HMAC-SHA-256 with the key so far. The secret is
    /// the first key.
    pub fn derive(secret: &[u8], scope: &[&str]) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        for (index, part) in scope.iter().enumerate() {
            let previous_key = if index == 0 { secret } else { key.as_ref() };
            let next_key = Zeroizing::new(hmac_sha256(previous_key, part.as_bytes()));
            key = next_key;
        }
        Self(key)
    }

    /// HMAC-SHA-256 in lower-case hexadecimal.
    pub fn sign(&self, text: &str) -> String {
        encode_hex(&hmac_sha256(self.0.as_ref(), text.as_bytes()))
    }
}

hide_in_debug! { RequestSigningKey }

fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut tag = [0; 32];
    let signed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message);
    for (to, from) in tag.iter_mut().zip(signed.as_ref()) {
        *to = *from;
    }
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of FIPS 180-2.
    #[test]
    fn sha256_hex_matches_published_vector() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), expected);
    }

    /// Test case 2 of RFC 4231: with one part, the key is the HMAC itself.
    #[test]
    fn signing_key_of_one_part_is_the_hmac_of_the_part() {
        let key = RequestSigningKey::derive(b"Jefe", &["what do ya want for nothing?"]);
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(encode_hex(key.0.as_ref()), expected);
    }

    #[test]
    fn signature_depends_on_every_part_of_the_scope() {
        let sign = |scope: &[&str]| RequestSigningKey::derive(b"secret", scope).sign("text");
        let signature = sign(&["day", "region", "service"]);
        for scope in [
            ["other", "region", "service"],
            ["day", "other", "service"],
            ["day", "region", "other"],
        ] {
            assert_ne!(sign(&scope), signature, "{scope:?}");
        }
    }
}
