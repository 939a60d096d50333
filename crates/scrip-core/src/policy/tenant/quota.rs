//! Limits and retention times of a tenant. The operator sets them.

use std::{fmt, num::NonZeroU32, ops::RangeInclusive, time::Duration};

use scrip_types::duration::{parse_digits, parse_seconds};
use serde::{Deserialize, Serialize};

use crate::{FieldError, types::TenantKind};

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
            || parse_digits(text).filter(|it| (1..=100_000).contains(it)).map(Self::Count);
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
                let percent = text.strip_suffix('%').and_then(parse_digits)?;
                let percent = NonZeroU32::new(u32::try_from(percent).ok()?)?;
                (percent.get() <= 10_000).then_some(Self::Percent(percent))
            }
        }
    }
}

/// Never changes: it is the value of the rows that omit the quota.
const PROXY_TOKEN_LIMIT: u64 = 20;
/// Never changes, for the same reason.
const WEBHOOK_LIMIT: u64 = 5;

fn number<const NUMBER: u64>() -> u64 {
    NUMBER
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_number<const NUMBER: u64>(value: &u64) -> bool {
    *value == NUMBER
}

const REJECTED_EVALUATIONS: u64 = 20;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Every change of a policy reads all webhooks, and every event looks at each of them.
const WEBHOOK_LIMIT_MAX: u64 = 100;

/// The tokens of a request are one transaction, and the writes of all tenants wait for it.
const TOKENIZE_LIMIT_MAX: u64 = 200;

/// Declares each quota once, with its field, default, form and readers. The order is that of the text
/// form, which the MAC of a tenant covers.
macro_rules! quotas {
    ($kind:ident: $(
        $(#[$meta:meta])*
        $field:ident: $Type:ty = $default:expr, $Form:ident $(($range:expr))?, $Reader:ident;
    )*) => {
        /// The limits and retention times of one tenant.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Quotas {
            $($(#[$meta])* pub $field: $Type,)*
        }

        impl Quotas {
            /// The quotas of a new tenant, as the API documents them, except the log retention of
            /// production tenants.
            pub fn default_for($kind: TenantKind) -> Self {
                Self { $($field: $default,)* }
            }
        }

        const QUOTAS: &[Quota] = &[$(Quota {
            field_name: stringify!($field),
            field: QuotaField::$Form(|it| &mut it.$field $(, $range)?),
            reader: Reader::$Reader,
        },)*];
    };
}

quotas! { kind:
    log_retention_seconds: u64 = match kind {
        // PCI DSS requires twelve months (requirement 10.5).
        TenantKind::Production => 365 * DAY,
        TenantKind::Test => DAY,
    }, Seconds(HOUR..=3650 * DAY), Tenant;
    /// The maximum number of tokens that one tokenize request creates. Earlier versions allowed up
    /// to 1,000, so requests are checked with [`Quotas::tokens_per_request`].
    tokenize_limit: u64 = 5, Count(1..=TOKENIZE_LIMIT_MAX), Tenant;
    /// The maximum number of tokens that one detokenize request names.
    detokenize_limit: u64 = 5, Count(1..=1000), Tenant;
    /// The maximum number of tokens that one proxied call names. The text form omits the default:
    /// tenants from before proxied calls have a row and a MAC without this quota.
    #[serde(
        default = "number::<PROXY_TOKEN_LIMIT>",
        skip_serializing_if = "is_number::<PROXY_TOKEN_LIMIT>"
    )]
    proxy_token_limit: u64 = PROXY_TOKEN_LIMIT, Count(1..=1000), Tenant;
    /// The maximum number of webhooks. The text form omits the default, for the same reason.
    #[serde(default = "number::<WEBHOOK_LIMIT>", skip_serializing_if = "is_number::<WEBHOOK_LIMIT>")]
    webhook_limit: u64 = WEBHOOK_LIMIT, Count(1..=WEBHOOK_LIMIT_MAX), Tenant;
    cvc_retention_seconds: u64 = HOUR, Seconds(MINUTE..=DAY), Tenant;
    token_intent_retention_seconds: u64 = DAY, Seconds(MINUTE..=30 * DAY), Tenant;
    rate_limit: RateLimitShare = RateLimitShare::Default, Share, Tenant;
    threeds_access: bool = kind == TenantKind::Test, Flag, Tenant;
    /// How long the keys of a deleted tenant are stored, so that it can be restored.
    deletion_grace_seconds: u64 = match kind {
        TenantKind::Production => DAY,
        TenantKind::Test => 0,
    }, Seconds(0..=30 * DAY), Tenant;
    /// The number of distinct numbers of one group that callers without a reveal right may submit:
    /// in 24 hours; in 90 days; and, for one application, in 24 hours over all groups, without the
    /// first number of each group.
    number_guesses_day: QuotaLimit = QuotaLimit::for_production(kind, 20), Limit, Operator;
    number_guesses_quarter: QuotaLimit = QuotaLimit::for_production(kind, 40), Limit, Operator;
    number_guesses_application: QuotaLimit = QuotaLimit::for_production(kind, 1000), Limit, Operator;
    /// The number of distinct terms with the same last four digits that such callers may search in
    /// 24 hours. The limit for short texts is per application and fifty times as high.
    search_misses: QuotaLimit = QuotaLimit::for_production(kind, 20), Limit, Operator;
    /// How many evaluations of an application may fail on the hidden data of one token in 24 hours.
    /// Absent in the rows of earlier versions: then the default applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rejected_evaluations: Option<QuotaLimit> = None, RejectedEvaluations, Operator;
}

/// A quota that the operator sets by its name.
struct Quota {
    field_name: &'static str,
    field: QuotaField,
    reader: Reader,
}

/// Who reads a quota.
#[derive(PartialEq, Eq)]
enum Reader {
    /// The tenant with the API, and the operator.
    Tenant,
    Operator,
}

/// The field of a quota, and its range.
enum QuotaField {
    Seconds(fn(&mut Quotas) -> &mut u64, RangeInclusive<u64>),
    Count(fn(&mut Quotas) -> &mut u64, RangeInclusive<u64>),
    Limit(fn(&mut Quotas) -> &mut QuotaLimit),
    Share(fn(&mut Quotas) -> &mut RateLimitShare),
    Flag(fn(&mut Quotas) -> &mut bool),
    RejectedEvaluations(fn(&mut Quotas) -> &mut Option<QuotaLimit>),
}

/// A quota in the body of a response.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum QuotaValue {
    Number(u64),
    Flag(bool),
    Text(String),
}

impl Quotas {
    pub fn log_retention(&self) -> Duration {
        Duration::from_secs(self.log_retention_seconds)
    }

    /// The maximum number of tokens that one tokenize request creates, also if an earlier version
    /// stored a higher quota.
    pub(crate) fn tokens_per_request(&self) -> u64 {
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
    pub(crate) fn rejected_evaluations(&self) -> QuotaLimit {
        self.rejected_evaluations.unwrap_or(match self.number_guesses_day {
            QuotaLimit::Off => QuotaLimit::Off,
            QuotaLimit::Count(_) => QuotaLimit::Count(REJECTED_EVALUATIONS),
        })
    }

    /// Name and value of each quota, as [`Quotas::set`] reads them.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        listed_quotas().iter().map(|it| (it.name(), it.field.show(*self))).collect()
    }

    /// Field and value of each quota that the tenant may read. A number that an earlier version
    /// stored above its range is reduced, as on use.
    pub fn tenant_values(&self) -> impl Iterator<Item = (&'static str, QuotaValue)> {
        let readable = QUOTAS.iter().filter(|it| it.reader == Reader::Tenant);
        readable.map(|it| (it.field_name, it.field.value(*self)))
    }

    /// Sets one quota by name, such as `log_retention` to `30d`.
    ///
    /// Errors: there is no such quota, or the value is out of range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), FieldError> {
        let quota = QUOTAS.iter().find(|it| it.name() == name).ok_or_else(unknown_quota)?;
        let rule = || FieldError { field: quota.name().into(), problem: quota.field.rule().into() };
        quota.field.set(self, value).ok_or_else(rule)
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

/// In the order of messages: the grace period of a deleted tenant comes last.
fn listed_quotas() -> Vec<&'static Quota> {
    let mut quotas: Vec<_> = QUOTAS.iter().collect();
    quotas.sort_by_key(|it| it.name() == "deletion_grace");
    quotas
}

impl Quota {
    /// The name for the operator, whose values have a unit.
    fn name(&self) -> &'static str {
        self.field_name.strip_suffix("_seconds").unwrap_or(self.field_name)
    }
}

impl QuotaField {
    fn value(&self, mut quotas: Quotas) -> QuotaValue {
        match self {
            Self::Seconds(field, _) => QuotaValue::Number(*field(&mut quotas)),
            Self::Count(field, range) => {
                QuotaValue::Number((*field(&mut quotas)).min(*range.end()))
            }
            Self::Flag(field) => QuotaValue::Flag(*field(&mut quotas)),
            Self::Limit(_) | Self::Share(_) | Self::RejectedEvaluations(_) => {
                QuotaValue::Text(self.show(quotas))
            }
        }
    }

    fn show(&self, mut quotas: Quotas) -> String {
        match self {
            Self::Seconds(field, _) => format_duration(*field(&mut quotas)),
            Self::Count(field, _) => field(&mut quotas).to_string(),
            Self::Limit(field) => field(&mut quotas).to_string(),
            Self::Share(field) => field(&mut quotas).to_string(),
            Self::Flag(field) => field(&mut quotas).to_string(),
            Self::RejectedEvaluations(_) => quotas.rejected_evaluations().to_string(),
        }
    }

    /// `None` if the value is out of range.
    fn set(&self, quotas: &mut Quotas, value: &str) -> Option<()> {
        match self {
            Self::Seconds(field, range) => *field(quotas) = parse_period(value, range)?,
            Self::Count(field, range) => {
                *field(quotas) = parse_digits(value).filter(|it| range.contains(it))?;
            }
            Self::Limit(field) => *field(quotas) = QuotaLimit::parse(value)?,
            Self::Share(field) => *field(quotas) = RateLimitShare::parse(value)?,
            Self::Flag(field) => *field(quotas) = value.parse().ok()?,
            Self::RejectedEvaluations(field) => *field(quotas) = Some(QuotaLimit::parse(value)?),
        }
        Some(())
    }

    /// What a value must be.
    fn rule(&self) -> String {
        match self {
            Self::Seconds(_, range) => {
                // Zero needs no unit.
                let start = match *range.start() {
                    0 => "0".to_owned(),
                    seconds => format_duration(seconds),
                };
                format!("must be from {start} to {}", format_duration(*range.end()))
            }
            Self::Count(_, range) => format!("must be from {} to {}", range.start(), range.end()),
            Self::Limit(_) | Self::RejectedEvaluations(_) => {
                "must be off, or 1 to 100000".to_owned()
            }
            Self::Share(_) => "must be default, off, or 1% to 10000%".to_owned(),
            Self::Flag(_) => "must be true or false".to_owned(),
        }
    }
}

fn unknown_quota() -> FieldError {
    let names: Vec<_> = listed_quotas().iter().map(|it| it.name()).collect();
    let problem = format!("must be one of {}", names.join(", ")).into();
    FieldError { field: "quota".into(), problem }
}

/// Parses `90s`, `15m`, `24h`, `30d`, or a number of seconds without a unit.
fn parse_period(text: &str, range: &RangeInclusive<u64>) -> Option<u64> {
    parse_digits(text).or_else(|| parse_seconds(text)).filter(|it| range.contains(it))
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
