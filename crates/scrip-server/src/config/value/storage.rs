//! The kind of value that names PostgreSQL.

use scrip_store::postgres::PostgresSettings;

use crate::config::value::SettingValue;

/// Where PostgreSQL is. It may hold a password, so its text goes nowhere.
#[derive(Debug, Clone)]
pub struct StorageUrl(pub(crate) PostgresSettings);

impl SettingValue for StorageUrl {
    fn parse(text: &str) -> Result<Self, String> {
        PostgresSettings::parse(text).map(Self).map_err(|it| it.to_string())
    }

    fn redact(text: &str) -> String {
        // One that cannot be read is complained about, without a word of it.
        Self::parse(text).map(|it| it.0.redacted().to_owned()).unwrap_or_default()
    }
}
