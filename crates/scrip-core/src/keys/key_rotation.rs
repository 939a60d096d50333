//! The rotation of a tenant's sealing key.
//!
//! A rotation adds a version that only opens, promotes it after every node has loaded it, seals all
//! rows again in the background, and destroys the old version when no stored value needs it. The
//! versions of the tenant, which its MAC protects, decide how far a rotation is. The stored
//! [`KeyRotation`] only says where the background work continues: an attacker who alters it can
//! delay a rotation, but not make the vault destroy a key that is still needed.

use crate::{
    Timestamp,
    keys::{RotatedTable, RowKey},
    policy::Tenant,
    types::id::TenantId,
};

/// The rotation of one tenant: running, or the last one that finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRotation {
    pub tenant: TenantId,
    /// The version that seals at the end.
    pub to_version: u32,
    pub started_at: Timestamp,
    pub promoted_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub is_paused: bool,
    pub progress: RotationProgress,
}

impl KeyRotation {
    pub fn new(tenant: TenantId, to_version: u32, started_at: Timestamp) -> Self {
        Self {
            tenant,
            to_version,
            started_at,
            promoted_at: None,
            finished_at: None,
            is_paused: false,
            progress: RotationProgress::default(),
        }
    }
}

/// How far the background work is. It never goes back: a new pass has a higher number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RotationProgress {
    /// A pass goes through all tables. There is more than one pass only if rows of an old version
    /// appeared behind the position, or cannot be opened.
    pub pass: u32,
    /// `None` at the end of the pass.
    pub table: Option<RotatedTable>,
    /// The last row that is done in the table.
    pub after: Option<RowKey>,
    /// Rows of all passes that were sealed again.
    pub resealed: u64,
    /// Rows of this pass that could not be opened: their old version is never destroyed.
    pub unopened: u64,
}

impl Default for RotationProgress {
    fn default() -> Self {
        let table = RotatedTable::ALL.first().copied();
        Self { pass: 1, table, after: None, resealed: 0, unopened: 0 }
    }
}

impl RotationProgress {
    /// The start of the next pass.
    pub(crate) fn next_pass(&self) -> Self {
        Self { pass: self.pass.saturating_add(1), resealed: self.resealed, ..Self::default() }
    }

    /// The same pass after these rows of the current table.
    pub fn after_rows(&self, last: Option<RowKey>, unopened: u64) -> Self {
        let unopened = self.unopened.saturating_add(unopened);
        match last {
            Some(last) => Self { after: Some(last), unopened, ..self.clone() },
            None => {
                let table = self.table.and_then(RotatedTable::next);
                Self { table, after: None, unopened, ..self.clone() }
            }
        }
    }
}

/// How far a rotation is, from the versions of the tenant's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationPhase {
    /// One version, which seals: no rotation.
    Idle,
    /// The new version opens, and the old one still seals.
    Added,
    /// The new version seals, and old ones still open.
    Promoted,
}

impl RotationPhase {
    pub fn for_tenant(tenant: &Tenant) -> Self {
        let keys = &tenant.keys;
        match keys.versions().len() {
            0 | 1 => Self::Idle,
            _ if keys.current_version() == keys.newest_version() => Self::Promoted,
            _ => Self::Added,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Added => "added",
            Self::Promoted => "promoted",
        }
    }
}

/// When the version that seals was created. A rotation that is not stored any more counts as none:
/// then the key seems older than it is.
pub fn sealing_key_created_at(tenant: &Tenant, rotations: &[KeyRotation]) -> Timestamp {
    let version = tenant.keys.current_version();
    let rotation = rotations.iter().find(|it| it.tenant == tenant.id && it.to_version == version);
    rotation.map_or(tenant.created.at, |it| it.started_at)
}

/// The number of stored values that one version of a sealing key sealed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionCount {
    /// Table and column.
    pub column: String,
    pub version: u32,
    pub rows: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_goes_through_all_tables_and_ends() {
        let mut progress = RotationProgress::default();
        let mut tables = Vec::new();
        while let Some(table) = progress.table {
            tables.push(table);
            progress = progress.after_rows(Some(RowKey::Token("a".to_owned())), 1);
            assert_eq!(progress.table, Some(table), "more rows of the table may follow");
            progress = progress.after_rows(None, 0);
        }
        assert_eq!(tables, RotatedTable::ALL);
        assert_eq!((progress.pass, progress.unopened), (1, 4));
        let next = RotationProgress { resealed: 7, ..progress }.next_pass();
        assert_eq!((next.pass, next.resealed, next.unopened), (2, 7, 0));
        assert_eq!(next.table, Some(RotatedTable::Tokens));
    }
}
