//! Encryption for the age key of a holder (age-encryption.org/v1).
//!
//! Scrip only encrypts. Holders decrypt with the program `age` and their own private key, which
//! the vault never has.

mod file;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use thiserror::Error;
use zeroize::Zeroizing;

use self::file::{FileRandomness, KEY_BYTES};
use crate::Secret;

/// The public key of a holder, of the X25519 type: a text that begins with `age1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgeRecipient {
    public_key: [u8; KEY_BYTES],
}

/// Why a text is not a recipient. Contains no part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum AgeRecipientError {
    #[error(
        "this is the private key of a holder, which only the holder may have: give its \
         public key, which begins with age1"
    )]
    PrivateKey,
    #[error(
        "must be age1 and 58 lower-case characters, as age-keygen prints it (SSH keys, plugins and \
         post-quantum keys are not supported)"
    )]
    Form,
    #[error("the checksum is wrong: compare the key with the original")]
    Checksum,
    #[error("is not a usable public key: everybody could decrypt")]
    LowOrder,
}

const PREFIX: &str = "age";
const RECIPIENT_CHARS: usize = 62;
const PRIVATE_KEY_BEGINNING: &str = "age-secret-key-";

impl AgeRecipient {
    /// Parses the text that `age-keygen` prints as the public key. Spaces around it do not matter.
    /// Errors: the text is no X25519 recipient, or its public key is a point of low order.
    pub fn parse(text: &str) -> Result<Self, AgeRecipientError> {
        let text = text.trim();
        let beginning = text.get(..PRIVATE_KEY_BEGINNING.len());
        if beginning.is_some_and(|it| it.eq_ignore_ascii_case(PRIVATE_KEY_BEGINNING)) {
            return Err(AgeRecipientError::PrivateKey);
        }
        if text.len() != RECIPIENT_CHARS {
            return Err(AgeRecipientError::Form);
        }
        let data = text
            .strip_prefix(PREFIX)
            .and_then(|it| it.strip_prefix(SEPARATOR))
            .and_then(parse_symbols)
            .ok_or(AgeRecipientError::Form)?;
        let data = verify(PREFIX, &data).ok_or(AgeRecipientError::Checksum)?;
        let public_key =
            to_bytes(data).and_then(|it| it.try_into().ok()).ok_or(AgeRecipientError::Form)?;
        let recipient = Self { public_key };
        recipient.check_order()?;
        Ok(recipient)
    }

    /// Encrypts for this recipient. The result is an age file in ASCII armor.
    pub fn encrypt(&self, plaintext: &Secret) -> String {
        file::encrypt(&self.public_key, plaintext, &FileRandomness::create())
    }

    /// The library rejects a shared secret of zeros. Points of low order give it with every private
    /// key, and other points with none, because a private key is a multiple of the cofactor.
    fn check_order(&self) -> Result<(), AgeRecipientError> {
        let private_key = Zeroizing::new([1; KEY_BYTES]);
        let private_key = PrivateKey::from_private_key(&X25519, private_key.as_ref())
            .map_err(|_| AgeRecipientError::LowOrder)?;
        let public_key = UnparsedPublicKey::new(&X25519, &self.public_key);
        agree(&private_key, public_key, AgeRecipientError::LowOrder, |_| Ok(()))
    }
}

/// Between the prefix and the data.
const SEPARATOR: char = '1';
const ALPHABET: &str = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const CHECKSUM_SYMBOLS: usize = 6;
/// The coefficients of the code.
const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];

/// The five bits of each lower-case symbol of Bech32 (BIP 173), the encoding of age keys. They are
/// public, so the decoding is not constant time. Returns `None` if there is another character.
fn parse_symbols(text: &str) -> Option<Vec<u8>> {
    let parse = |symbol| ALPHABET.find(symbol).and_then(|it| u8::try_from(it).ok());
    text.chars().map(parse).collect()
}

/// The data without its checksum. Returns `None` if the checksum is wrong.
fn verify<'a>(prefix: &str, data: &'a [u8]) -> Option<&'a [u8]> {
    let (data_without_checksum, _) = data.split_last_chunk::<CHECKSUM_SYMBOLS>()?;
    (remainder(prefix, data) == 1).then_some(data_without_checksum)
}

/// Joins groups of five bits to bytes. Returns `None` if an unused bit is not zero.
fn to_bytes(groups: &[u8]) -> Option<Vec<u8>> {
    let bits: Vec<u8> = groups
        .iter()
        .flat_map(|it| [4, 3, 2, 1, 0].map(|shift: u32| it.wrapping_shr(shift) & 1))
        .collect();
    let bytes = bits.chunks_exact(8);
    let unused_bits = bytes.remainder();
    if unused_bits.len() >= 5 || unused_bits.contains(&1) {
        return None;
    }
    Some(bytes.map(|it| it.iter().fold(0, |byte, bit| byte << 1 | bit)).collect())
}

/// The remainder of the code. It is 1 if the data ends with the correct checksum.
fn remainder(prefix: &str, data: &[u8]) -> u32 {
    let high_bits = prefix.bytes().map(|it| it >> 5);
    let low_bits = prefix.bytes().map(|it| it & 31);
    let symbols = high_bits.chain([0]).chain(low_bits).chain(data.iter().copied());
    symbols.fold(1, |sum, symbol| {
        let highest = sum >> 25;
        let shifted = (sum & 0x01ff_ffff) << 5 ^ u32::from(symbol);
        (0..).zip(GENERATOR).fold(shifted, |sum, (bit, coefficient)| {
            if highest.wrapping_shr(bit) & 1 == 1 { sum ^ coefficient } else { sum }
        })
    })
}

#[cfg(test)]
mod tests;
