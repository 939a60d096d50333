//! The settings of a PKCS#11 device.

use std::{fmt, path::PathBuf, time::Duration};

use scrip_seal::Secret;

use crate::source::UnlockError;

/// Which key of which token to use.
pub struct Pkcs11Settings {
    /// The library of the vendor, such as `/usr/lib/softhsm/libsofthsm2.so`.
    pub library: PathBuf,
    pub token: TokenSelector,
    /// The PIN of the user of the token.
    pub pin: Secret,
    pub pin_attempts: PinAttempts,
    /// The label of an AES key with 256 bits.
    pub key_label: String,
    /// For one wrap or unwrap.
    pub deadline: Duration,
}

/// When a PIN is tried. A token locks itself after some wrong PINs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinAttempts {
    /// For a server, which remembers a rejected PIN as long as it runs.
    OncePerSource,
    /// For commands, which remember nothing: only while the token has seen no wrong PIN since its
    /// last login.
    WithoutEarlierFailure,
}

/// How the token is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSelector {
    Label(String),
    /// The number of a slot. Some devices change their numbers.
    Slot(u64),
}

impl Pkcs11Settings {
    pub(super) fn check(&self) -> Result<(), UnlockError> {
        let invalid = |text: &str| Err(UnlockError::Settings(text.to_owned()));
        if !self.library.is_absolute() {
            // A name without a folder would be searched for in folders of the system.
            return invalid("the library must be an absolute path");
        }
        if self.pin.expose().is_empty() {
            return invalid("the PIN is empty");
        }
        if str::from_utf8(self.pin.expose()).is_err() {
            return invalid("the PIN is not UTF-8");
        }
        if self.key_label.is_empty() {
            return invalid("the label of the key is empty");
        }
        Ok(())
    }
}

impl fmt::Debug for Pkcs11Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pkcs11Settings")
            .field("library", &self.library)
            .field("token", &self.token)
            .field("key_label", &self.key_label)
            .finish_non_exhaustive()
    }
}
