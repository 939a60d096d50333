//! Why the server does not serve requests, as far as this process knows.

use crate::app::readiness::{DirectoryAge, Readiness, SharedReason};

#[derive(Debug, Default)]
pub struct Health {
    /// The last result of `/readyz`.
    pub readiness: Readiness,
    /// Why the vault is not open yet.
    pub sealed_by: SharedReason,
    /// Why the directory in memory could not be compared with the store for too long; `None` while
    /// it is up to date.
    pub stale_by: SharedReason,
    /// Why the key of a rotation by another node cannot be loaded.
    pub new_key_missing_by: SharedReason,
    pub directory_age: DirectoryAge,
}
