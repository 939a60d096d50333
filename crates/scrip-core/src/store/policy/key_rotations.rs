//! What a rotation of a sealing key needs of the storage.

use uuid::Uuid;

use crate::{
    Timestamp,
    change::ChangeOutcome,
    keys::{
        ResealedRow, RotatedTable, RowKey, SealedRows,
        key_rotation::{KeyRotation, RotationProgress, VersionCount},
    },
    token::{TokenIntentRecord, TokenRecord},
    types::{StoreFuture, id::TenantId},
};

/// Rotations of sealing keys, and the sealed rows of all tables. Each method is one transaction.
pub trait KeyRotationStore: Send + Sync {
    /// The rotations of all tenants: running ones, and the last finished one of each tenant.
    fn list_key_rotations(&self) -> StoreFuture<'_, Vec<KeyRotation>>;

    /// Stores a new rotation; it replaces a finished one, one of another version, and a row that the
    /// vault did not write. [`ChangeOutcome::Stale`] if it is running, or if its version is not the
    /// newest one: the caller has outdated keys.
    fn insert_key_rotation(&self, rotation: KeyRotation) -> StoreFuture<'_, ChangeOutcome>;

    /// Stores that the new version seals, or that the rotation finished.
    fn mark_key_rotation(
        &self,
        tenant: TenantId,
        mark: RotationMark,
    ) -> StoreFuture<'_, ChangeOutcome>;

    /// Gives a running rotation that is not paused to one node, until the lease ends.
    /// [`ChangeOutcome::Stale`] if another node has it.
    fn claim_key_rotation(
        &self,
        tenant: TenantId,
        lease: RotationLease,
    ) -> StoreFuture<'_, ChangeOutcome>;

    /// Replaces sealed bodies that are unchanged, and stores the progress with them.
    /// [`ChangeOutcome::Stale`] if the stored progress differs from `before`; then nothing is
    /// written.
    fn advance_key_rotation(&self, step: RotationStep) -> StoreFuture<'_, ChangeOutcome>;

    /// The next rows of a table, whichever version sealed them. Never waits for a writer.
    fn list_sealed_rows(
        &self,
        tenant: TenantId,
        table: RotatedTable,
        after: Option<RowKey>,
        rows_max: usize,
    ) -> StoreFuture<'_, SealedRows>;

    /// Replaces the digests of rows that are unchanged, with the entries of the token index.
    fn replace_digests(&self, changes: DigestChanges) -> StoreFuture<'_, ()>;

    /// The versions of the next rows of a table. Never waits for a writer.
    fn count_key_versions(
        &self,
        tenant: TenantId,
        table: RotatedTable,
        after: Option<RowKey>,
        rows_max: usize,
    ) -> StoreFuture<'_, VersionPage>;

    /// The versions in all sealed columns of other tables: of the policy, of stored responses, and
    /// of deliveries that are not in their table yet.
    fn count_other_key_versions(&self, tenant: TenantId) -> StoreFuture<'_, Vec<VersionCount>>;
}

/// Rows with new fingerprints and index digests: before and after. Nothing else of a row changes,
/// except its sealed body, which is bound to them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestChanges {
    pub tenant: TenantId,
    pub tokens: Vec<[TokenRecord; 2]>,
    pub intents: Vec<[TokenIntentRecord; 2]>,
}

/// A change of a stored rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationMark {
    Promoted(Timestamp),
    Finished(Timestamp),
    Paused,
    Resumed,
}

/// The end of a pass after which no stored value needs an old version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedPass {
    pub pass: u32,
    pub at: Timestamp,
}

/// The right of one node to work on a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationLease {
    pub node: Uuid,
    pub now: Timestamp,
    pub until: Timestamp,
}

/// One transaction of the background work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotationStep {
    pub tenant: TenantId,
    /// The progress at the start of the step.
    pub before: RotationProgress,
    /// The progress after it. The store adds the replaced rows to `resealed`.
    pub after: RotationProgress,
    pub rows: Vec<ResealedRow>,
}

/// The versions of some rows of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionPage {
    /// The versions; zero for bytes that are too short to have one.
    pub counts: Vec<(u32, u64)>,
    /// The key of the last row; `None` at the end of the table.
    pub last: Option<RowKey>,
}
