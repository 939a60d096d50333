//! The entities with signed rows: those of a policy, and access sessions.

use crate::policy::{
    AccessSessionRecord, POLICY_ENTITIES, TenantRecord,
    entity::{Entity, EntityRecord},
    entity_list::for_each_policy_entity,
};

/// Defines [`ENTITIES`].
macro_rules! define_entities {
    ($($rows:ident: $Variant:ident, $Record:ty, $Id:ty;)*) => {
        /// Every entity. A row comes after those that it refers to.
        pub const ENTITIES: [&Entity; POLICY_ENTITIES.len() + 2] = [
            TenantRecord::ENTITY,
            $(<$Record>::ENTITY,)*
            AccessSessionRecord::ENTITY,
        ];
    };
}

for_each_policy_entity!(define_entities);
