//! What a vault consists of, whatever the engine: kinds of rows and their columns.

/// In the order of a file.
///
/// What others refer to comes before them. What the embedded engine keeps in its second database
/// comes behind the rest, and the vault's own keys come last: without them there
/// is nothing to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Clock,
    DirectoryVersion,
    LastEvent,
    Tenants,
    TenantKeys,
    LastingKeys,
    Applications,
    ApiKeys,
    DeletedTenants,
    AccessSessions,
    Tokens,
    UsageTypes,
    UsageMonths,
    TokenIntents,
    Sessions,
    SessionEvents,
    Guesses,
    Answers,
    AnswerData,
    AuditRecords,
    AuditHeads,
    AuditCheckpoints,
    AccessRecords,
    AccessHeads,
    AccessCheckpoints,
    ActiveTokens,
    ActiveMonths,
    SystemKeys,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Id,
    Number,
    Text,
    Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub form: Form,
    /// May be empty.
    pub is_optional: bool,
}

impl Column {
    const fn or_nothing(self) -> Self {
        Self { is_optional: true, ..self }
    }
}

const fn id(name: &'static str) -> Column {
    Column { name, form: Form::Id, is_optional: false }
}

const fn number(name: &'static str) -> Column {
    Column { name, form: Form::Number, is_optional: false }
}

const fn text(name: &'static str) -> Column {
    Column { name, form: Form::Text, is_optional: false }
}

const fn bytes(name: &'static str) -> Column {
    Column { name, form: Form::Bytes, is_optional: false }
}

const CLOCK: &[Column] = &[number("now"), number("earliest"), bytes("mac")];
const DIRECTORY_VERSION: &[Column] = &[number("version")];
const LAST_EVENT: &[Column] = &[number("last")];
const SYSTEM_KEYS: &[Column] = &[text("name"), bytes("wrapped")];
const TENANTS: &[Column] = &[
    id("id"),
    text("name"),
    text("kind"),
    text("settings"),
    text("quotas"),
    id("created_by").or_nothing(),
    number("created_at"),
    id("modified_by").or_nothing(),
    number("modified_at").or_nothing(),
    number("deletes_at").or_nothing(),
    bytes("mac"),
    number("policy_counter"),
    bytes("policy_mac"),
];
const TENANT_KEYS: &[Column] = &[id("tenant"), number("version"), bytes("wrapped")];
const LASTING_KEYS: &[Column] = &[id("tenant"), bytes("wrapped")];
const APPLICATIONS: &[Column] = &[
    id("tenant"),
    id("id"),
    text("name"),
    text("kind"),
    text("access"),
    id("created_by").or_nothing(),
    number("created_at"),
    id("modified_by").or_nothing(),
    number("modified_at").or_nothing(),
    bytes("mac"),
];
const API_KEYS: &[Column] = &[
    id("tenant"),
    id("application"),
    id("id"),
    bytes("digest"),
    id("created_by").or_nothing(),
    number("created_at"),
    bytes("mac"),
];
const DELETED_TENANTS: &[Column] = &[id("id"), number("deleted_at"), bytes("mac")];
const ACCESS_SESSIONS: &[Column] = &[
    id("tenant"),
    bytes("digest"),
    bytes("nonce"),
    id("application"),
    number("created_at"),
    number("expires_at"),
    id("authorized_by").or_nothing(),
    id("authorized_key").or_nothing(),
    number("authorized_at").or_nothing(),
    text("access").or_nothing(),
    bytes("mac"),
];
/// Their numbers are the engine's own; what they say is in the order of the rows.
const TOKENS: &[Column] = &[
    id("tenant"),
    text("id"),
    text("type"),
    bytes("fingerprint").or_nothing(),
    text("containers"),
    id("created_by"),
    number("created_at"),
    id("modified_by").or_nothing(),
    number("modified_at").or_nothing(),
    number("expires_at").or_nothing(),
    number("revision"),
    bytes("indexes"),
    bytes("body"),
    bytes("expressions"),
    bytes("duplicate_key").or_nothing(),
    bytes("duplicate_read_key").or_nothing(),
];
const USAGE_TYPES: &[Column] =
    &[id("tenant"), text("type"), number("count"), number("last_created_at")];
const USAGE_MONTHS: &[Column] = &[id("tenant"), number("month"), number("created")];
const ACTIVE_TOKENS: &[Column] = &[id("tenant"), number("month"), text("token")];
const ACTIVE_MONTHS: &[Column] = &[id("tenant"), number("month"), number("active")];
const TOKEN_INTENTS: &[Column] = &[
    id("tenant"),
    id("id"),
    text("type"),
    bytes("fingerprint").or_nothing(),
    text("containers"),
    id("created_by"),
    number("created_at"),
    number("expires_at"),
    bytes("body"),
];
const SESSIONS: &[Column] = &[
    id("tenant"),
    id("id"),
    id("created_by"),
    number("created_at"),
    number("ends_at").or_nothing(),
    number("revision"),
    text("token").or_nothing(),
    id("intent").or_nothing(),
    text("converted_containers").or_nothing(),
    id("converted_number_version").or_nothing(),
    bytes("converted_mac").or_nothing(),
    bytes("body"),
];
const SESSION_EVENTS: &[Column] =
    &[id("tenant"), number("seq"), id("id"), number("at"), bytes("body")];
const GUESSES: &[Column] =
    &[id("tenant"), bytes("bucket"), bytes("number"), number("counted_at"), number("expires_at")];
const ANSWERS: &[Column] = &[id("tenant"), bytes("digest"), number("created_at"), bytes("head")];
/// A token by its id: its number is another one elsewhere.
const ANSWER_DATA: &[Column] =
    &[id("tenant"), bytes("digest"), number("at"), text("token"), bytes("sealed")];
const RECORDS: &[Column] = &[
    id("tenant"),
    number("n"),
    number("at"),
    text("actor_kind"),
    id("actor").or_nothing(),
    text("operation"),
    text("entity"),
    text("outcome"),
    text("trace"),
    text("address"),
    id("api_key").or_nothing(),
    text("os_user").or_nothing(),
    number("repeats").or_nothing(),
    bytes("link"),
];
const HEADS: &[Column] = &[
    id("tenant"),
    number("n"),
    number("at"),
    bytes("link"),
    number("retention_seconds").or_nothing(),
    bytes("mac"),
];
const CHECKPOINTS: &[Column] =
    &[id("tenant"), number("n"), bytes("link"), number("at"), bytes("mac")];

impl Kind {
    pub const ALL: [Self; 28] = [
        Self::Clock,
        Self::DirectoryVersion,
        Self::LastEvent,
        Self::Tenants,
        Self::TenantKeys,
        Self::LastingKeys,
        Self::Applications,
        Self::ApiKeys,
        Self::DeletedTenants,
        Self::AccessSessions,
        Self::Tokens,
        Self::UsageTypes,
        Self::UsageMonths,
        Self::TokenIntents,
        Self::Sessions,
        Self::SessionEvents,
        Self::Guesses,
        Self::Answers,
        Self::AnswerData,
        Self::AuditRecords,
        Self::AuditHeads,
        Self::AuditCheckpoints,
        Self::AccessRecords,
        Self::AccessHeads,
        Self::AccessCheckpoints,
        Self::ActiveTokens,
        Self::ActiveMonths,
        Self::SystemKeys,
    ];

    /// As a file has it, and people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::DirectoryVersion => "directory_version",
            Self::LastEvent => "last_event",
            Self::Tenants => "tenants",
            Self::TenantKeys => "tenant_keys",
            Self::LastingKeys => "lasting_keys",
            Self::Applications => "applications",
            Self::ApiKeys => "api_keys",
            Self::DeletedTenants => "deleted_tenants",
            Self::AccessSessions => "access_sessions",
            Self::Tokens => "tokens",
            Self::UsageTypes => "usage_types",
            Self::UsageMonths => "usage_months",
            Self::TokenIntents => "token_intents",
            Self::Sessions => "sessions",
            Self::SessionEvents => "session_events",
            Self::Guesses => "guesses",
            Self::Answers => "answers",
            Self::AnswerData => "answer_data",
            Self::AuditRecords => "audit_records",
            Self::AuditHeads => "audit_heads",
            Self::AuditCheckpoints => "audit_checkpoints",
            Self::AccessRecords => "access_records",
            Self::AccessHeads => "access_heads",
            Self::AccessCheckpoints => "access_checkpoints",
            Self::ActiveTokens => "active_tokens",
            Self::ActiveMonths => "active_months",
            Self::SystemKeys => "system_keys",
        }
    }

    #[must_use]
    pub const fn columns(self) -> &'static [Column] {
        match self {
            Self::Clock => CLOCK,
            Self::DirectoryVersion => DIRECTORY_VERSION,
            Self::LastEvent => LAST_EVENT,
            Self::Tenants => TENANTS,
            Self::TenantKeys => TENANT_KEYS,
            Self::LastingKeys => LASTING_KEYS,
            Self::Applications => APPLICATIONS,
            Self::ApiKeys => API_KEYS,
            Self::DeletedTenants => DELETED_TENANTS,
            Self::AccessSessions => ACCESS_SESSIONS,
            Self::Tokens => TOKENS,
            Self::UsageTypes => USAGE_TYPES,
            Self::UsageMonths => USAGE_MONTHS,
            Self::TokenIntents => TOKEN_INTENTS,
            Self::Sessions => SESSIONS,
            Self::SessionEvents => SESSION_EVENTS,
            Self::Guesses => GUESSES,
            Self::Answers => ANSWERS,
            Self::AnswerData => ANSWER_DATA,
            Self::AuditRecords | Self::AccessRecords => RECORDS,
            Self::AuditHeads | Self::AccessHeads => HEADS,
            Self::AuditCheckpoints | Self::AccessCheckpoints => CHECKPOINTS,
            Self::ActiveTokens => ACTIVE_TOKENS,
            Self::ActiveMonths => ACTIVE_MONTHS,
            Self::SystemKeys => SYSTEM_KEYS,
        }
    }

    /// One row at most, and an empty vault may have it.
    #[must_use]
    pub const fn is_single(self) -> bool {
        matches!(self, Self::Clock | Self::DirectoryVersion | Self::LastEvent)
    }

    /// Its place in a file.
    #[must_use]
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|it| *it == self).unwrap_or(Self::ALL.len())
    }

    #[must_use]
    pub fn at(index: usize) -> Option<Self> {
        Self::ALL.get(index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_place_and_a_name_of_its_own() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!((kind.index(), Kind::at(at)), (at, Some(kind)));
            let named = Kind::ALL.iter().filter(|it| it.name() == kind.name()).count();
            assert_eq!(named, 1, "{kind:?}");
            assert!(!kind.columns().is_empty());
        }
        assert_eq!(Kind::at(Kind::ALL.len()), None);
    }
}
