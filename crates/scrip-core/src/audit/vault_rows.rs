//! Rows about the vault itself that decide what is hidden or destroyed.
//!
//! They are the time that was noted, and the tenants whose rows are to be purged. They stand in
//! clear, so each has a mac under the key of the audit trail. A row with another mac was not written
//! by a server of this vault, and is not obeyed.

use scrip_seal::{AuditKey, Mac, Place};

use crate::{
    audit::AuditRecord,
    id::TenantId,
    time::{KnownTime, Timestamp},
};

/// The time as a server noted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotedTime {
    pub time: KnownTime,
    pub mac: Mac,
}

impl NotedTime {
    #[must_use]
    pub fn new(key: &AuditKey, time: KnownTime) -> Self {
        Self { time, mac: Self::mac_by(key, time) }
    }

    #[must_use]
    pub fn is_ours(&self, key: &AuditKey) -> bool {
        self.mac.is(&Self::mac_by(key, self.time))
    }

    fn mac_by(key: &AuditKey, time: KnownTime) -> Mac {
        let KnownTime { now, earliest } = time;
        key.mac(&Place::new("vault.clock").number(now.unix_ms).number(earliest.unix_ms))
    }
}

/// A tenant whose keys are destroyed and whose rows are to be purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedTenant {
    pub tenant: TenantId,
    pub deleted_at: Timestamp,
    pub mac: Mac,
}

impl DeletedTenant {
    #[must_use]
    pub fn is_ours(&self, key: &AuditKey) -> bool {
        self.mac.is(&Self::mac_by(key, self.tenant, self.deleted_at))
    }

    fn mac_by(key: &AuditKey, tenant: TenantId, deleted_at: Timestamp) -> Mac {
        let place = Place::new("vault.deleted_tenant").bytes(tenant.0.as_bytes());
        key.mac(&place.number(deleted_at.unix_ms))
    }
}

impl AuditRecord {
    /// The row of a tenant that ends with this record.
    #[must_use]
    pub fn deleted_tenant(&self, tenant: TenantId) -> DeletedTenant {
        let (deleted_at, key) = (self.at, self.key());
        DeletedTenant { tenant, deleted_at, mac: DeletedTenant::mac_by(key, tenant, deleted_at) }
    }
}
