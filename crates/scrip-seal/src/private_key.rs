//! Private keys of certificates that the vault uses as a TLS client.

use aws_lc_rs::{
    rsa,
    signature::{
        ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING,
        ECDSA_P521_SHA512_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    },
};

/// The encoding of a private key, as its PEM label names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrivateKeyEncoding {
    /// `RSA PRIVATE KEY`.
    Pkcs1,
    /// `EC PRIVATE KEY`.
    Sec1,
    /// `PRIVATE KEY`.
    Pkcs8,
}

/// Whether the private key belongs to a certificate with this public key (the content of the
/// `subjectPublicKey`). False for keys that TLS cannot use here, such as a short RSA key.
pub fn is_key_of_certificate(
    private_key: &[u8],
    encoding: PrivateKeyEncoding,
    public_key: &[u8],
) -> bool {
    let is_rsa = || {
        let key_pair = match encoding {
            PrivateKeyEncoding::Pkcs1 => rsa::KeyPair::from_der(private_key).ok(),
            PrivateKeyEncoding::Pkcs8 => rsa::KeyPair::from_pkcs8(private_key).ok(),
            PrivateKeyEncoding::Sec1 => None,
        };
        key_pair.is_some_and(|it| it.public_key().as_ref() == public_key)
    };
    let is_elliptic = || {
        let algorithms = [
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            &ECDSA_P384_SHA384_ASN1_SIGNING,
            &ECDSA_P521_SHA512_ASN1_SIGNING,
        ];
        let key_pairs =
            algorithms.map(|it| EcdsaKeyPair::from_private_key_der(it, private_key).ok());
        key_pairs.iter().flatten().any(|it| it.public_key().as_ref() == public_key)
    };
    let is_edwards = || {
        let key_pair = Ed25519KeyPair::from_pkcs8(private_key).ok();
        key_pair.is_some_and(|it| it.public_key().as_ref() == public_key)
    };
    match encoding {
        PrivateKeyEncoding::Pkcs1 => is_rsa(),
        PrivateKeyEncoding::Sec1 => is_elliptic(),
        PrivateKeyEncoding::Pkcs8 => is_rsa() || is_elliptic() || is_edwards(),
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::AsDer;

    use super::*;

    #[test]
    fn private_key_matches_only_its_own_public_key() {
        let create = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap();
        let (own, other) = (create(), create());
        let pkcs8 = own.to_pkcs8v1().unwrap();
        let sec1 = own.private_key().as_der().unwrap();
        let cases = [
            (pkcs8.as_ref(), PrivateKeyEncoding::Pkcs8),
            (sec1.as_ref(), PrivateKeyEncoding::Sec1),
        ];
        for (private_key, encoding) in cases {
            let is_match = |it: &EcdsaKeyPair| {
                is_key_of_certificate(private_key, encoding, it.public_key().as_ref())
            };
            assert!(is_match(&own), "{encoding:?}");
            assert!(!is_match(&other), "{encoding:?}");
        }
        assert!(!is_key_of_certificate(b"", PrivateKeyEncoding::Pkcs1, b""));
    }

    #[test]
    fn edwards_and_rsa_keys_match_their_public_keys() {
        let key_pair = Ed25519KeyPair::generate().unwrap();
        let pkcs8 = key_pair.to_pkcs8().unwrap();
        let encoding = PrivateKeyEncoding::Pkcs8;
        let public_key = key_pair.public_key().as_ref();
        assert!(is_key_of_certificate(pkcs8.as_ref(), encoding, public_key));
        let key_pair = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).unwrap();
        let pkcs8 = key_pair.as_der().unwrap();
        let public_key = key_pair.public_key().as_ref();
        assert!(is_key_of_certificate(pkcs8.as_ref(), encoding, public_key));
        assert!(!is_key_of_certificate(pkcs8.as_ref(), encoding, &[0; 32]));
    }
}
