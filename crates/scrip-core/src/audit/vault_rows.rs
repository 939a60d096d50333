//! Signed rows of the vault that decide which data is hidden or destroyed.
//!
//! The rows are the clock watermark and the list of deleted tenants to purge. They are stored in
//! clear, so each has a MAC under the key of the audit trail. A row with an invalid MAC was not
//! written by a server of this vault and is ignored. A row of an earlier audit key is accepted: both
//! rows are short-lived, and a server writes them again.

use scrip_seal::{AuditKey, Mac, Place};

use crate::{
    Timestamp,
    audit::AuditRecord,
    types::{id::TenantId, time::ClockWatermark},
};

/// The clock watermark, signed by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedWatermark {
    pub watermark: ClockWatermark,
    pub mac: Mac,
}

impl SignedWatermark {
    pub fn new(key: &AuditKey, watermark: ClockWatermark) -> Self {
        Self { watermark, mac: key.mac(&Self::place(watermark)) }
    }

    pub fn has_valid_mac(&self, key: &AuditKey) -> bool {
        key.verifies_with_any(&Self::place(self.watermark), &self.mac)
    }

    fn place(watermark: ClockWatermark) -> Place {
        let ClockWatermark { now, earliest } = watermark;
        Place::new("vault.clock").number(now.unix_ms).number(earliest.unix_ms)
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
    pub fn has_valid_mac(&self, key: &AuditKey) -> bool {
        key.verifies_with_any(&Self::place(self.tenant, self.deleted_at), &self.mac)
    }

    fn place(tenant: TenantId, deleted_at: Timestamp) -> Place {
        let place = Place::new("vault.deleted_tenant").bytes(tenant.0.as_bytes());
        place.number(deleted_at.unix_ms)
    }
}

impl AuditRecord {
    /// The row of the tenant that this record deletes.
    pub fn sign_deleted_tenant(&self, tenant: TenantId) -> DeletedTenant {
        let (deleted_at, key) = (self.at, self.key());
        DeletedTenant {
            tenant,
            deleted_at,
            mac: key.mac(&DeletedTenant::place(tenant, deleted_at)),
        }
    }
}
