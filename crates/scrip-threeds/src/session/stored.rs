//! A session as bytes. They say their version, and any bytes give a session or a refusal.

use zeroize::Zeroizing;

use super::Session;

/// The first byte. A new form gets a new one, and the old is read as long as it may be stored.
pub const STORED_VERSION: u8 = 1;

/// Bytes that we did not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a stored session")]
pub struct NotOurs;

impl Session {
    /// To be sealed: a cryptogram is in it.
    #[must_use]
    pub fn to_stored(&self) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(8192));
        bytes.push(STORED_VERSION);
        let written = serde_json::to_writer(&mut *bytes, self);
        debug_assert!(written.is_ok(), "a session is JSON");
        bytes
    }

    pub fn from_stored(bytes: &[u8]) -> Result<Self, NotOurs> {
        match bytes.split_first() {
            // The reader bounds its own depth, and every text has the bound of its format.
            Some((&STORED_VERSION, rest)) => serde_json::from_slice(rest).map_err(|_| NotOurs),
            _ => Err(NotOurs),
        }
    }
}
