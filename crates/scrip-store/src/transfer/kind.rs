//! What a vault consists of, whatever the engine: kinds of rows and their columns.

/// What a column holds.
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
    /// May be empty.
    pub is_optional: bool,
}

/// A column of a form, which may be optional.
macro_rules! column {
    ($form:ident $name:ident) => {
        RowColumn { name: stringify!($name), column_type: ColumnType::$form, is_optional: false }
    };
    ($form:ident $name:ident optional) => {
        RowColumn { is_optional: true, ..column!($form $name) }
    };
}

/// The kinds, each with its name in a file and its columns.
macro_rules! kinds {
    ($($kind:ident $name:literal {
        $($form:ident $column:ident $($optional:ident)?),* $(,)?
    })*) => {
        /// In the order of a file.
        ///
        /// What others refer to comes before them. What the embedded engine keeps in its second
        /// database comes behind the rest, and the vault's own keys come last: without them there is
        /// nothing to serve.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum RowKind {
            $($kind,)*
        }

        impl RowKind {
            pub const ALL: [Self; 28] = [$(Self::$kind),*];

            /// As a file has it, and people read it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            #[must_use]
            pub const fn columns(self) -> &'static [RowColumn] {
                match self {
                    $(Self::$kind => &[$(column!($form $column $($optional)?)),*],)*
                }
            }
        }
    };
}

kinds! {
    Clock "clock" { Number now, Number earliest, Bytes mac }
    DirectoryVersion "directory_version" { Number version }
    LastEvent "last_event" { Number last }
    Tenants "tenants" {
        Id id, Text name, Text kind, Text settings, Text quotas, Id created_by optional,
        Number created_at, Id modified_by optional, Number modified_at optional,
        Number deletes_at optional, Bytes mac, Number policy_counter, Bytes policy_mac,
    }
    TenantKeys "tenant_keys" { Id tenant, Number version, Bytes wrapped }
    LastingKeys "lasting_keys" { Id tenant, Bytes wrapped }
    Applications "applications" {
        Id tenant, Id id, Text name, Text kind, Text access, Id created_by optional,
        Number created_at, Id modified_by optional, Number modified_at optional, Bytes mac,
    }
    ApiKeys "api_keys" {
        Id tenant, Id application, Id id, Bytes digest, Id created_by optional, Number created_at,
        Bytes mac,
    }
    DeletedTenants "deleted_tenants" { Id id, Number deleted_at, Bytes mac }
    AccessSessions "access_sessions" {
        Id tenant, Bytes digest, Bytes nonce, Id application, Number created_at,
        Number expires_at, Id authorized_by optional, Id authorized_key optional,
        Number authorized_at optional, Text access optional, Bytes mac,
    }
    // Their numbers are the engine's own; what they say is in the order of the rows.
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
    Sessions "sessions" {
        Id tenant, Id id, Id created_by, Number created_at, Number ends_at optional,
        Number revision, Text token optional, Id intent optional,
        Text converted_containers optional, Id converted_number_version optional,
        Bytes converted_mac optional, Bytes body,
    }
    SessionEvents "session_events" { Id tenant, Number seq, Id id, Number at, Bytes body }
    Guesses "guesses" {
        Id tenant, Bytes bucket, Bytes number, Number counted_at, Number expires_at,
    }
    Answers "answers" { Id tenant, Bytes digest, Number created_at, Bytes head }
    // A token by its id: its number is another one elsewhere.
    AnswerData "answer_data" { Id tenant, Bytes digest, Number at, Text token, Bytes sealed }
    AuditRecords "audit_records" {
        Id tenant, Number n, Number at, Text actor_kind, Id actor optional, Text operation,
        Text entity, Text outcome, Text trace, Text address, Id api_key optional,
        Text os_user optional, Number repeats optional, Bytes link,
    }
    AuditHeads "audit_heads" {
        Id tenant, Number n, Number at, Bytes link, Number retention_seconds optional, Bytes mac,
    }
    AuditCheckpoints "audit_checkpoints" { Id tenant, Number n, Bytes link, Number at, Bytes mac }
    AccessRecords "access_records" {
        Id tenant, Number n, Number at, Text actor_kind, Id actor optional, Text operation,
        Text entity, Text outcome, Text trace, Text address, Id api_key optional,
        Text os_user optional, Number repeats optional, Bytes link,
    }
    AccessHeads "access_heads" {
        Id tenant, Number n, Number at, Bytes link, Number retention_seconds optional, Bytes mac,
    }
    AccessCheckpoints "access_checkpoints" { Id tenant, Number n, Bytes link, Number at, Bytes mac }
    ActiveTokens "active_tokens" { Id tenant, Number month, Text token }
    ActiveMonths "active_months" { Id tenant, Number month, Number active }
    SystemKeys "system_keys" { Text name, Bytes wrapped }
}

impl RowKind {
    /// One row at most, and an empty vault may have it.
    #[must_use]
    pub const fn is_singleton(self) -> bool {
        matches!(self, Self::Clock | Self::DirectoryVersion | Self::LastEvent)
    }

    /// Its place in a file.
    #[must_use]
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|it| *it == self).unwrap_or(Self::ALL.len())
    }

    #[must_use]
    pub fn from_index(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_kind_has_its_own_index_and_name() {
        for (at, kind) in RowKind::ALL.into_iter().enumerate() {
            assert_eq!((kind.index(), RowKind::from_index(at)), (at, Some(kind)));
            let named = RowKind::ALL.iter().filter(|it| it.name() == kind.name()).count();
            assert_eq!(named, 1, "{kind:?}");
            assert!(!kind.columns().is_empty());
        }
        assert_eq!(RowKind::from_index(RowKind::ALL.len()), None);
    }
}
