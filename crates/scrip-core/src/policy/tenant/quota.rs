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

    pub fn log_retention(&self) -> Duration {
        Duration::from_secs(self.log_retention_seconds)
    }

    /// The maximum number of tokens that one tokenize request creates, also if an earlier version
    /// stored a higher quota.
    pub fn tokens_per_request(&self) -> u64 {
        self.tokenize_limit.min(TOKENIZE_LIMIT_MAX)
    }

    pub fn deletion_grace(&self) -> Duration {
        Duration::from_secs(self.deletion_grace_seconds)
    }

    pub fn token_intent_retention(&self) -> Duration {
        Duration::from_secs(self.token_intent_retention_seconds)
    }

    pub fn cvc_retention(&self) -> Duration {
        Duration::from_secs(self.cvc_retention_seconds)
    }

    /// The limit of rejected evaluations. Without a value, it is on if the guessing budget of a day
    /// is on.
    pub fn rejected_evaluations(&self) -> QuotaLimit {
        self.rejected_evaluations.unwrap_or(match self.number_guesses_day {
            QuotaLimit::Off => QuotaLimit::Off,
            QuotaLimit::Count(_) => QuotaLimit::Count(REJECTED_EVALUATIONS),
        })
    }

    /// Name and value of each quota, as [`Quotas::set`] reads them.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        QUOTAS.iter().map(|it| (it.name, it.field.show(*self))).collect()
    }

    /// Sets one quota by name, such as `log_retention` to `30d`.
    /// Errors: there is no such quota, or the value is out of range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), FieldError> {
        let quota = QUOTAS.iter().find(|it| it.name == name).ok_or_else(unknown_quota)?;
        quota.field.set(self, value).ok_or_else(|| FieldError::new(quota.name, quota.rule))
    }

    /// The text form; the same in both engines.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// `None` when the text is not the output of [`Quotas::to_text`].
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|it: &Self| it.to_text() == text)
    }
}

/// A quota that the operator sets by its name.
struct Quota {
    name: &'static str,
    /// What a value must be.
    rule: &'static str,
    field: QuotaField,
}

/// The field of a quota, and its range.
enum QuotaField {
    Seconds(fn(&mut Quotas) -> &mut u64, RangeInclusive<u64>),
    Count(fn(&mut Quotas) -> &mut u64, RangeInclusive<u64>),
    Limit(fn(&mut Quotas) -> &mut QuotaLimit),
    RateLimit,
    ThreeDsAccess,
    RejectedEvaluations,
}

use QuotaField::{Count, Limit, RateLimit, RejectedEvaluations, Seconds, ThreeDsAccess};

impl Quota {
    const fn new(name: &'static str, rule: &'static str, field: QuotaField) -> Self {
        Self { name, rule, field }
    }
}

const LIMIT_RULE: &str = "must be off, or 1 to 100000";

/// Every quota, in the order of [`Quotas::list`].
const QUOTAS: [Quota; 15] = [
    Quota::new(
        "log_retention",
        "must be from 1h to 3650d",
        Seconds(|it| &mut it.log_retention_seconds, HOUR..=3650 * DAY),
    ),
    Quota::new(
        "tokenize_limit",
        "must be from 1 to 200",
        Count(|it| &mut it.tokenize_limit, 1..=TOKENIZE_LIMIT_MAX),
    ),
    Quota::new(
        "detokenize_limit",
        "must be from 1 to 1000",
        Count(|it| &mut it.detokenize_limit, 1..=1000),
    ),
    Quota::new(
        "proxy_token_limit",
        "must be from 1 to 1000",
        Count(|it| &mut it.proxy_token_limit, 1..=1000),
    ),
    Quota::new(
        "webhook_limit",
        "must be from 1 to 100",
        Count(|it| &mut it.webhook_limit, 1..=WEBHOOK_LIMIT_MAX),
    ),
    Quota::new(
        "cvc_retention",
        "must be from 1m to 24h",
        Seconds(|it| &mut it.cvc_retention_seconds, MINUTE..=DAY),
    ),
    Quota::new(
        "token_intent_retention",
        "must be from 1m to 30d",
        Seconds(|it| &mut it.token_intent_retention_seconds, MINUTE..=30 * DAY),
    ),
    Quota::new("rate_limit", "must be default, off, or 1% to 10000%", RateLimit),
    Quota::new("threeds_access", "must be true or false", ThreeDsAccess),
    Quota::new("number_guesses_day", LIMIT_RULE, Limit(|it| &mut it.number_guesses_day)),
    Quota::new("number_guesses_quarter", LIMIT_RULE, Limit(|it| &mut it.number_guesses_quarter)),
    Quota::new(
        "number_guesses_application",
        LIMIT_RULE,
        Limit(|it| &mut it.number_guesses_application),
    ),
    Quota::new("search_misses", LIMIT_RULE, Limit(|it| &mut it.search_misses)),
    Quota::new("rejected_evaluations", LIMIT_RULE, RejectedEvaluations),
    Quota::new(
        "deletion_grace",
        "must be from 0 to 30d",
        Seconds(|it| &mut it.deletion_grace_seconds, 0..=30 * DAY),
    ),
];

impl QuotaField {
    fn show(&self, mut quotas: Quotas) -> String {
        match self {
            Self::Seconds(field, _) => format_duration(*field(&mut quotas)),
            Self::Count(field, _) => field(&mut quotas).to_string(),
            Self::Limit(field) => field(&mut quotas).to_string(),
            Self::RateLimit => quotas.rate_limit.to_string(),
            Self::ThreeDsAccess => quotas.threeds_access.to_string(),
            Self::RejectedEvaluations => quotas.rejected_evaluations().to_string(),
        }
    }

    /// `None` if the value is out of range.
    fn set(&self, quotas: &mut Quotas, value: &str) -> Option<()> {
        match self {
            Self::Seconds(field, range) => *field(quotas) = parse_seconds(value, range)?,
            Self::Count(field, range) => {
                *field(quotas) = parse_number(value).filter(|it| range.contains(it))?;
            }
            Self::Limit(field) => *field(quotas) = QuotaLimit::parse(value)?,
            Self::RateLimit => quotas.rate_limit = RateLimitShare::parse(value)?,
            Self::ThreeDsAccess => quotas.threeds_access = value.parse().ok()?,
            Self::RejectedEvaluations => {
                quotas.rejected_evaluations = Some(QuotaLimit::parse(value)?);
            }
        }
        Some(())
    }
}

fn unknown_quota() -> FieldError {
    let names: Vec<_> = QUOTAS.iter().map(|it| it.name).collect();
    let problem = format!("must be one of {}", names.join(", ")).into();
    FieldError { field: "quota".into(), problem }
}

/// Parses `90s`, `15m`, `24h`, `30d`, or a number of seconds without a unit.
fn parse_seconds(text: &str, range: &RangeInclusive<u64>) -> Option<u64> {
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
mod tests;
