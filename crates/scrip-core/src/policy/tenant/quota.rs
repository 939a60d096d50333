//! Limits and retention times of a tenant. The operator sets them.

use std::{fmt, num::NonZeroU32, ops::RangeInclusive, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{FieldError, types::TenantKind};

/// The limits and retention times of one tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quotas {
    pub log_retention_seconds: u64,
    /// The maximum number of tokens that one tokenize request creates. Earlier versions allowed up
    /// to 1,000, so requests are checked with [`Quotas::tokens_per_request`].
    pub tokenize_limit: u64,
    /// The maximum number of tokens that one detokenize request names.
    pub detokenize_limit: u64,
    /// The maximum number of tokens that one proxied call names. The text form omits the default:
    /// tenants from before proxied calls have a row and a MAC without this quota.
    #[serde(
        default = "default_proxy_token_limit",
        skip_serializing_if = "is_default_proxy_token_limit"
    )]
    pub proxy_token_limit: u64,
    /// The maximum number of webhooks. The text form omits the default, for the same reason.
    #[serde(default = "default_webhook_limit", skip_serializing_if = "is_default_webhook_limit")]
    pub webhook_limit: u64,
    pub cvc_retention_seconds: u64,
    pub token_intent_retention_seconds: u64,
    pub rate_limit: RateLimitShare,
    pub threeds_access: bool,
    /// How long the keys of a deleted tenant are stored, so that it can be restored.
    pub deletion_grace_seconds: u64,
    /// The number of distinct numbers of one group that callers without a reveal right may submit:
    /// in 24 hours; in 90 days; and, for one application, in 24 hours over all groups, without the
    /// first number of each group.
    pub number_guesses_day: QuotaLimit,
    pub number_guesses_quarter: QuotaLimit,
    pub number_guesses_application: QuotaLimit,
    /// The number of distinct terms with the same last four digits that such callers may search in
    /// 24 hours. The limit for short texts is per application and fifty times as high.
    pub search_misses: QuotaLimit,
    /// How many evaluations of an application may fail on the hidden data of one token in 24 hours.
    /// Absent in the rows of earlier versions: then the default applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_evaluations: Option<QuotaLimit>,
}

/// A number, or no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuotaLimit {
    Off,
    Count(u64),
}

impl fmt::Display for QuotaLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

impl QuotaLimit {
    fn parse(text: &str) -> Option<Self> {
        let parse_limit =
            || parse_number(text).filter(|it| (1..=100_000).contains(it)).map(Self::Count);
        if text == "off" { Some(Self::Off) } else { parse_limit() }
    }

    /// The limit of a production tenant; none for a test tenant. Test data is public and needs no
    /// protection from guessing.
    fn for_production(kind: TenantKind, count: u64) -> Self {
        match kind {
            TenantKind::Production => Self::Count(count),
            TenantKind::Test => Self::Off,
        }
    }
}

/// The share of the rates in the table that a tenant has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLimitShare {
    /// The rates of the table.
    Default,
    /// This percentage of the rates.
    Percent(NonZeroU32),
    Off,
}

impl fmt::Display for RateLimitShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Off => f.write_str("off"),
        }
    }
}

impl RateLimitShare {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "default" => Some(Self::Default),
            "off" => Some(Self::Off),
            _ => {
                let percent = text.strip_suffix('%').and_then(parse_number)?;
                let percent = NonZeroU32::new(u32::try_from(percent).ok()?)?;
                (percent.get() <= 10_000).then_some(Self::Percent(percent))
            }
        }
    }
}

/// Never changes: it is the value of the rows that omit the quota.
fn default_proxy_token_limit() -> u64 {
    20
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_proxy_token_limit(limit: &u64) -> bool {
    *limit == default_proxy_token_limit()
}

/// Never changes: it is the value of the rows that omit the quota.
fn default_webhook_limit() -> u64 {
    5
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default_webhook_limit(limit: &u64) -> bool {
    *limit == default_webhook_limit()
}

const REJECTED_EVALUATIONS: u64 = 20;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Every change of a policy reads all webhooks, and every event looks at each of them.
const WEBHOOK_LIMIT_MAX: u64 = 100;

/// The tokens of a request are one transaction, and the writes of all tenants wait for it.
const TOKENIZE_LIMIT_MAX: u64 = 200;

impl Quotas {
    /// The quotas of a new tenant, as the API documents them, except the log retention of production
    /// tenants.
    #[must_use]
    pub fn default_for(kind: TenantKind) -> Self {
        Self {
            log_retention_seconds: match kind {
                // PCI DSS requires twelve months (requirement 10.5).
                TenantKind::Production => 365 * DAY,
                TenantKind::Test => DAY,
            },
            tokenize_limit: 5,
            detokenize_limit: 5,
            proxy_token_limit: default_proxy_token_limit(),
            webhook_limit: default_webhook_limit(),
            cvc_retention_seconds: HOUR,
            token_intent_retention_seconds: DAY,
            rate_limit: RateLimitShare::Default,
            threeds_access: kind == TenantKind::Test,
            number_guesses_day: QuotaLimit::for_production(kind, 20),
            number_guesses_quarter: QuotaLimit::for_production(kind, 40),
            number_guesses_application: QuotaLimit::for_production(kind, 1000),
            search_misses: QuotaLimit::for_production(kind, 20),
            rejected_evaluations: None,
            deletion_grace_seconds: match kind {
                TenantKind::Production => DAY,
                TenantKind::Test => 0,
            },
        }
    }

    #[must_use]
    pub fn log_retention(&self) -> Duration {
        Duration::from_secs(self.log_retention_seconds)
    }

    /// The maximum number of tokens that one tokenize request creates, also if an earlier version
    /// stored a higher quota.
    #[must_use]
    pub fn tokens_per_request(&self) -> u64 {
        self.tokenize_limit.min(TOKENIZE_LIMIT_MAX)
    }

    #[must_use]
    pub fn deletion_grace(&self) -> Duration {
        Duration::from_secs(self.deletion_grace_seconds)
    }

    #[must_use]
    pub fn token_intent_retention(&self) -> Duration {
        Duration::from_secs(self.token_intent_retention_seconds)
    }

    #[must_use]
    pub fn cvc_retention(&self) -> Duration {
        Duration::from_secs(self.cvc_retention_seconds)
    }

    /// The limit of rejected evaluations. Without a value, it is on if the guessing budget of a day
    /// is on.
    #[must_use]
    pub fn rejected_evaluations(&self) -> QuotaLimit {
        self.rejected_evaluations.unwrap_or(match self.number_guesses_day {
            QuotaLimit::Off => QuotaLimit::Off,
            QuotaLimit::Count(_) => QuotaLimit::Count(REJECTED_EVALUATIONS),
        })
    }

    /// Name and value of each quota, as [`Quotas::set`] reads them.
    #[must_use]
    pub fn list(&self) -> Vec<(&'static str, String)> {
        vec![
            ("log_retention", format_duration(self.log_retention_seconds)),
            ("tokenize_limit", self.tokenize_limit.to_string()),
            ("detokenize_limit", self.detokenize_limit.to_string()),
            ("proxy_token_limit", self.proxy_token_limit.to_string()),
            ("webhook_limit", self.webhook_limit.to_string()),
            ("cvc_retention", format_duration(self.cvc_retention_seconds)),
            ("token_intent_retention", format_duration(self.token_intent_retention_seconds)),
            ("rate_limit", self.rate_limit.to_string()),
            ("threeds_access", self.threeds_access.to_string()),
            ("number_guesses_day", self.number_guesses_day.to_string()),
            ("number_guesses_quarter", self.number_guesses_quarter.to_string()),
            ("number_guesses_application", self.number_guesses_application.to_string()),
            ("search_misses", self.search_misses.to_string()),
            ("rejected_evaluations", self.rejected_evaluations().to_string()),
            ("deletion_grace", format_duration(self.deletion_grace_seconds)),
        ]
    }

    /// Sets one quota by name, such as `log_retention` to `30d`.
    ///
    /// # Errors
    /// There is no such quota, or the value is out of range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), FieldError> {
        let reject = |name: &'static str, rule| Err(FieldError::new(name, rule));
        match name {
            "log_retention" => match parse_seconds(value, HOUR..=3650 * DAY) {
                Some(it) => self.log_retention_seconds = it,
                None => return reject("log_retention", "must be from 1h to 3650d"),
            },
            "cvc_retention" => match parse_seconds(value, MINUTE..=DAY) {
                Some(it) => self.cvc_retention_seconds = it,
                None => return reject("cvc_retention", "must be from 1m to 24h"),
            },
            "token_intent_retention" => match parse_seconds(value, MINUTE..=30 * DAY) {
                Some(it) => self.token_intent_retention_seconds = it,
                None => return reject("token_intent_retention", "must be from 1m to 30d"),
            },
            "deletion_grace" => match parse_seconds(value, 0..=30 * DAY) {
                Some(it) => self.deletion_grace_seconds = it,
                None => return reject("deletion_grace", "must be from 0 to 30d"),
            },
            "tokenize_limit" => match parse_count(value).filter(|it| *it <= TOKENIZE_LIMIT_MAX) {
                Some(it) => self.tokenize_limit = it,
                None => return reject("tokenize_limit", "must be from 1 to 200"),
            },
            "detokenize_limit" => match parse_count(value) {
                Some(it) => self.detokenize_limit = it,
                None => return reject("detokenize_limit", "must be from 1 to 1000"),
            },
            "proxy_token_limit" => match parse_count(value) {
                Some(it) => self.proxy_token_limit = it,
                None => return reject("proxy_token_limit", "must be from 1 to 1000"),
            },
            "webhook_limit" => match parse_count(value).filter(|it| *it <= WEBHOOK_LIMIT_MAX) {
                Some(it) => self.webhook_limit = it,
                None => return reject("webhook_limit", "must be from 1 to 100"),
            },
            "rate_limit" => match RateLimitShare::parse(value) {
                Some(it) => self.rate_limit = it,
                None => return reject("rate_limit", "must be default, off, or 1% to 10000%"),
            },
            "threeds_access" => match value.parse() {
                Ok(it) => self.threeds_access = it,
                Err(_) => return reject("threeds_access", "must be true or false"),
            },
            _ => return self.set_budget(name, value),
        }
        Ok(())
    }

    fn set_budget(&mut self, name: &str, value: &str) -> Result<(), FieldError> {
        let rule = "must be off, or 1 to 100000";
        if name == "rejected_evaluations" {
            let limit = QuotaLimit::parse(value);
            let limit = limit.ok_or_else(|| FieldError::new("rejected_evaluations", rule))?;
            self.rejected_evaluations = Some(limit);
            return Ok(());
        }
        let (name, budget) = match name {
            "number_guesses_day" => ("number_guesses_day", &mut self.number_guesses_day),
            "number_guesses_quarter" => {
                ("number_guesses_quarter", &mut self.number_guesses_quarter)
            }
            "number_guesses_application" => {
                ("number_guesses_application", &mut self.number_guesses_application)
            }
            "search_misses" => ("search_misses", &mut self.search_misses),
            _ => {
                let rule = "must be log_retention, tokenize_limit, detokenize_limit, \
                    proxy_token_limit, webhook_limit, cvc_retention, token_intent_retention, rate_limit, threeds_access, \
                    deletion_grace, number_guesses_day, number_guesses_quarter, number_guesses_application, \
                    search_misses or rejected_evaluations";
                return Err(FieldError::new("quota", rule));
            }
        };
        *budget = QuotaLimit::parse(value).ok_or_else(|| FieldError::new(name, rule))?;
        Ok(())
    }

    /// The text form; the same in both engines.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `None` when the text is not the output of [`Quotas::to_text`].
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|it: &Self| it.to_text() == text)
    }
}

/// Parses `90s`, `15m`, `24h`, `30d`, or a number of seconds without a unit.
fn parse_seconds(text: &str, range: RangeInclusive<u64>) -> Option<u64> {
    let digits = text.trim_end_matches(|it: char| it.is_ascii_lowercase());
    let unit = match text.strip_prefix(digits)? {
        "" | "s" => 1,
        "m" => MINUTE,
        "h" => HOUR,
        "d" => DAY,
        _ => return None,
    };
    let seconds = parse_number(digits)?.checked_mul(unit)?;
    range.contains(&seconds).then_some(seconds)
}

fn parse_count(text: &str) -> Option<u64> {
    parse_number(text).filter(|it| (1..=1000).contains(it))
}

fn parse_number(text: &str) -> Option<u64> {
    text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Formats in the largest unit that is exact, except that one day is `24h`.
fn format_duration(seconds: u64) -> String {
    let units = [(DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (1, "s")];
    let is_exact =
        |(unit, _): &(u64, &str)| seconds.is_multiple_of(*unit) && (seconds, *unit) != (DAY, DAY);
    let (unit, name) = units.into_iter().find(is_exact).unwrap_or((1, "s"));
    format!("{}{name}", seconds / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_quotas_match_the_published_api() {
        let quotas = Quotas::default_for(TenantKind::Production);
        let expected = [
            ("log_retention", "365d"),
            ("tokenize_limit", "5"),
            ("detokenize_limit", "5"),
            ("proxy_token_limit", "20"),
            ("webhook_limit", "5"),
            ("cvc_retention", "1h"),
            ("token_intent_retention", "24h"),
            ("rate_limit", "default"),
            ("threeds_access", "false"),
            ("number_guesses_day", "20"),
            ("number_guesses_quarter", "40"),
            ("number_guesses_application", "1000"),
            ("search_misses", "20"),
            ("rejected_evaluations", "20"),
            ("deletion_grace", "24h"),
        ];
        let listed = quotas.list();
        assert_eq!(listed.len(), expected.len());
        for ((name, value), (expected_name, expected_value)) in listed.iter().zip(expected) {
            assert_eq!((*name, value.as_str()), (expected_name, expected_value));
        }
        let test_quotas = Quotas::default_for(TenantKind::Test);
        assert!(test_quotas.threeds_access);
        assert_eq!(
            (
                test_quotas.number_guesses_day,
                test_quotas.search_misses,
                test_quotas.rejected_evaluations()
            ),
            (QuotaLimit::Off, QuotaLimit::Off, QuotaLimit::Off)
        );
        assert_eq!(test_quotas.deletion_grace(), Duration::ZERO);
        assert_eq!(test_quotas.log_retention_seconds, DAY);
    }

    #[test]
    fn listed_quotas_can_be_set_and_round_trip() {
        let mut quotas = Quotas::default_for(TenantKind::Test);
        let values = [
            ("log_retention", "30d"),
            ("tokenize_limit", "200"),
            ("detokenize_limit", "1"),
            ("proxy_token_limit", "40"),
            ("webhook_limit", "100"),
            ("cvc_retention", "15m"),
            ("token_intent_retention", "90s"),
            ("rate_limit", "250%"),
            ("threeds_access", "false"),
            ("number_guesses_day", "30"),
            ("number_guesses_quarter", "off"),
            ("number_guesses_application", "100000"),
            ("search_misses", "1"),
            ("rejected_evaluations", "off"),
            ("deletion_grace", "7d"),
        ];
        for (name, value) in values {
            quotas.set(name, value).unwrap();
        }
        let listed: Vec<_> = quotas.list();
        for ((name, value), (_, expected)) in listed.iter().zip(values) {
            assert_eq!(value, expected, "value of {name}");
        }
        assert_eq!(Quotas::from_text(&quotas.to_text()), Some(quotas));
        assert_eq!(Quotas::from_text("{}"), None);
    }

    /// The MAC of a tenant covers this text.
    #[test]
    fn quotas_from_before_proxied_calls_keep_their_text() {
        let text = r#"{"log_retention_seconds":86400,"tokenize_limit":5,"detokenize_limit":5,"cvc_retention_seconds":3600,"token_intent_retention_seconds":86400,"rate_limit":"default","threeds_access":false,"deletion_grace_seconds":86400,"number_guesses_day":{"count":20},"number_guesses_quarter":{"count":40},"number_guesses_application":{"count":1000},"search_misses":{"count":20}}"#;
        let mut quotas = Quotas::from_text(text).unwrap();
        // The default of new tenants is longer.
        let default = Quotas::default_for(TenantKind::Production);
        assert_eq!(quotas, Quotas { log_retention_seconds: DAY, ..default });
        quotas.proxy_token_limit = 21;
        assert!(quotas.to_text().contains(r#""detokenize_limit":5,"proxy_token_limit":21,"#));
        assert_eq!(Quotas::from_text(&quotas.to_text()), Some(quotas));
        // A second text of the same quotas would have another MAC.
        let with_default = quotas.to_text().replace(":21,", ":20,");
        assert_eq!(Quotas::from_text(&with_default), None);
        quotas.webhook_limit = 6;
        assert!(quotas.to_text().contains(r#""proxy_token_limit":21,"webhook_limit":6,"#));
        let with_default = quotas.to_text().replace(":6,", ":5,");
        assert_eq!(Quotas::from_text(&with_default), None);
    }

    /// Earlier versions allowed 1,000 tokens. The text stays, because the MAC covers it.
    #[test]
    fn stored_tokenize_limit_above_the_maximum_is_reduced_on_use() {
        let stored = Quotas { tokenize_limit: 1000, ..Quotas::default_for(TenantKind::Test) };
        let read = Quotas::from_text(&stored.to_text());
        assert_eq!(read, Some(stored));
        assert_eq!(read.map(|it| it.tokens_per_request()), Some(TOKENIZE_LIMIT_MAX));
    }

    #[test]
    fn invalid_quota_values_are_rejected() {
        let mut quotas = Quotas::default_for(TenantKind::Test);
        let original = quotas;
        let invalid_values = [
            ("log_retention", "59m"),
            ("log_retention", "1y"),
            ("log_retention", ""),
            ("log_retention", "99999999999999999999d"),
            ("cvc_retention", "25h"),
            ("cvc_retention", "-1h"),
            ("tokenize_limit", "0"),
            ("tokenize_limit", "201"),
            ("tokenize_limit", "+5"),
            ("webhook_limit", "0"),
            ("webhook_limit", "101"),
            ("rate_limit", "0%"),
            ("rate_limit", "+5%"),
            ("rate_limit", "fast"),
            ("threeds_access", "yes"),
            ("number_guesses_day", "0"),
            ("number_guesses_quarter", "100001"),
            ("search_misses", "unlimited"),
            ("deletion_grace", "31d"),
            ("unknown_quota", "1"),
        ];
        for (name, value) in invalid_values {
            assert!(quotas.set(name, value).is_err(), "{name} accepts {value}");
        }
        assert_eq!(quotas, original);
    }
}
