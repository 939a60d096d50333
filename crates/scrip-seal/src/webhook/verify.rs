//! Verification of deliveries, as a receiver does it.

use aws_lc_rs::{
    constant_time::verify_slices_are_equal,
    signature::{RSA_PSS_2048_8192_SHA256, UnparsedPublicKey},
};
use base64::{Engine, engine::general_purpose::STANDARD};

use crate::{WebhookSecret, sign_with_secrets};

/// Whether one of the signatures, which have spaces between them, is of this secret.
pub fn verify_with_secret(
    secret: &WebhookSecret,
    id: &str,
    unix_seconds: i64,
    body: &[u8],
    signatures: &str,
) -> bool {
    let expected = sign_with_secrets(&[secret], id, unix_seconds, body);
    let is_equal = |it: &str| verify_slices_are_equal(it.as_bytes(), expected.as_bytes()).is_ok();
    signatures.split(' ').any(is_equal)
}

/// Whether the signature, in base64, is of the key pair with this public key, as PEM.
pub fn verify_with_public_key(pem: &str, body: &[u8], signature: &str) -> bool {
    let lines: String = pem.lines().filter(|it| !it.starts_with("-----")).collect();
    let (Ok(public_key), Ok(signature)) = (STANDARD.decode(lines), STANDARD.decode(signature))
    else {
        return false;
    };
    let key = UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, public_key);
    key.verify(body, &signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RootKey, WebhookSigningKey};

    fn secret(byte: u8) -> WebhookSecret {
        let text = format!("whsec_{}", STANDARD.encode([byte; 32]));
        WebhookSecret::parse(&text).unwrap()
    }

    #[test]
    fn signature_with_one_of_two_secrets_is_valid() {
        let signatures = sign_with_secrets(&[&secret(1), &secret(2)], "a", 1, b"{}");
        let is_valid = |byte, id, time, body: &[u8], signatures: &str| {
            verify_with_secret(&secret(byte), id, time, body, signatures)
        };
        assert!(is_valid(1, "a", 1, b"{}", &signatures));
        assert!(is_valid(2, "a", 1, b"{}", &signatures));
        assert!(!is_valid(3, "a", 1, b"{}", &signatures));
        assert!(!is_valid(1, "b", 1, b"{}", &signatures));
        assert!(!is_valid(1, "a", 2, b"{}", &signatures));
        assert!(!is_valid(1, "a", 1, b"{ }", &signatures));
        assert!(!is_valid(1, "a", 1, b"{}", ""));
    }

    #[test]
    fn signature_of_another_key_pair_is_invalid() {
        let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
        let create = || WebhookSigningKey::create(&root).unwrap().0;
        let (key, other) = (create(), create());
        let signature = key.sign(b"{}").unwrap();
        assert!(verify_with_public_key(key.public_key_pem(), b"{}", &signature));
        assert!(!verify_with_public_key(other.public_key_pem(), b"{}", &signature));
        assert!(!verify_with_public_key(key.public_key_pem(), b"{ }", &signature));
        assert!(!verify_with_public_key(key.public_key_pem(), b"{}", ""));
        assert!(!verify_with_public_key("", b"{}", &signature));
    }
}
