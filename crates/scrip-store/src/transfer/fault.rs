//! What stops a move.

use std::{fmt, io};

use scrip_core::store::StoreError;

/// Nothing of a file is ever quoted, only where in it something is.
#[derive(Debug)]
pub enum MoveError {
    Store(StoreError),
    File(io::Error),
    /// At this byte begins what is not as it was written.
    Damaged {
        at: u64,
        what: &'static str,
    },
    /// It was not written to its end, or cut: there is nothing whole behind this byte.
    Unfinished {
        at: u64,
    },
    /// It does not begin as an export does.
    NoExport,
    /// There is nothing to export.
    NoVault,
    /// The vault was used while it was exported.
    Changed,
    /// What was exported so far is not of this vault as it is now.
    ChangedBefore,
    /// There is something in the vault that was to be empty.
    NotEmpty,
    /// Another file's import into this vault has not ended.
    AnotherFile,
    /// The vault does not have what the file has.
    Differs {
        kind: &'static str,
    },
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(StoreError::Unavailable(cause)) => cause.fmt(f),
            Self::Store(StoreError::Corrupt(what)) => f.write_str(what),
            Self::Store(StoreError::Busy | StoreError::Answered) => {
                f.write_str("the vault is busy; try again")
            }
            Self::File(error) => error.fmt(f),
            Self::Damaged { at, what } => write!(f, "it is damaged at byte {at}: {what}"),
            Self::Unfinished { at } => {
                write!(f, "it is not finished, or was cut: nothing whole is behind byte {at}")
            }
            Self::NoExport => f.write_str("it is no export, or one of another version"),
            Self::NoVault => f.write_str("there is no vault to export"),
            Self::Changed => f.write_str("the vault changed during the export"),
            Self::ChangedBefore => {
                f.write_str("what is there was exported from another vault, or before it changed")
            }
            Self::NotEmpty => f.write_str("there is a vault already; an import needs an empty one"),
            Self::AnotherFile => {
                f.write_str("an import of another file into this vault is not finished")
            }
            Self::Differs { kind } => {
                write!(f, "the vault does not have what the file has of {kind}")
            }
        }
    }
}

impl std::error::Error for MoveError {}

impl From<StoreError> for MoveError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for MoveError {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}
