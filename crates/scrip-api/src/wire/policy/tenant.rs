//! JSON of tenants. The values of settings are strings, also for booleans.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use scrip_core::{
    FieldError,
    idempotency::RenderedResponse,
    operations::tenants::update_tenant::EditSettings,
    policy::{
        ChangeStamp, DeduplicationBehavior, DisplayName, Quotas, Tenant, TenantRecord,
        TenantSettings,
    },
    store::TenantUsage,
    types::{Plaintext, TenantKind, id::TenantId},
};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::wire::{
    ParseError, json::JsonFields, policy::application::parse_name, response::render,
};

/// Parses a name and the changes of settings. A setting in the body changes, null resets it to its
/// default, and all other settings are unchanged.
pub(crate) fn parse_update(body: Plaintext) -> Result<(DisplayName, EditSettings), ParseError> {
    let mut fields = JsonFields::from_body(body)?;
    let name = parse_name(&mut fields);
    let settings_object = match fields.take_any("settings") {
        None | Some(Value::Null) => serde_json::Map::new(),
        Some(Value::Object(settings_object)) => settings_object,
        Some(_) => {
            fields.errors.push(FieldError::new("settings", "must be a map from text to text"));
            serde_json::Map::new()
        }
    };
    let mut edits: Vec<SettingEdit> = Vec::new();
    for (setting, rule, edit) in SETTINGS {
        let Some(value) = settings_object.get(*setting) else { continue };
        let text = value.as_str();
        let is_valid = value.is_null()
            || text.is_some_and(|it| edit(&mut TenantSettings::default(), Some(it)).is_some());
        if is_valid {
            edits.push((*edit, text.map(str::to_owned)));
        } else {
            fields.errors.push(FieldError::new(format!("settings.{setting}"), rule));
        }
    }
    let edit: EditSettings = Box::new(move |mut settings| {
        for (edit, text) in &edits {
            let _: Option<()> = edit(&mut settings, text.as_deref());
        }
        settings
    });
    fields.finish_with(name).map(|name| (name, edit))
}

/// Sets a setting from its text, or resets it to its default. `None` if the text is not valid.
type SettingSetter = fn(&mut TenantSettings, Option<&str>) -> Option<()>;
type SettingEdit = (SettingSetter, Option<String>);

const BOOLEAN: &str = "must be \"true\" or \"false\"";

const SETTINGS: &[(&str, &str, SettingSetter)] = &[
    ("fingerprint_tokens", BOOLEAN, |it, text| {
        it.fingerprint_tokens = parse_boolean(text, TenantSettings::default().fingerprint_tokens)?;
        Some(())
    }),
    ("deduplicate_tokens", BOOLEAN, |it, text| {
        it.deduplicate_tokens = parse_boolean(text, TenantSettings::default().deduplicate_tokens)?;
        Some(())
    }),
    (
        "token_deduplication_behavior",
        "must be \"read_existing\" or \"update_existing\"",
        |it, text| {
            let assumed = Some(TenantSettings::default().token_deduplication_behavior);
            it.token_deduplication_behavior = text.map_or(assumed, DeduplicationBehavior::parse)?;
            Some(())
        },
    ),
    ("disable_ephemeral_proxy", BOOLEAN, |it, text| {
        it.disable_ephemeral_proxy =
            parse_boolean(text, TenantSettings::default().disable_ephemeral_proxy)?;
        Some(())
    }),
];

fn parse_boolean(text: Option<&str>, default: bool) -> Option<bool> {
    match text {
        None => Some(default),
        Some("true") => Some(true),
        Some("false") => Some(false),
        Some(_) => None,
    }
}

pub fn settings_to_text(settings: &TenantSettings) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("fingerprint_tokens", settings.fingerprint_tokens.to_string()),
        ("deduplicate_tokens", settings.deduplicate_tokens.to_string()),
        ("token_deduplication_behavior", settings.token_deduplication_behavior.as_str().to_owned()),
        ("disable_ephemeral_proxy", settings.disable_ephemeral_proxy.to_string()),
    ])
}

#[derive(Serialize)]
struct TenantBody<'a> {
    id: String,
    name: &'a str,
    r#type: &'static str,
    settings: BTreeMap<&'static str, String>,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<String>,
}

pub(crate) fn render_tenant(it: &Tenant) -> RenderedResponse {
    render_body(it.id, &it.name, it.kind, &it.settings, it.created, it.modified)
}

pub(crate) fn render_record(it: &TenantRecord) -> RenderedResponse {
    render_body(it.id, &it.name, it.kind, &it.settings, it.created, it.modified)
}

fn render_body(
    id: TenantId,
    name: &DisplayName,
    kind: TenantKind,
    settings: &TenantSettings,
    created: ChangeStamp,
    modified: Option<ChangeStamp>,
) -> RenderedResponse {
    let body = TenantBody {
        id: id.to_string(),
        name: name.as_str(),
        r#type: kind.as_str(),
        settings: settings_to_text(settings),
        created_at: created.at.to_string(),
        modified_by: modified.and_then(|it| it.by).map(|it| it.to_string()),
        modified_at: modified.map(|it| it.at.to_string()),
    };
    render(200, &body)
}

/// The quotas that a tenant reads.
#[derive(Debug)]
pub struct QuotasBody<'a>(pub &'a Quotas);

impl Serialize for QuotasBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.tenant_values())
    }
}

pub(crate) fn render_quotas(quotas: &Quotas) -> RenderedResponse {
    render(200, &QuotasBody(quotas))
}

/// JSON of a tenant's usage. The total appears twice, because clients read different attributes.
#[derive(Serialize)]
struct UsageBody {
    total_tokens: u64,
    token_report: TokenReport,
}

#[derive(Serialize)]
struct TokenReport {
    monthly_active_tokens: u64,
    total_tokens: u64,
    metrics_by_type: BTreeMap<&'static str, TypeMetrics>,
}

#[derive(Serialize)]
struct TypeMetrics {
    count: u64,
    last_created_at: String,
}

fn body(usage: &TenantUsage) -> UsageBody {
    let metrics = usage.types.iter().map(|it| {
        let last_created_at = it.last_created_at.to_string();
        (it.token_type.as_str(), TypeMetrics { count: it.count, last_created_at })
    });
    let token_report = TokenReport {
        monthly_active_tokens: usage.monthly_active(),
        total_tokens: usage.total(),
        metrics_by_type: metrics.collect(),
    };
    UsageBody { total_tokens: usage.total(), token_report }
}

pub(crate) fn render_usage(usage: &TenantUsage) -> RenderedResponse {
    render(200, &body(usage))
}
