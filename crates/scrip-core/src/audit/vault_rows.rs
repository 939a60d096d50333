//! Signed rows of the vault that decide which data is hidden or destroyed.
//!
//! The rows are the clock watermark and the list of deleted tenants to purge. They are stored in
//! clear, so each has a MAC under the key of the audit trail. A row with an invalid MAC was not
//! written by a server of this vault and is ignored.

use scrip_seal::{AuditKey, Mac, Place};

use crate::{
    audit::AuditRecord,
    id::TenantId,
    time::{ClockWatermark, Timestamp},
};

/// The clock watermark, signed by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedWatermark {
    pub watermark: ClockWatermark,
    pub mac: Mac,
}

impl SignedWatermark {
    #[must_use]
    pub fn new(key: &AuditKey, watermark: ClockWatermark) -> Self {
        Self { watermark, mac: Self::compute_mac(key, watermark) }
    }

    #[must_use]
    pub fn has_valid_mac(&self, key: &AuditKey) -> bool {
        self.mac.constant_time_eq(&Self::compute_mac(key, self.watermark))
    }

    fn compute_mac(key: &AuditKey, watermark: ClockWatermark) -> Mac {
        let ClockWatermark { now, earliest } = watermark;
        key.mac(&Place::new("vault.clock").number(now.unix_ms).number(earliest.unix_ms))
    }
}

/// A deleted tenant: its keys are destroyed, its rows are to be purged.
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
    /// The row of the tenant that this record deletes.
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
