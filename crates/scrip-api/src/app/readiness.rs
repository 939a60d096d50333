//! Why a server does not serve requests.

use std::{
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
    time::Duration,
};

use scrip_core::{Error, store::StoreCondition};
use tokio::{sync::Mutex, time::Instant};

use crate::{labels, metrics::label::Label};

labels! {
    /// Why a server is not ready.
    pub enum NotReadyReason {
        /// A commit failed because no space is left.
        DiskFull "disk_full",
        /// A commit failed for another reason, for example a read-only file system.
        CommitFailed "commit_failed",
        /// The database does not respond.
        StoreUnreachable "store_unreachable",
        /// The root key is missing or wrong.
        RootKey "root_key",
        /// People must enter their shares.
        Shares "shares",
        /// The key of another unlock method is missing or cannot be used.
        UnlockKeyMissing "unlock_key_missing",
        /// An unlock method returned the key of another vault, or the stored keys were altered.
        UnlockKeyWrong "unlock_key_wrong",
        /// The source of an unlock method does not answer.
        UnlockUnavailable "unlock_unavailable",
        /// The source of an unlock method denies access, or other users can read a key file.
        UnlockDenied "unlock_denied",
        /// The settings of the server do not allow an unlock method, or are incomplete.
        UnlockSettings "unlock_settings",
        /// Stored keys or policies cannot be opened with the vault key.
        VaultAltered "vault_altered",
        /// A rotation of fingerprints was interrupted.
        RotationInterrupted "rotation_interrupted",
        /// There is no vault in the storage yet.
        NoVault "no_vault",
        /// The server has not tried to open the vault yet.
        Starting "starting",
    }
}

impl NotReadyReason {
    /// The reason that the storage gives; `None` while it works.
    pub(crate) fn from_condition(condition: StoreCondition) -> Option<Self> {
        match condition {
            StoreCondition::Up => None,
            StoreCondition::CommitFailed => Some(Self::CommitFailed),
            StoreCondition::DiskFull => Some(Self::DiskFull),
            StoreCondition::Unreachable => Some(Self::StoreUnreachable),
        }
    }

    /// The reason after the directory could not be read.
    pub fn from_store_error(error: &Error) -> Self {
        match matches!(error, Error::Unavailable(_)) {
            true => Self::StoreUnreachable,
            false => Self::VaultAltered,
        }
    }

    /// The text for clients. It names no host and no path.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::DiskFull => {
                "the disk of the vault is full: writes and reads are refused; try again later"
            }
            Self::CommitFailed => {
                "the storage of the vault does not accept writes: writes and reads are refused; \
                 try again shortly"
            }
            Self::StoreUnreachable => {
                "the database of the vault cannot be reached; try again shortly"
            }
            Self::RootKey => {
                "the vault is sealed: its root key is missing or wrong; try again later"
            }
            Self::Shares => {
                "the vault is sealed until enough people have entered their shares; try again later"
            }
            Self::UnlockKeyMissing => {
                "the vault is sealed: the key of its unlock method is missing or unusable; try again \
                 later"
            }
            Self::UnlockKeyWrong => {
                "the vault is sealed: its unlock method returned another key; try again later"
            }
            Self::UnlockUnavailable => {
                "the vault is sealed: the source of its key does not answer; try again shortly"
            }
            Self::UnlockDenied => {
                "the vault is sealed: access to its key is denied; try again later"
            }
            Self::UnlockSettings => {
                "the vault is sealed: the settings do not allow its unlock method; try again later"
            }
            Self::VaultAltered => {
                "the vault is sealed: its stored keys or policies were altered; try again later"
            }
            Self::RotationInterrupted => {
                "the vault is sealed: a rotation of its fingerprints was interrupted; try again later"
            }
            Self::NoVault => "the vault is sealed: it does not exist yet; try again later",
            Self::Starting => "the vault is sealed while it starts; try again shortly",
        }
    }

    /// Whether the vault waits for its key.
    pub fn is_sealed(self) -> bool {
        !matches!(self, Self::DiskFull | Self::CommitFailed | Self::StoreUnreachable)
    }
}

/// A reason that several threads share.
#[derive(Debug, Default)]
pub struct SharedReason(AtomicU8);

impl SharedReason {
    pub fn get(&self) -> Option<NotReadyReason> {
        let index = usize::from(self.0.load(Ordering::Relaxed)).checked_sub(1)?;
        NotReadyReason::ALL.get(index).copied()
    }

    /// Replaces the reason and returns the previous one.
    pub fn replace(&self, reason: Option<NotReadyReason>) -> Option<NotReadyReason> {
        let previous = self.get();
        let number = reason.map_or(0, |it| it.index().saturating_add(1));
        self.0.store(u8::try_from(number).unwrap_or(u8::MAX), Ordering::Relaxed);
        previous
    }
}

/// When the directory was last compared with the store. A process that was suspended does not know
/// that it was, so every request compares the time itself.
#[derive(Debug)]
pub struct DirectoryAge {
    created: Instant,
    /// Milliseconds since `created`; 0 before the first comparison.
    compared_ms: AtomicU64,
}

impl DirectoryAge {
    /// Longer than a reload that fails may go on before all requests are rejected.
    const MAX: Duration = Duration::from_secs(25);

    pub fn set_compared(&self) {
        self.compared_ms.store(self.elapsed_ms().max(1), Ordering::Relaxed);
    }

    /// Whether changes of other processes may be unknown here. Never before the first comparison: a
    /// process without that task is a test.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded_at(self.elapsed_ms())
    }

    fn is_exceeded_at(&self, now_ms: u64) -> bool {
        let compared = self.compared_ms.load(Ordering::Relaxed);
        let age = Duration::from_millis(now_ms.saturating_sub(compared));
        compared > 0 && age > Self::MAX
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for DirectoryAge {
    fn default() -> Self {
        Self { created: Instant::now(), compared_ms: AtomicU64::new(0) }
    }
}

/// A failed reload of the directory.
#[derive(Debug)]
pub struct ReloadError {
    pub cause: Error,
    pub reason: NotReadyReason,
}

impl ReloadError {
    pub(crate) fn from_store(cause: impl Into<Error>) -> Self {
        let cause = cause.into();
        Self { reason: NotReadyReason::from_store_error(&cause), cause }
    }

    /// `reason` is why a new vault key cannot be loaded, if there is one.
    pub(crate) fn from_keys(cause: Error, reason: Option<NotReadyReason>) -> Self {
        Self { cause, reason: reason.unwrap_or(NotReadyReason::VaultAltered) }
    }

    pub(crate) fn from_rotation(cause: Error) -> Self {
        Self { cause, reason: NotReadyReason::RotationInterrupted }
    }
}

/// The result of a readiness check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadinessResult {
    Ready,
    /// The write queue is full, or no worker is free for the check.
    Overloaded,
    NotReady(NotReadyReason),
}

/// The outcome of the last readiness check.
#[derive(Debug, Default)]
pub struct Readiness(pub(crate) Mutex<Option<ReadinessCheck>>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadinessCheck {
    pub(crate) at: Duration,
    pub(crate) result: ReadinessResult,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_reason_returns_the_reason_that_was_set() {
        let shared = SharedReason::default();
        assert_eq!(shared.get(), None);
        for reason in NotReadyReason::ALL {
            shared.replace(Some(*reason));
            assert_eq!(shared.replace(Some(*reason)), Some(*reason));
        }
        shared.replace(None);
        assert_eq!(shared.get(), None);
    }

    #[test]
    fn directory_is_too_old_if_it_was_not_compared_for_a_while() {
        let age = DirectoryAge::default();
        assert!(!age.is_exceeded_at(100_000), "nothing compares the directory yet");
        age.compared_ms.store(7, Ordering::Relaxed);
        assert!(!age.is_exceeded_at(25_007));
        assert!(age.is_exceeded_at(25_008));
        age.set_compared();
        assert!(!age.is_exceeded());
    }
}
