//! What a tenant uses, described.

use scrip_core::{
    time::Timestamp,
    token_type::TokenType,
    usage::{TypeUsage, Usage},
};
use serde_json::json;

use crate::wire::{
    described::{Description, Tag, operation},
    policy::usage::body,
    schema::{Schema, always, answer, instant, map, named, whole},
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let total = || {
        whole().about(
            "Tokens that are there. One that has expired counts until it is removed, within \
                       the hour.",
        )
    };
    let metrics = answer([always("count", whole()), always("last_created_at", instant())]);
    let active = whole().about(
        "Tokens that were made in this month of the calendar, in UTC, and older ones that were read by \
         themselves, detokenized or updated in it, each once.",
    );
    let report = answer([
        always("monthly_active_tokens", active),
        always("total_tokens", total()),
        always("metrics_by_type", map(metrics)),
    ]);
    let usage = answer([always("total_tokens", total()), always("token_report", report)]);
    let last_created_at = Timestamp { unix_ms: 1_793_525_400_000 };
    let card = TypeUsage { token_type: TokenType::Card, count: 12, last_created_at };
    let example = Usage { types: vec![card], created: 3, active: 4 };
    vec![("TenantUsage", usage.examples([json!(body(&example))]))]
}

pub(crate) fn get() -> Description {
    operation(Tag::Tenant, "Get the usage").answer(
        200,
        "How many tokens there are, and how many were used this month.",
        named("TenantUsage"),
    )
}
