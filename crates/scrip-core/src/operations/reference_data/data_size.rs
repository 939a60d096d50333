//! The maximum size of the data that one proxied call loads.

use crate::{
    Error, FieldError,
    policy::{DestinationChoice, UseRight},
};

/// The tokens and intents of one proxied call have at most this size together, each counted by its
/// padded size: 4 MiB of large texts, and 64 KiB for names and short values. A message to a
/// destination is shorter.
const CALL_DATA_BYTES_MAX: usize = (4 * 1024 + 64) * 1024;
const CALL_DATA_RULE: &str =
    "the tokens and token intents of one call must have at most 4 MiB together";

/// The padded size of the data of one request, counted after each body is opened: only an open body
/// shows which part of it a caller may have chosen.
pub(super) struct DataSize {
    access: DataAccess,
    bytes: usize,
}

impl DataSize {
    pub(super) fn new(access: DataAccess) -> Self {
        Self { access, bytes: 0 }
    }

    /// Errors: a proxied call has more data than the maximum.
    pub(super) fn add(&mut self, padded_bytes: usize) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(padded_bytes);
        match self.access {
            DataAccess::Use { .. } if self.bytes > CALL_DATA_BYTES_MAX => {
                Err(FieldError::new("body", CALL_DATA_RULE).into())
            }
            DataAccess::Use { .. } | DataAccess::Read => Ok(()),
        }
    }
}

/// The right by which the data is loaded.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DataAccess {
    /// The caller sees the data, as far as its transform allows.
    Read,
    /// The data goes to the destination of a proxied call.
    Use { right: UseRight, destinations: DestinationChoice },
}
