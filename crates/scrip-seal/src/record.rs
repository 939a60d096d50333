//! Encryption of single records, each with its own derived key.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, KeyType, Prk, Salt},
};
use zeroize::Zeroizing;

use crate::{
    FORMAT_VERSION, Secret,
    place::Place,
    random::random_bytes,
    sealed::{self, HEADER_LEN, OpenError, SALT_LEN, Sealed, TAG_LEN},
};

/// The nonce is constant because every record has its own key. There is no counter or random nonce
/// that could run out.
const NONCE: [u8; 12] = [0; 12];

/// A versioned key from which record keys are derived.
pub(crate) struct RecordKey {
    pub(crate) version: u32,
    prk: Prk,
}

struct OutputLength(usize);

impl KeyType for OutputLength {
    fn len(&self) -> usize {
        self.0
    }
}

/// Derives a key for one use. Different labels give independent keys.
pub(crate) fn derive_key(key: &Secret, label: &'static str) -> Zeroizing<[u8; 32]> {
    let prk = Salt::new(HKDF_SHA256, b"scrip").extract(key.expose());
    expand(&prk, label.as_bytes())
}

#[expect(clippy::expect_used, reason = "HKDF can always expand to 32 bytes")]
pub(crate) fn expand(prk: &Prk, info: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    let info = [info];
    let okm = prk.expand(&info, OutputLength(32)).expect("32 bytes can be expanded");
    okm.fill(key.as_mut()).expect("the buffer is 32 bytes");
    key
}

impl RecordKey {
    pub(crate) fn new(version: u32, key: &Secret, label: &'static str) -> Self {
        let derived = derive_key(key, label);
        Self { version, prk: Prk::new_less_safe(HKDF_SHA256, derived.as_ref()) }
    }

    #[expect(clippy::expect_used, reason = "32 bytes are an AES-256 key")]
    fn derive_for_salt(&self, salt: &[u8; SALT_LEN]) -> LessSafeKey {
        let key = expand(&self.prk, salt);
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).expect("a 32-byte key"))
    }

    #[expect(clippy::expect_used, reason = "fails only above 64 GiB, far above any body limit")]
    pub(crate) fn seal(&self, place: &Place, plaintext: &[u8]) -> Sealed {
        let salt: [u8; SALT_LEN] = random_bytes();
        let capacity = HEADER_LEN.saturating_add(plaintext.len()).saturating_add(TAG_LEN);
        let mut bytes = Vec::with_capacity(capacity);
        bytes.push(FORMAT_VERSION);
        bytes.push(sealed::AES_256_GCM);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        let aad = associated_data(&bytes, place);
        bytes.extend_from_slice(&salt);
        bytes.extend_from_slice(plaintext);
        let (_, body) = bytes.split_at_mut(HEADER_LEN);
        let tag = self
            .derive_for_salt(&salt)
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(NONCE), Aad::from(aad), body)
            .expect("the plaintext is within the cipher's limit");
        bytes.extend_from_slice(tag.as_ref());
        Sealed::from_stored(bytes)
    }

    pub(crate) fn open(&self, place: &Place, sealed: &Sealed) -> Result<Secret, OpenError> {
        let parts = sealed.parts()?;
        let aad = Aad::from(associated_data(parts.header, place));
        let mut bytes = Zeroizing::new(parts.ciphertext_and_tag.to_vec());
        let opened = self
            .derive_for_salt(parts.salt)
            .open_in_place(Nonce::assume_unique_for_key(NONCE), aad, &mut bytes)
            .map_err(|_| OpenError::Altered)?
            .len();
        bytes.truncate(opened);
        Ok(Secret::new(std::mem::take(&mut *bytes)))
    }
}

/// Authenticates the header and the place. The salt is authenticated because the key is derived
/// from it.
fn associated_data(header: &[u8], place: &Place) -> Vec<u8> {
    [header, place.as_bytes()].concat()
}

impl std::fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RecordKey(version {})", self.version)
    }
}
