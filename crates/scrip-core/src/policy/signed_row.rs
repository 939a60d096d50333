//! Rows with a mac, and who wrote them when.

use scrip_seal::{Mac, Place, TenantKeys};

use crate::{id::ApplicationId, time::Timestamp};

/// A row of the policy.
pub trait PolicyRow {
    /// The row's kind and every column of it.
    fn place(&self) -> Place;
}

/// A row and the mac that came with it. What is inside is not to be obeyed before it was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedRow<T> {
    pub record: T,
    pub mac: Mac,
}

impl<T: PolicyRow> SignedRow<T> {
    #[must_use]
    pub fn new(keys: &TenantKeys, record: T) -> Self {
        let mac = keys.policy_mac(&record.place());
        Self { record, mac }
    }

    #[must_use]
    pub fn has_valid_mac(&self, keys: &TenantKeys) -> bool {
        self.mac.constant_time_eq(&keys.policy_mac(&self.record.place()))
    }
}

/// Who did something, and when. Nobody is the operator, who needs no application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeStamp {
    pub by: Option<ApplicationId>,
    pub at: Timestamp,
}

impl ChangeStamp {
    pub(crate) fn add_to_place(place: Place, stamps: &[Option<Self>]) -> Place {
        stamps.iter().fold(place, |place, stamp| {
            let by = stamp.and_then(|it| it.by);
            let by = by.as_ref().map(|it| it.0.as_bytes().as_slice());
            place.optional_bytes(by).optional_number(stamp.map(|it| it.at.unix_ms))
        })
    }
}
