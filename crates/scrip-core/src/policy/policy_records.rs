//! All policy rows of a tenant, and the seal over them that detects alterations.

use std::iter;

use scrip_seal::{Mac, Place, TenantKeys};

use crate::{
    Error,
    policy::{
        EntityId, EntityRow, SignedRow, StoredRow, TenantRecord,
        entity::{EntityRecord, InvalidRow, RowReader, RowSource},
        entity_list::for_each_policy_entity,
        stored_rows::as_stored,
    },
    types::id::TenantId,
};

/// Defines the rows of a policy.
macro_rules! define_records {
    ($($rows:ident: $Variant:ident, $Record:ty, $Id:ty;)*) => {
        /// All policy rows of one tenant.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct PolicyRecords {
            pub tenant: SignedRow<TenantRecord>,
            $(pub $rows: Vec<SignedRow<$Record>>,)*
            pub seal: PolicySeal,
        }

        impl PolicyRecords {
            /// The policy of these rows, in the order of their keys: the same policy is equal, in
            /// whatever order an engine reads its rows.
            pub fn from_rows(
                tenant: SignedRow<TenantRecord>,
                seal: PolicySeal,
                rows: Vec<EntityRow>,
            ) -> Self {
                let mut records = Self { tenant, $($rows: Vec::new(),)* seal };
                for row in rows {
                    match row {
                        EntityRow::Tenant(row) => records.tenant = *row,
                        $(EntityRow::$Variant(row) => records.$rows.push(*row),)*
                    }
                }
                $(records.$rows.sort_by_key(|it| it.record.id);)*
                // The key of this table begins with the application.
                records.api_keys.sort_by_key(|it| it.record.application);
                records
            }

            /// All rows except the tenant's, in the order of
            /// [`POLICY_ENTITIES`](crate::policy::POLICY_ENTITIES).
            pub fn rows(&self) -> impl Iterator<Item = &dyn StoredRow> {
                iter::empty::<&dyn StoredRow>()$(.chain(as_stored(&self.$rows)))*
            }

            /// Applies a write to the rows. Engines that store rows in memory use it too.
            pub fn apply(&mut self, write: &PolicyWrite) {
                match write {
                    PolicyWrite::Put(EntityRow::Tenant(row)) => self.tenant.clone_from(row),
                    $(PolicyWrite::Put(EntityRow::$Variant(row)) => {
                        put_row(&mut self.$rows, row, |it| it.id);
                    })*
                    $(PolicyWrite::Remove(EntityId::$Variant(id)) => {
                        self.$rows.retain(|it| it.record.id != *id);
                    })*
                }
                if let PolicyWrite::Remove(EntityId::Application(id)) = write {
                    self.api_keys.retain(|it| it.record.application != *id);
                }
            }
        }
    };
}

for_each_policy_entity!(define_records);

/// The MAC over all policy rows of a tenant. The counter grows with every change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicySeal {
    pub counter: i64,
    pub mac: Mac,
}

/// One policy row to write or to remove.
#[derive(Debug, Clone)]
pub enum PolicyWrite {
    Put(EntityRow),
    /// Also removes the API keys of an application.
    Remove(EntityId),
}

impl PolicyWrite {
    pub fn put(row: impl Into<EntityRow>) -> Self {
        Self::Put(row.into())
    }

    pub fn remove(id: impl Into<EntityId>) -> Self {
        Self::Remove(id.into())
    }
}

/// A change of a policy that the vault did not write. The description names rows, never their
/// contents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyAlteration {
    pub tenant: Option<TenantId>,
    pub description: String,
}

impl PolicySeal {
    /// Reads the seal from the row of the tenant. It is not checked yet.
    pub fn read(tenant: &dyn RowSource) -> Result<Self, InvalidRow> {
        let row = RowReader::new(TenantRecord::ENTITY, tenant);
        Ok(Self { counter: row.number("policy_counter")?, mac: row.mac("policy_mac")? })
    }

    /// Whether this is the earlier seal itself, or a newer one. A different seal with the same
    /// counter belongs to a policy that was rolled back and then changed.
    pub(crate) fn is_same_or_newer(&self, earlier: &Self) -> bool {
        self.counter > earlier.counter
            || (self.counter == earlier.counter && self.mac.constant_time_eq(&earlier.mac))
    }
}

impl PolicyRecords {
    /// A tenant without other rows.
    pub fn new(keys: &TenantKeys, tenant: TenantRecord) -> Self {
        let seal = PolicySeal { counter: 0, mac: Mac([0; 32]) };
        let mut records = Self::from_rows(SignedRow::new(keys, tenant), seal, Vec::new());
        records.seal = records.next_seal(keys);
        records
    }

    /// All alterations; empty when all MACs are valid.
    pub fn find_alterations(&self, keys: &TenantKeys) -> Vec<PolicyAlteration> {
        let id = self.tenant.record.id;
        let mut alterations = Vec::new();
        let mut report = |description: String| {
            alterations.push(PolicyAlteration { tenant: Some(id), description })
        };
        if !self.tenant.has_valid_mac(keys) {
            report("the row of the tenant was altered".to_owned());
        }
        for it in self.rows().filter(|it| !it.has_valid_mac(keys)) {
            report(format!("the row of {} {} was altered", it.entity().kind, it.id_text()));
        }
        if !self.has_valid_seal(keys) {
            report("a row of the policy was added, removed or rolled back".to_owned());
        }
        alterations
    }

    /// Whether the seal belongs to the MACs of these rows, so that its counter is authentic.
    pub(crate) fn has_valid_seal(&self, keys: &TenantKeys) -> bool {
        self.seal.mac.constant_time_eq(&self.compute_mac(keys, self.seal.counter))
    }

    /// Every change checks all rules and proxies of the tenant, so their total sizes are limited.
    pub(crate) fn check_size(&self) -> Result<(), Error> {
        const BYTES_MAX: usize = 4 * 1024 * 1024;
        let bytes: usize =
            self.applications.iter().map(|it| it.record.access.to_text().len()).sum();
        if bytes > BYTES_MAX {
            let reason = "the rules of a tenant must not exceed 4 MiB together";
            return Err(Error::Unprocessable { reason });
        }
        let bytes: usize = self.proxies.iter().map(StoredRow::sealed_length).sum();
        if bytes > 2 * BYTES_MAX {
            let reason = "the proxies of a tenant must not exceed 8 MiB together";
            return Err(Error::Unprocessable { reason });
        }
        Ok(())
    }

    pub(crate) fn next_seal(&self, keys: &TenantKeys) -> PolicySeal {
        let counter = self.seal.counter.saturating_add(1);
        PolicySeal { counter, mac: self.compute_mac(keys, counter) }
    }

    /// The MAC over the MACs of all rows. The order of the rows does not matter.
    fn compute_mac(&self, keys: &TenantKeys, counter: i64) -> Mac {
        let mut macs: Vec<_> = self.rows().map(StoredRow::mac).collect();
        macs.sort_unstable();
        let place = Place::new("policy.set")
            .bytes(self.tenant.record.id.0.as_bytes())
            .number(counter)
            .bytes(&self.tenant.mac.0);
        keys.policy_mac(&macs.iter().fold(place, |place, mac| place.bytes(&mac.0)))
    }
}

/// Replaces the row with the same id, or adds the row.
fn put_row<T: Clone, I: PartialEq>(
    rows: &mut Vec<SignedRow<T>>,
    row: &SignedRow<T>,
    id: fn(&T) -> I,
) {
    rows.retain(|it| id(&it.record) != id(&row.record));
    rows.push(row.clone());
}

#[cfg(test)]
mod tests;
