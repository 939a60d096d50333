//! Errors of an export or import.

use std::{fmt, io};

use scrip_core::types::StoreError;

/// An error of an export or import. It contains a position in the file, never content of the file.
#[derive(Debug)]
pub enum TransferError {
    Store(StoreError),
    File(io::Error),
    /// The content from this byte on is damaged.
    Damaged {
        offset: u64,
        reason: &'static str,
    },
    /// The file is truncated: there is no complete frame after this byte.
    Unfinished {
        offset: u64,
    },
    /// The file does not start with the header of an export.
    NotAnExport,
    /// There is nothing to export.
    VaultMissing,
    /// The vault was used during the export.
    VaultChanged,
    /// The partial file belongs to another vault or to an older state of this vault.
    ExportOutdated,
    /// The target vault is not empty.
    VaultNotEmpty,
    /// An import of another file into this vault is unfinished.
    OtherImportUnfinished,
    /// The content of the vault differs from the file.
    ContentMismatch {
        kind: &'static str,
    },
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(StoreError::Unavailable(cause)) => cause.fmt(f),
            Self::Store(StoreError::Corrupt(reason)) => f.write_str(reason),
            Self::Store(StoreError::Busy | StoreError::AlreadyCompleted) => {
                f.write_str("the vault is busy; try again")
            }
            Self::File(error) => error.fmt(f),
            Self::Damaged { offset, reason } => {
                write!(f, "the export is damaged at byte {offset}: {reason}")
            }
            Self::Unfinished { offset } => {
                write!(f, "the export is incomplete: no complete frame after byte {offset}")
            }
            Self::NotAnExport => f.write_str("the file is not an export, or has another version"),
            Self::VaultMissing => f.write_str("there is no vault to export"),
            Self::VaultChanged => f.write_str("the vault changed during the export"),
            Self::ExportOutdated => {
                f.write_str("the file was exported from another vault, or before it changed")
            }
            Self::VaultNotEmpty => {
                f.write_str("there is a vault already; an import needs an empty target")
            }
            Self::OtherImportUnfinished => {
                f.write_str("an import of another file into this vault is not finished")
            }
            Self::ContentMismatch { kind } => {
                write!(f, "the vault differs from the file in {kind}")
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
