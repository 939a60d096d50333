//! Encryption for the age key of a holder (age-encryption.org/v1).
//!
//! Scrip only encrypts. Holders decrypt with the program `age` and their own private key, which
//! the vault never has.

mod bech32;
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
            .and_then(|it| it.strip_prefix(bech32::SEPARATOR))
            .and_then(bech32::parse_symbols)
            .ok_or(AgeRecipientError::Form)?;
        let data = bech32::verify(PREFIX, &data).ok_or(AgeRecipientError::Checksum)?;
        let public_key = bech32::to_bytes(data)
            .and_then(|it| it.try_into().ok())
            .ok_or(AgeRecipientError::Form)?;
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

#[cfg(test)]
mod tests;
