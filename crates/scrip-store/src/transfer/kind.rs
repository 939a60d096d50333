//! What a vault consists of, whatever the engine: kinds of rows and their columns.

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

/// The kinds, each with its name in a file and its columns.
macro_rules! kinds {
    ($($kind:ident, $name:literal, $columns:ident;)*) => {
        /// In the order of a file.
        ///
        /// What others refer to comes before them. What the embedded engine keeps in its second
        /// database comes behind the rest, and the vault's own keys come last: without them there is
        /// nothing to serve.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($kind,)*
        }

        impl Kind {
            pub const ALL: [Self; 28] = [$(Self::$kind),*];

            /// As a file has it, and people read it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            #[must_use]
            pub const fn columns(self) -> &'static [Column] {
                match self {
                    $(Self::$kind => $columns,)*
                }
            }
        }
    };
}

kinds! {
    Clock, "clock", CLOCK;
    DirectoryVersion, "directory_version", DIRECTORY_VERSION;
    LastEvent, "last_event", LAST_EVENT;
    Tenants, "tenants", TENANTS;
    TenantKeys, "tenant_keys", TENANT_KEYS;
    LastingKeys, "lasting_keys", LASTING_KEYS;
    Applications, "applications", APPLICATIONS;
    ApiKeys, "api_keys", API_KEYS;
    DeletedTenants, "deleted_tenants", DELETED_TENANTS;
    AccessSessions, "access_sessions", ACCESS_SESSIONS;
    Tokens, "tokens", TOKENS;
    UsageTypes, "usage_types", USAGE_TYPES;
    UsageMonths, "usage_months", USAGE_MONTHS;
    TokenIntents, "token_intents", TOKEN_INTENTS;
    Sessions, "sessions", SESSIONS;
    SessionEvents, "session_events", SESSION_EVENTS;
    Guesses, "guesses", GUESSES;
    Answers, "answers", ANSWERS;
    AnswerData, "answer_data", ANSWER_DATA;
    AuditRecords, "audit_records", RECORDS;
    AuditHeads, "audit_heads", HEADS;
    AuditCheckpoints, "audit_checkpoints", CHECKPOINTS;
    AccessRecords, "access_records", RECORDS;
    AccessHeads, "access_heads", HEADS;
    AccessCheckpoints, "access_checkpoints", CHECKPOINTS;
    ActiveTokens, "active_tokens", ACTIVE_TOKENS;
    ActiveMonths, "active_months", ACTIVE_MONTHS;
    SystemKeys, "system_keys", SYSTEM_KEYS;
}

impl Kind {
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
