//! The writer of age files, version 1, with one X25519 recipient.

use aws_lc_rs::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey},
    agreement::{PrivateKey, UnparsedPublicKey, X25519, agree},
    hkdf::{HKDF_SHA256, Salt},
    hmac,
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use zeroize::Zeroizing;

use crate::{Secret, random::random_bytes, record::expand};

const VERSION_LINE: &str = "age-encryption.org/v1\n";
const RECIPIENT_INFO: &[u8] = b"age-encryption.org/v1/X25519";
const HEADER_INFO: &[u8] = b"header";
const PAYLOAD_INFO: &[u8] = b"payload";
/// The size of X25519 keys.
pub(super) const KEY_BYTES: usize = 32;
const FILE_KEY_BYTES: usize = 16;
const PAYLOAD_SALT_BYTES: usize = 16;
pub(super) const CHUNK_BYTES: usize = 65_536;
const TAG_BYTES: usize = 16;
const ARMOR_COLUMNS: usize = 64;

/// The random values of one file. No two files may have the same ones.
pub(super) struct FileRandomness {
    /// Encrypts the file. The header has it, encrypted for the recipient.
    pub(super) file_key: Zeroizing<[u8; FILE_KEY_BYTES]>,
    pub(super) ephemeral_key: Zeroizing<[u8; KEY_BYTES]>,
    pub(super) payload_salt: [u8; PAYLOAD_SALT_BYTES],
}

impl FileRandomness {
    pub(super) fn create() -> Self {
        Self {
            file_key: Zeroizing::new(random_bytes()),
            ephemeral_key: Zeroizing::new(random_bytes()),
            payload_salt: random_bytes(),
        }
    }
}

/// The public key must not be a point of low order.
pub(super) fn encrypt(
    public_key: &[u8; KEY_BYTES],
    plaintext: &Secret,
    randomness: &FileRandomness,
) -> String {
    let mut file = header(public_key, randomness).into_bytes();
    file.extend_from_slice(&randomness.payload_salt);
    let key = derive_key(randomness.file_key.as_ref(), &randomness.payload_salt, PAYLOAD_INFO);
    append_chunks(&mut file, &key, plaintext.expose());
    armor(&file)
}

/// The version, the file key for the recipient, and a MAC of both.
fn header(public_key: &[u8; KEY_BYTES], randomness: &FileRandomness) -> String {
    let (share, wrapped_key) = wrap_file_key(public_key, randomness);
    let mut header = format!(
        "{VERSION_LINE}-> X25519 {}\n{}\n---",
        STANDARD_NO_PAD.encode(share),
        STANDARD_NO_PAD.encode(wrapped_key)
    );
    let key = derive_key(randomness.file_key.as_ref(), &[], HEADER_INFO);
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()), header.as_bytes());
    header.push(' ');
    STANDARD_NO_PAD.encode_string(mac.as_ref(), &mut header);
    header.push('\n');
    header
}

/// The public part of the ephemeral key, and the file key encrypted with the secret that it and the
/// recipient share.
#[expect(
    clippy::expect_used,
    reason = "every 32 bytes are a private key, and the order was checked"
)]
fn wrap_file_key(
    public_key: &[u8; KEY_BYTES],
    randomness: &FileRandomness,
) -> ([u8; KEY_BYTES], Vec<u8>) {
    let ephemeral_key = PrivateKey::from_private_key(&X25519, randomness.ephemeral_key.as_ref())
        .expect("32 bytes are a private key");
    let share = ephemeral_key.compute_public_key().expect("a private key has a public key");
    let share: [u8; KEY_BYTES] = share.as_ref().try_into().expect("a public key has 32 bytes");
    let salt = [share, *public_key].concat();
    let recipient = UnparsedPublicKey::new(&X25519, public_key);
    let key = agree(&ephemeral_key, recipient, (), |it| Ok(derive_key(it, &salt, RECIPIENT_INFO)))
        .expect("the public key is not of low order");
    let mut wrapped_key = Vec::with_capacity(FILE_KEY_BYTES.saturating_add(TAG_BYTES));
    append_encrypted(&mut wrapped_key, &cipher(&key), [0; 12], randomness.file_key.as_ref());
    (share, wrapped_key)
}

/// Encrypts chunks of 64 KiB. The nonce of a chunk is its number, and a byte that marks the last
/// one, so that chunks cannot be reordered or cut off.
fn append_chunks(file: &mut Vec<u8>, key: &[u8; 32], plaintext: &[u8]) {
    let cipher = cipher(key);
    let mut remaining = plaintext;
    let mut number = 0_u64;
    loop {
        let (chunk, rest) = remaining.split_at_checked(CHUNK_BYTES).unwrap_or((remaining, &[]));
        let is_last = rest.is_empty();
        append_encrypted(file, &cipher, chunk_nonce(number, is_last), chunk);
        if is_last {
            return;
        }
        number = number.saturating_add(1);
        remaining = rest;
    }
}

/// Eleven bytes of the number, big endian, and the mark of the last chunk.
fn chunk_nonce(number: u64, is_last: bool) -> [u8; 12] {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    [0, 0, 0, a, b, c, d, e, f, g, h, is_last.into()]
}

#[expect(clippy::expect_used, reason = "32 bytes are a key of ChaCha20-Poly1305")]
fn cipher(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("a 32-byte key"))
}

/// Every key and nonce pair is used once.
#[expect(clippy::expect_used, reason = "fails only above 256 GiB, and a chunk has 64 KiB")]
fn append_encrypted(file: &mut Vec<u8>, key: &LessSafeKey, nonce: [u8; 12], plaintext: &[u8]) {
    // The copy is encrypted in place, and replaced by the ciphertext.
    let mut bytes = Zeroizing::new(plaintext.to_vec());
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key
        .seal_in_place_separate_tag(nonce, Aad::empty(), &mut bytes)
        .expect("the plaintext is within the limit of the cipher");
    file.extend_from_slice(&bytes);
    file.extend_from_slice(tag.as_ref());
}

fn derive_key(key: &[u8], salt: &[u8], info: &[u8]) -> Zeroizing<[u8; 32]> {
    expand(&Salt::new(HKDF_SHA256, salt).extract(key), info)
}

/// Strict PEM (RFC 7468).
fn armor(file: &[u8]) -> String {
    let encoded = STANDARD.encode(file);
    let mut text = String::from("-----BEGIN AGE ENCRYPTED FILE-----\n");
    let mut remaining = encoded.as_str();
    while !remaining.is_empty() {
        let (line, rest) = remaining.split_at_checked(ARMOR_COLUMNS).unwrap_or((remaining, ""));
        text.push_str(line);
        text.push('\n');
        remaining = rest;
    }
    text.push_str("-----END AGE ENCRYPTED FILE-----\n");
    text
}
