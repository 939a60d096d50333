//! What stops a move.

use std::{fmt, io};

use scrip_core::store::StoreError;

/// Nothing of a file is ever quoted, only where in it something is.
#[derive(Debug)]
pub enum TransferError {
    Store(StoreError),
    File(io::Error),
    /// At this byte begins what is not as it was written.
    Damaged {
        offset: u64,
        reason: &'static str,
    },
    /// It was not written to its end, or cut: there is nothing whole behind this byte.
    Unfinished {
        offset: u64,
    },
    /// It does not begin as an export does.
    NotAnExport,
    /// There is nothing to export.
    VaultMissing,
    /// The vault was used while it was exported.
    VaultChanged,
    /// What was exported so far is not of this vault as it is now.
    ExportOutdated,
    /// There is something in the vault that was to be empty.
    VaultNotEmpty,
    /// Another file's import into this vault has not ended.
    OtherImportUnfinished,
    /// The vault does not have what the file has.
    ContentMismatch {
        kind: &'static str,
    },
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(StoreError::Unavailable(cause)) => cause.fmt(f),
            Self::Store(StoreError::Corrupt(what)) => f.write_str(what),
            Self::Store(StoreError::Busy | StoreError::AlreadyCompleted) => {
                f.write_str("the vault is busy; try again")
            }
            Self::File(error) => error.fmt(f),
            Self::Damaged { offset: at, reason: what } => {
                write!(f, "it is damaged at byte {at}: {what}")
            }
            Self::Unfinished { offset: at } => {
                write!(f, "it is not finished, or was cut: nothing whole is behind byte {at}")
            }
            Self::NotAnExport => f.write_str("it is no export, or one of another version"),
            Self::VaultMissing => f.write_str("there is no vault to export"),
            Self::VaultChanged => f.write_str("the vault changed during the export"),
            Self::ExportOutdated => {
                f.write_str("what is there was exported from another vault, or before it changed")
            }
            Self::VaultNotEmpty => {
                f.write_str("there is a vault already; an import needs an empty one")
            }
            Self::OtherImportUnfinished => {
                f.write_str("an import of another file into this vault is not finished")
            }
            Self::ContentMismatch { kind } => {
                write!(f, "the vault does not have what the file has of {kind}")
            }
        }
    }
}

impl std::error::Error for TransferError {}

impl From<StoreError> for TransferError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for TransferError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}
