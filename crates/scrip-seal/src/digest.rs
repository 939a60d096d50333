//! Keyed digests. Equal inputs of one tenant have equal digests, and testing a guess requires the
//! key. An unkeyed hash is not enough: card numbers can be enumerated.

pub(crate) mod request_signature;

use std::fmt;

use aws_lc_rs::{constant_time::verify_slices_are_equal, digest, hmac};
use scrip_types::hex::{decode_hex, encode_hex};

use crate::{
    KeySource, KeySourceError, Place, Sealed, Secret, random::random_bytes, record::derive_key,
    root::vault_key::rewrap,
};

/// Equal for two tokens of one tenant and type that contain the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// The digest of a value in a search index. 128 bits make an accidental match among fewer than 2⁶⁴
/// values unlikely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexDigest(pub [u8; 16]);

/// Equal for two tokens of one tenant that have the same expressions. Reveals nothing else about
/// the expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ExpressionDigest(pub [u8; 16]);

impl IndexDigest {
    #[expect(clippy::expect_used, reason = "a digest has 32 bytes")]
    pub(crate) fn from_digest(digest: &[u8; 32]) -> Self {
        let (half, _) = digest.split_first_chunk().expect("32 bytes have a first half");
        Self(*half)
    }
}

impl Fingerprint {
    /// Parses the text form that clients see. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let length = bs58::decode(text).onto(&mut bytes).ok()?;
        let parsed = Self(bytes);
        // A fingerprint has one spelling: a filter with another spelling must find nothing.
        (length == 32 && parsed.to_string() == text).then_some(parsed)
    }
}

/// Proves that the vault wrote a row that is stored in the clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 32]);

impl Mac {
    /// Compares in constant time.
    pub fn constant_time_eq(&self, other: &Self) -> bool {
        verify_slices_are_equal(&self.0, &other.0).is_ok()
    }

    pub fn to_hex(&self) -> String {
        encode_hex(&self.0)
    }

    /// Returns `None` unless the text has the form that [`Mac::to_hex`] writes.
    pub fn from_hex(text: &str) -> Option<Self> {
        decode_hex(text).map(Self)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bs58::encode(&self.0).into_string())
    }
}

/// A keyed hash that a caller selects by name and uses with the caller's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyedHash {
    /// Only for compatibility with digests of older systems.
    Sha1,
    Sha256,
    Sha512,
}

impl KeyedHash {
    pub fn digest(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), message).as_ref().to_vec()
    }
}

pub(crate) struct DigestKey(hmac::Key);

impl DigestKey {
    pub(crate) fn new(key: &Secret, label: &'static str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, derive_key(key, label).as_ref()))
    }

    /// Each part is prefixed with its length, as in a [`Place`].
    pub(crate) fn digest(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
            context.update(&length.to_be_bytes());
            context.update(part);
        }
        let mut digest = [0; 32];
        for (to, from) in digest.iter_mut().zip(context.sign().as_ref()) {
            *to = *from;
        }
        digest
    }
}

hide_in_debug! { DigestKey }

/// The key for digests of API keys and proxy keys. A lookup by digest takes the same time, however
/// many characters of a guessed key are correct.
#[derive(Debug)]
pub struct Pepper {
    api_keys: DigestKey,
    proxy_keys: DigestKey,
    counters: DigestKey,
}

impl Pepper {
    /// Creates a pepper and wraps it for the store.
    pub fn create(source: &dyn KeySource) -> Result<(Self, Sealed), KeySourceError> {
        let key = Secret::new(random_bytes::<32>().to_vec());
        let wrapped = source.wrap(&Self::place(), &key)?;
        Ok((Self::from_key(&key), wrapped))
    }

    /// Errors: the key source is unavailable, or another source wrapped this pepper.
    pub fn unwrap(source: &dyn KeySource, wrapped: &Sealed) -> Result<Self, KeySourceError> {
        Ok(Self::from_key(&source.unwrap(&Self::place(), wrapped)?))
    }

    /// Wraps the stored key with another source.
    /// Errors: a key source is unavailable, or another source wrapped this key.
    pub fn rewrap(
        old: &dyn KeySource,
        new: &dyn KeySource,
        wrapped: &Sealed,
    ) -> Result<Sealed, KeySourceError> {
        rewrap(old, new, &Self::place(), wrapped)
    }

    pub fn api_key_digest(&self, api_key: &str) -> [u8; 32] {
        self.api_keys.digest(&[api_key.as_bytes()])
    }

    /// A separate key: the key of a proxy is never found as an API key, and the reverse.
    pub fn proxy_key_digest(&self, proxy_key: &str) -> [u8; 32] {
        self.proxy_keys.digest(&[proxy_key.as_bytes()])
    }

    /// The name of a rate limit counter in shared storage. All nodes of a vault compute the same
    /// name; without the pepper it does not reveal the counted caller.
    pub fn counter_name(&self, parts: &[&[u8]]) -> [u8; 32] {
        self.counters.digest(parts)
    }

    fn from_key(key: &Secret) -> Self {
        let labels = ["api-key pepper", "proxy-key pepper", "rate-limit counter"];
        let [api_keys, proxy_keys, counters] = labels.map(|it| DigestKey::new(key, it));
        Self { api_keys, proxy_keys, counters }
    }

    fn place() -> Place {
        Place::new("pepper")
    }
}

/// Incremental SHA-256, an unkeyed checksum: it detects changed bytes, but does not prove who wrote
/// them.
#[derive(Clone)]
pub struct Checksum(digest::Context);

impl Checksum {
    pub fn new() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> [u8; 32] {
        let mut sum = [0; 32];
        for (to, from) in sum.iter_mut().zip(self.0.finish().as_ref()) {
            *to = *from;
        }
        sum
    }
}

impl Default for Checksum {
    fn default() -> Self {
        Self::new()
    }
}

hide_in_debug! { Checksum }

/// SHA-384 of some bytes. Browsers compare it with the attribute `integrity` of a script.
pub fn sha384_checksum(bytes: &[u8]) -> [u8; 48] {
    let mut sum = [0; 48];
    for (to, from) in sum.iter_mut().zip(digest::digest(&digest::SHA384, bytes).as_ref()) {
        *to = *from;
    }
    sum
}

/// Stored with a wrapped key. A source that returns another key is detected before the key is used.
///
/// The value has 128 bits of a keyed digest, so it reveals nothing about a random key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyCheck(pub [u8; Self::LENGTH]);

impl KeyCheck {
    pub const LENGTH: usize = 16;

    pub fn compute(key: &Secret) -> Self {
        let digest = DigestKey::new(key, "unlock key check").digest(&[]);
        let mut check = [0; Self::LENGTH];
        for (to, from) in check.iter_mut().zip(digest) {
            *to = from;
        }
        Self(check)
    }

    pub fn matches(&self, key: &Secret) -> bool {
        verify_slices_are_equal(&self.0, &Self::compute(key).0).is_ok()
    }
}

hide_in_debug! { KeyCheck }

#[cfg(test)]
mod tests {
    use super::*;

    /// Counter names differ from API key digests, and parts are length-prefixed before they are
    /// hashed.
    #[test]
    fn counter_names_differ_between_peppers_and_from_api_key_digests() {
        let pepper = Pepper::from_key(&Secret::new(vec![7; 32]));
        let same_pepper = Pepper::from_key(&Secret::new(vec![7; 32]));
        let other_pepper = Pepper::from_key(&Secret::new(vec![8; 32]));
        let name = pepper.counter_name(&[b"key"]);
        assert_eq!(name, same_pepper.counter_name(&[b"key"]));
        assert_ne!(name, other_pepper.counter_name(&[b"key"]));
        assert_ne!(name, pepper.api_key_digest("key"));
        assert_ne!(pepper.proxy_key_digest("key"), pepper.api_key_digest("key"));
        assert_ne!(pepper.counter_name(&[b"ab", b"c"]), pepper.counter_name(&[b"a", b"bc"]));
    }

    /// Test case 2 of RFC 2202 and RFC 4231.
    #[test]
    fn keyed_hashes_match_rfc_test_vectors() {
        let hex = |hash: KeyedHash| {
            let digest = hash.digest(b"Jefe", b"what do ya want for nothing?");
            digest.iter().take(8).map(|it| format!("{it:02x}")).collect::<String>()
        };
        assert_eq!(hex(KeyedHash::Sha1), "effcdf6ae5eb2fa2");
        assert_eq!(hex(KeyedHash::Sha256), "5bdcc146bf60754e");
        assert_eq!(hex(KeyedHash::Sha512), "164b7a7bfcf819e2");
    }

    /// The example of FIPS 180-2, added in two parts.
    #[test]
    fn checksum_matches_fips_180_2_example() {
        let mut sum = Checksum::new();
        sum.add(b"a");
        sum.add(b"bc");
        let sum = sum.finish();
        assert_eq!((sum[..4].to_vec(), sum[31]), (vec![0xba, 0x78, 0x16, 0xbf], 0xad));
    }

    /// The example of FIPS 180-2.
    #[test]
    fn sha384_checksum_matches_fips_180_2_example() {
        let sum = sha384_checksum(b"abc");
        assert_eq!((sum[..4].to_vec(), sum[47]), (vec![0xcb, 0x00, 0x75, 0x3f], 0xa7));
    }

    #[test]
    fn key_check_matches_only_its_key() {
        let check = KeyCheck::compute(&Secret::new(vec![7; 32]));
        assert!(check.matches(&Secret::new(vec![7; 32])));
        for other in [vec![8; 32], vec![7; 31], Vec::new()] {
            assert!(!check.matches(&Secret::new(other)));
        }
    }
}
