//! Type of the setting `storage.url`.

use scrip_store::postgres::PostgresSettings;

use crate::config::value::SettingValue;

/// Address of PostgreSQL. It may contain a password, so it is printed only in redacted form.
#[derive(Debug, Clone)]
pub struct StorageUrl(pub(crate) PostgresSettings);

impl SettingValue for StorageUrl {
    fn parse(text: &str) -> Result<Self, String> {
        PostgresSettings::parse(text).map(Self).map_err(|it| it.to_string())
    }

    fn redact(text: &str) -> String {
        // An invalid URL is reported without quoting it.
        Self::parse(text).map(|it| it.0.redacted().to_owned()).unwrap_or_default()
    }
}
