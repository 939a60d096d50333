//! The sealed secrets of a webhook: the current one, and the previous one for a day.

use std::{borrow::Cow, time::Duration};

use scrip_seal::{Sealed, TenantKeys, WebhookSecret};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{
    Error, Timestamp,
    policy::{
        entity::EntityRecord,
        webhook::{WebhookRecord, record::SECRETS},
    },
};

/// How long the previous secret stays valid, so that a receiver can change its own without a gap.
pub const SECRET_OVERLAP: Duration = Duration::from_secs(24 * 60 * 60);

/// Secrets are opened for each use and are wiped afterwards. `Debug` does not print them.
#[derive(Clone)]
pub struct WebhookSecrets {
    pub current: WebhookSecret,
    pub previous: Option<PreviousSecret>,
}

#[derive(Clone)]
pub struct PreviousSecret {
    pub secret: WebhookSecret,
    pub valid_until: Timestamp,
}

/// The sealed document. The secrets themselves cannot be serialized by accident.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookSecretsDocument<'a> {
    current: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_until: Option<i64>,
}

impl WebhookSecrets {
    pub fn new(fill_random: fn(&mut [u8])) -> Self {
        Self { current: WebhookSecret::new(fill_random), previous: None }
    }

    /// Makes a new secret. The current one stays valid for a day, and an earlier one ends now.
    pub(crate) fn rotate(&mut self, fill_random: fn(&mut [u8]), now: Timestamp) {
        let new = WebhookSecret::new(fill_random);
        let secret = std::mem::replace(&mut self.current, new);
        self.previous = Some(PreviousSecret { secret, valid_until: now.plus(SECRET_OVERLAP) });
    }

    /// The secrets that sign a delivery at this time, the current one first.
    pub fn valid_at(&self, now: Timestamp) -> impl Iterator<Item = &WebhookSecret> {
        let previous = self.previous.iter().filter(move |it| now < it.valid_until);
        std::iter::once(&self.current).chain(previous.map(|it| &it.secret))
    }

    /// Seals the secrets for this row. Every other clear column of the row must be final.
    pub(crate) fn seal(&self, keys: &TenantKeys, record: &WebhookRecord) -> Result<Sealed, Error> {
        let previous = self.previous.as_ref();
        let document = WebhookSecretsDocument {
            current: self.current.expose().into(),
            previous: previous.map(|it| it.secret.expose().into()),
            previous_until: previous.map(|it| it.valid_until.unix_ms),
        };
        let document = WebhookRecord::write_document(SECRETS, &document)?;
        Ok(record.seal_column(keys, SECRETS, &document))
    }

    /// Errors: the row was altered, or belongs to another tenant.
    pub fn open(keys: &TenantKeys, record: &WebhookRecord) -> Result<Self, Error> {
        let stored: WebhookSecretsDocument<'_> =
            record.open_document(keys, SECRETS, &record.secrets)?;
        let previous = stored.previous.map(parse_secret).transpose()?;
        let previous = previous
            .zip(stored.previous_until)
            .map(|(secret, unix_ms)| PreviousSecret { secret, valid_until: Timestamp { unix_ms } });
        Ok(Self { current: parse_secret(stored.current)?, previous })
    }
}

/// Also wipes the text.
fn parse_secret(text: Cow<'_, str>) -> Result<WebhookSecret, Error> {
    let secret = WebhookSecret::parse(&Zeroizing::new(text.into_owned()));
    secret.map_err(|_| WebhookRecord::invalid_document(SECRETS))
}

hide_in_debug! { WebhookSecrets, PreviousSecret }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_secret_stays_valid_for_a_day() {
        let at = |hours: i64| Timestamp { unix_ms: hours * 3_600_000 };
        let mut secrets = WebhookSecrets::new(scrip_seal::fill_random);
        let first = secrets.current.expose().to_owned();
        let valid = |secrets: &WebhookSecrets, hours| -> Vec<String> {
            secrets.valid_at(at(hours)).map(|it| it.expose().to_owned()).collect()
        };
        assert_eq!(valid(&secrets, 0), std::slice::from_ref(&first));
        secrets.rotate(scrip_seal::fill_random, at(1));
        let second = secrets.current.expose().to_owned();
        assert_ne!(first, second);
        assert_eq!(valid(&secrets, 24), [second.clone(), first]);
        assert_eq!(valid(&secrets, 25), std::slice::from_ref(&second));
        secrets.rotate(scrip_seal::fill_random, at(2));
        let third = secrets.current.expose().to_owned();
        assert_eq!(valid(&secrets, 3), [third, second], "only two secrets are valid");
        assert_eq!(
            format!("{secrets:?}{:?}", secrets.previous),
            "WebhookSecretsSome(PreviousSecret)"
        );
    }
}
