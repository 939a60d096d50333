//! The content of a vault, independent of the engine: kinds of rows and their columns.

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    Id,
    Number,
    Text,
    Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowColumn {
    pub name: &'static str,
    pub column_type: ColumnType,
    /// May be NULL.
    pub is_optional: bool,
}

/// Builds a column of a type, which may be optional.
macro_rules! column {
    ($column_type:ident $name:ident) => {
        RowColumn {
            name: stringify!($name),
            column_type: ColumnType::$column_type,
            is_optional: false,
        }
    };
    ($column_type:ident $name:ident optional) => {
        RowColumn { is_optional: true, ..column!($column_type $name) }
    };
}

/// Defines [`RowKind`] from the name in the file and the columns of each kind.
macro_rules! kinds {
    ($($kind:ident $name:literal {
        $($column_type:ident $column:ident $($optional:ident)?),* $(,)?
    })*) => {
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
            pub const ALL: [Self; 34] = [$(Self::$kind),*];

            /// The name in the file and in messages.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            #[must_use]
            pub const fn columns(self) -> &'static [RowColumn] {
                match self {
                    $(Self::$kind => &[$(column!($column_type $column $($optional)?)),*],)*
                }
            }
        }
    };
}

kinds! {
    Clock "clock" { Number now, Number earliest, Bytes mac }
    DirectoryVersion "directory_version" { Number version }
    LastEvent "last_event" { Number last_seq }
    Tenants "tenants" {
        Id id, Text name, Text kind, Text settings, Text quotas, Id created_by optional,
        Number created_at, Id modified_by optional, Number modified_at optional,
        Number deletes_at optional, Bytes mac, Number policy_counter, Bytes policy_mac,
        Number sealing_version optional,
    }
    TenantKeys "tenant_keys" { Id tenant, Number version, Bytes wrapped }
    PermanentKeys "permanent_keys" { Id tenant, Bytes wrapped }
    Applications "applications" {
        Id tenant, Id id, Text name, Text kind, Text access, Id created_by optional,
        Number created_at, Id modified_by optional, Number modified_at optional, Bytes mac,
        Text origins optional,
    }
    ApiKeys "api_keys" {
        Id tenant, Id application, Id id, Bytes digest, Id created_by optional, Number created_at,
        Bytes mac,
    }
    Proxies "proxies" {
        Id tenant, Id id, Bytes digest, Text name, Id application optional, Number require_auth,
        Number disable_detokenization, Text host optional, Bytes settings, Bytes secrets,
        Id created_by optional, Number created_at, Id modified_by optional,
        Number modified_at optional, Bytes mac,
    }
    Webhooks "webhooks" {
        Id tenant, Id id, Text name, Text status, Text events, Bytes settings, Bytes secrets,
        Id created_by optional, Number created_at, Id modified_by optional,
        Number modified_at optional, Bytes mac,
    }
    ClientKeys "client_keys" {
        Id tenant, Id id, Number expires_at, Bytes private_key, Id created_by optional,
        Number created_at, Bytes mac,
    }
    DeletedTenants "deleted_tenants" { Id id, Number deleted_at, Bytes mac }
    AccessSessions "access_sessions" {
        Id tenant, Bytes digest, Bytes nonce, Id application, Number created_at,
        Number expires_at, Id authorized_by optional, Id authorized_key optional,
        Number authorized_at optional, Text access optional, Bytes mac,
    }
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
    ThreeDsEvents "threeds_events" { Id tenant, Number seq, Id id, Number occurred_at, Bytes body }
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
    VaultState "vault_state" { Id vault_id, Number key_version }
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
    /// Whether there is at most one row of this kind. An empty vault may already have that row.
    #[must_use]
    pub const fn is_singleton(self) -> bool {
        matches!(self, Self::Clock | Self::DirectoryVersion)
    }

    /// Whether only files of older versions have rows of this kind. An import skips them.
    #[must_use]
    pub const fn is_retired(self) -> bool {
        matches!(self, Self::LastEvent | Self::ThreeDsEvents)
    }

    /// The position in the file.
    #[must_use]
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|it| *it == self).unwrap_or(Self::ALL.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
