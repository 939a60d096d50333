//! The stored row of a tenant.

use scrip_seal::{Place, WrappedTenantKeys};

use crate::{
    Timestamp,
    policy::{ChangeStamp, DisplayName, PolicyRow, Quotas, TenantSettings},
    types::{TenantKind, id::TenantId},
};

/// The stored row of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRecord {
    pub id: TenantId,
    pub name: DisplayName,
    pub kind: TenantKind,
    pub settings: TenantSettings,
    pub quotas: Quotas,
    pub keys: WrappedTenantKeys,
    pub created: ChangeStamp,
    pub modified: Option<ChangeStamp>,
    /// When the keys of a deleted tenant are destroyed.
    pub deletes_at: Option<Timestamp>,
}

impl PolicyRow for TenantRecord {
    /// Includes the wrapped keys, so that a rollback to old keys is detected.
    fn place(&self) -> Place {
        let place = Place::new("policy.tenant")
            .bytes(self.id.0.as_bytes())
            .text(self.name.as_str())
            .text(self.kind.as_str())
            .text(&self.settings.to_text())
            .text(&self.quotas.to_text())
            .bytes(self.keys.permanent.as_bytes());
        let place = self.keys.sealing.iter().fold(place, |place, (version, key)| {
            place.number(i64::from(*version)).bytes(key.as_bytes())
        });
        let place = ChangeStamp::add_to_place(place, &[Some(self.created), self.modified])
            .optional_number(self.deletes_at.map(|it| it.unix_ms));
        // A row without a promoted version has the MAC that earlier versions of the program wrote.
        match self.keys.promoted {
            Some(version) => place.number(i64::from(version)),
            None => place,
        }
    }
}
