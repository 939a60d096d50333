//! The content of a vault, independent of the engine: kinds of rows and their columns. A policy
//! entity describes its columns itself.

use std::ops::RangeInclusive;

use scrip_core::policy::{
    ENTITIES,
    access_session::ACCESS_SESSION,
    application::{API_KEY, APPLICATION},
    entity::{Column, ColumnType, Entity},
    proxy::record::PROXY,
    tenant::{client_key::CLIENT_KEY, record::TENANT},
    webhook::record::WEBHOOK,
};

/// Builds a column of a type, which may be optional.
macro_rules! column {
    ($column_type:ident $name:ident) => {
        Column::new(stringify!($name), ColumnType::$column_type).unsigned()
    };
    ($column_type:ident $name:ident optional) => {
        column!($column_type $name).optional()
    };
}

/// The columns of a kind: those of a policy entity, or a list.
macro_rules! columns {
    ({ $($column_type:ident $column:ident $($optional:ident)?),* $(,)? }) => {
        const { &[$(column!($column_type $column $($optional)?)),*] }
    };
    ($entity:ident) => {
        $entity.columns
    };
}

/// The versions of the file that contain a kind: all of them without an attribute.
macro_rules! versions {
    () => {
        1..=NEWEST_FILE_VERSION
    };
    (since $first:literal) => {
        $first..=NEWEST_FILE_VERSION
    };
    (until $last:literal) => {
        1..=$last
    };
}

/// Defines [`RowKind`] from the name in the file and the columns of each kind.
macro_rules! kinds {
    ($($(#[$($version:tt)*])? $kind:ident $name:literal $columns:tt)*) => {
        /// A kind of row. The variants are in the order of the file.
        ///
        /// Referenced rows come before the rows that refer to them. The kinds of SQLite's second
        /// database come next. The system keys are last, because a vault without them cannot be
        /// served.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum RowKind {
            $($kind,)*
        }

        impl RowKind {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];

            /// The name in the file and in messages.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// The versions of the file that contain the kind.
            pub(super) const fn versions(self) -> RangeInclusive<u8> {
                match self {
                    $(Self::$kind => versions!($($($version)*)?),)*
                }
            }

            pub const fn columns(self) -> &'static [Column] {
                match self {
                    $(Self::$kind => columns!($columns),)*
                }
            }
        }
    };
}

/// The kinds of the entities of a policy besides the tenant, as a pattern.
macro_rules! policy_kinds {
    () => {
        $crate::transfer::RowKind::Applications
            | $crate::transfer::RowKind::ApiKeys
            | $crate::transfer::RowKind::Proxies
            | $crate::transfer::RowKind::Webhooks
            | $crate::transfer::RowKind::ClientKeys
    };
}
pub(crate) use policy_kinds;

/// The version of the file that the program writes. A new kind or column needs a new version.
pub(super) const NEWEST_FILE_VERSION: u8 = 7;

kinds! {
    Clock "clock" { Number now, Number earliest, Bytes mac }
    DirectoryVersion "directory_version" { Number version }
    #[until 3]
    LastEvent "last_event" { Number last_seq }
    Tenants "tenants" TENANT
    TenantKeys "tenant_keys" { Id tenant, Number version, Bytes wrapped }
    PermanentKeys "permanent_keys" { Id tenant, Bytes wrapped }
    Applications "applications" APPLICATION
    ApiKeys "api_keys" API_KEY
    #[since 2]
    Proxies "proxies" PROXY
    #[since 3]
    Webhooks "webhooks" WEBHOOK
    #[since 5]
    ClientKeys "client_keys" CLIENT_KEY
    DeletedTenants "deleted_tenants" { Id id, Number deleted_at, Bytes mac }
    AccessSessions "access_sessions" ACCESS_SESSION
    // Without the row numbers: the engine assigns them again, in the order of the rows.
    Tokens "tokens" {
        Id tenant, Text id, Text type, Bytes fingerprint optional, Text containers, Id created_by,
        Number created_at, Id modified_by optional, Number modified_at optional,
        Number expires_at optional, Number revision, Bytes indexes, Bytes body, Bytes expressions,
        Bytes duplicate_key optional, Bytes duplicate_read_key optional,
    }
    UsageTypes "usage_types" { Id tenant, Text type, Number count, Number last_created_at }
    UsageMonths "usage_months" { Id tenant, Number month, Number created }
    TokenIntents "token_intents" {
        Id tenant, Id id, Text type, Bytes fingerprint optional, Text containers, Id created_by,
        Number created_at, Number expires_at, Bytes body,
    }
    ThreeDsSessions "threeds_sessions" {
        Id tenant, Id id, Id created_by, Number created_at, Number deletes_at optional,
        Number revision, Text token optional, Id intent optional,
        Text converted_containers optional, Id converted_number_version optional,
        Bytes converted_mac optional, Bytes body,
    }
    #[until 3]
    ThreeDsEvents "threeds_events" { Id tenant, Number seq, Id id, Number occurred_at, Bytes body }
    #[since 4]
    Deliveries "deliveries" {
        Id tenant, Id webhook, Id event, Text event_type, Number occurred_at, Text state,
        Number pending_since, Number attempts, Number first_attempt_at optional,
        Number last_attempt_at optional, Number next_at, Number last_status optional,
        Text last_error optional, Bytes body,
    }
    Guesses "guesses" {
        Id tenant, Bytes bucket, Bytes number_digest, Number counted_at, Number expires_at,
    }
    IdempotencyRecords "idempotency_records" { Id tenant, Bytes digest, Number created_at, Bytes head }
    // Refers to a token by its id, because its number differs between engines.
    ResponseTokenData "response_token_data" { Id tenant, Bytes digest, Number write_index, Text token, Bytes sealed }
    AuditRecords "audit_records" {
        Id tenant, Number sequence, Number at, Text actor_kind, Id actor optional, Text operation,
        Text entity, Text outcome, Text trace, Text address, Id api_key optional,
        Text os_user optional, Number repeats optional, Bytes link, Text detail optional,
    }
    AuditHeads "audit_heads" {
        Id tenant, Number sequence, Number at, Bytes link, Number retention_seconds optional, Bytes mac,
    }
    AuditCheckpoints "audit_checkpoints" { Id tenant, Number sequence, Bytes link, Number at, Bytes mac }
    #[since 7]
    VaultState "vault_state" { Id vault_id, Number key_version }
    #[since 7]
    Unlocks "unlocks" {
        Id id, Bytes wrapped, Text kind, Text label, Text parameters, Number key_version,
        Number created_at, Number checked_at optional, Text state, Bytes mac,
    }
    ReadLogRecords "read_log_records" {
        Id tenant, Number sequence, Number at, Text actor_kind, Id actor optional, Text operation,
        Text entity, Text outcome, Text trace, Text address, Id api_key optional,
        Text os_user optional, Number repeats optional, Bytes link, Text detail optional,
    }
    ReadLogHeads "read_log_heads" {
        Id tenant, Number sequence, Number at, Bytes link, Number retention_seconds optional, Bytes mac,
    }
    ReadLogCheckpoints "read_log_checkpoints" { Id tenant, Number sequence, Bytes link, Number at, Bytes mac }
    ActiveTokens "active_tokens" { Id tenant, Number month, Text token }
    ActiveMonths "active_months" { Id tenant, Number month, Number active }
    SystemKeys "system_keys" { Text name, Bytes wrapped }
}

impl RowKind {
    /// The policy entity whose rows are of this kind.
    pub fn entity(self) -> Option<&'static Entity> {
        ENTITIES.into_iter().find(|it| it.table == self.name())
    }

    /// Whether there is at most one row of this kind. An empty vault may already have that row.
    pub(crate) const fn is_singleton(self) -> bool {
        matches!(self, Self::Clock | Self::DirectoryVersion)
    }

    /// Whether only files of older versions have rows of this kind. An import skips them.
    pub const fn is_retired(self) -> bool {
        *self.versions().end() < NEWEST_FILE_VERSION
    }

    /// The position in the file.
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|it| *it == self).unwrap_or(Self::ALL.len())
    }
}

#[cfg(test)]
mod tests {
    use scrip_core::policy::{POLICY_ENTITIES, PolicyEntity};

    use super::*;

    #[test]
    fn policy_kinds_are_those_of_the_policy_entities() {
        for kind in RowKind::ALL {
            let is_policy_entity =
                POLICY_ENTITIES.iter().any(|it| Some(it.entity) == kind.entity());
            assert_eq!(matches!(kind, policy_kinds!()), is_policy_entity, "{kind:?}");
        }
        for PolicyEntity { entity, .. } in POLICY_ENTITIES {
            let kinds = RowKind::ALL.into_iter().filter(|it| it.entity() == Some(entity));
            assert_eq!(kinds.count(), 1, "{}", entity.table);
        }
    }

    #[test]
    fn each_row_kind_has_its_own_index_and_name() {
        for (index, kind) in RowKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index);
            let same_name_count = RowKind::ALL.iter().filter(|it| it.name() == kind.name()).count();
            assert_eq!(same_name_count, 1, "number of kinds with the name of {kind:?}");
            assert!(!kind.columns().is_empty());
        }
    }
}
