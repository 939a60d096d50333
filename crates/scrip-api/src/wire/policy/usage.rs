//! JSON of a tenant's usage. The total appears twice, because clients read different attributes.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use scrip_core::{idempotency::RenderedResponse, token::TenantUsage};
use serde::Serialize;

use crate::wire::response::render;

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
