//! Rows about the vault itself that decide what is hidden or destroyed.
//!
//! They are the time that was noted, and the tenants whose rows are to be purged. They stand in
//! clear, so each has a mac under the key of the audit trail. A row with another mac was not written
//! by a server of this vault, and is not obeyed.

use scrip_seal::{AuditKey, Mac, Place};

use crate::{
    audit::AuditRecord,
    id::TenantId,
    time::{ClockWatermark, Timestamp},
};

/// The time as a server noted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedWatermark {
    pub watermark: ClockWatermark,
    pub mac: Mac,
}

impl SignedWatermark {
    #[must_use]
    pub fn new(key: &AuditKey, time: ClockWatermark) -> Self {
        Self { watermark: time, mac: Self::compute_mac(key, time) }
    }

    #[must_use]
    pub fn has_valid_mac(&self, key: &AuditKey) -> bool {
        self.mac.constant_time_eq(&Self::compute_mac(key, self.watermark))
    }

    fn compute_mac(key: &AuditKey, time: ClockWatermark) -> Mac {
        let ClockWatermark { now, earliest } = time;
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
    pub fn has_valid_mac(&self, key: &AuditKey) -> bool {
        self.mac.constant_time_eq(&Self::compute_mac(key, self.tenant, self.deleted_at))
    }

    fn compute_mac(key: &AuditKey, tenant: TenantId, deleted_at: Timestamp) -> Mac {
        let place = Place::new("vault.deleted_tenant").bytes(tenant.0.as_bytes());
        key.mac(&place.number(deleted_at.unix_ms))
    }
}

impl AuditRecord {
    /// The row of a tenant that ends with this record.
    #[must_use]
    pub fn sign_deleted_tenant(&self, tenant: TenantId) -> DeletedTenant {
        let (deleted_at, key) = (self.at, self.key());
        DeletedTenant {
            tenant,
            deleted_at,
            mac: DeletedTenant::compute_mac(key, tenant, deleted_at),
        }
    }
}
