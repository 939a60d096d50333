//! Policy rows with a MAC, and the stamp of their last change.

use scrip_seal::{Mac, Place, TenantKeys};

use crate::{Timestamp, types::id::ApplicationId};

/// A row of the policy.
pub trait PolicyRow {
    /// The input of the MAC: the kind of the row and every column.
    fn place(&self) -> Place;
}

/// A row with its stored MAC. Check the MAC before you use the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedRow<T> {
    pub record: T,
    pub mac: Mac,
}

impl<T: PolicyRow> SignedRow<T> {
    pub fn new(keys: &TenantKeys, record: T) -> Self {
        let mac = keys.policy_mac(&record.place());
        Self { record, mac }
    }

    pub fn has_valid_mac(&self, keys: &TenantKeys) -> bool {
        self.mac.constant_time_eq(&keys.policy_mac(&self.record.place()))
    }
}

/// The application that changed a row, and the time. `by` is `None` for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeStamp {
    pub by: Option<ApplicationId>,
    pub at: Timestamp,
}
