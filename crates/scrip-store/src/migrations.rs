//! The schema migrations of all databases, one row per schema version. A released migration never
//! changes.

/// The migrations of one schema version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    /// Of the vault on SQLite.
    pub(crate) vault: &'static str,
    /// Of the read log on SQLite; `None` for no change. The read log has the same versions as the
    /// vault, because a backup contains both and stores one version.
    pub(crate) read_log: Option<&'static str>,
    pub(crate) postgres: &'static str,
}

/// In order. SQLite counts its versions from four, PostgreSQL from one.
pub(crate) const MIGRATIONS: [Migration; 9] = [
    Migration {
        vault: include_str!("sqlite/migrations/0004.sql"),
        read_log: Some(include_str!("sqlite/migrations/read-log-0004.sql")),
        postgres: include_str!("postgres/migrations/0001.sql"),
    },
    Migration {
        vault: include_str!("sqlite/migrations/0005.sql"),
        read_log: Some(include_str!("sqlite/migrations/read-log-0005.sql")),
        postgres: include_str!("postgres/migrations/0002.sql"),
    },
    Migration {
        vault: include_str!("sqlite/migrations/0006.sql"),
        read_log: Some(include_str!("sqlite/migrations/read-log-0006.sql")),
        postgres: include_str!("postgres/migrations/0003.sql"),
    },
    Migration {
        vault: include_str!("sqlite/migrations/0007.sql"),
        read_log: Some(include_str!("sqlite/migrations/read-log-0007.sql")),
        postgres: include_str!("postgres/migrations/0004.sql"),
    },
    Migration {
        vault: include_str!("sqlite/migrations/0008.sql"),
        read_log: Some(include_str!("sqlite/migrations/read-log-0008.sql")),
        postgres: include_str!("postgres/migrations/0005.sql"),
    },
    Migration {
        vault: include_str!("sqlite/migrations/0009.sql"),
        read_log: Some(include_str!("sqlite/migrations/read-log-0009.sql")),
        postgres: include_str!("postgres/migrations/0006.sql"),
    },
    Migration {
        vault: include_str!("sqlite/migrations/0010.sql"),
        read_log: Some(include_str!("sqlite/migrations/read-log-0010.sql")),
        postgres: include_str!("postgres/migrations/0007.sql"),
    },
    Migration {
        vault: include_str!("sqlite/migrations/0011.sql"),
        read_log: Some(include_str!("sqlite/migrations/read-log-0011.sql")),
        postgres: include_str!("postgres/migrations/0008.sql"),
    },
    Migration {
        vault: include_str!("sqlite/migrations/0012.sql"),
        read_log: Some(include_str!("sqlite/migrations/read-log-0012.sql")),
        postgres: include_str!("postgres/migrations/0009.sql"),
    },
];
