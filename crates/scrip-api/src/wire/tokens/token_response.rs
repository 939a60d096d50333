//! Responses with a token: renders a token into JSON, without its data.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use scrip_core::{
    card::bank::BankDetails,
    idempotency::RenderedResponse,
    policy::DeduplicationBehavior,
    token::{TokenDetail, TokenView, WrittenToken},
    types::Transform,
};
use serde::Serialize;
use serde_json::Value;

use crate::wire::{
    response,
    tokens::card::{CardDetailsBody, card_details_body},
};

/// Absent values are omitted.
#[derive(Serialize)]
struct TokenResponseBody<'a> {
    id: &'a str,
    tenant_id: String,
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    containers: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    detail: Option<TokenDetailBody<'a>>,
    #[serde(rename = "_extras", skip_serializing_if = "Option::is_none")]
    extras: Option<TokenExtrasBody>,
}

#[derive(Serialize)]
struct TokenDetailBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    card: Option<CardDetailsBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_token: Option<CardDetailsBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bank: Option<BankBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search_indexes: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint_expression: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    created_by: String,
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified_at: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct BankBody<'a> {
    routing_number: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    account_number_last4: Option<&'a str>,
}

/// Absent values are omitted.
#[derive(Default, Serialize)]
struct TokenExtrasBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    deduplicated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deduplication_behavior: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_omitted: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_attributes: Option<DroppedAttributesBody>,
}

#[derive(Serialize)]
struct DroppedAttributesBody {
    names: Vec<&'static str>,
    other_count: usize,
}

/// Why a response with the transform `mask` has no data.
const NO_MASK: &str = "the caller may see the data masked, and the token has no mask";

impl TokenExtrasBody {
    fn with_deduplication(behavior: Option<DeduplicationBehavior>) -> Self {
        Self {
            deduplicated: Some(behavior.is_some()),
            deduplication_behavior: behavior.map(DeduplicationBehavior::as_str),
            ..Self::default()
        }
    }

    /// Adds what only a caller gets that sees the token.
    fn with_detail(self, detail: Option<&TokenDetail>) -> Self {
        let Some(detail) = detail else { return self };
        let visible = &detail.visible;
        let lacks_mask =
            visible.transform == Transform::Mask && visible.data.is_none() && detail.mask.is_none();
        let dropped = Some(&detail.dropped_attributes).filter(|it| !it.is_empty());
        Self {
            data_omitted: lacks_mask.then_some(NO_MASK),
            dropped_attributes: dropped.map(|it| DroppedAttributesBody {
                names: it.names.clone(),
                other_count: it.other_count,
            }),
            ..self
        }
    }

    fn is_empty(&self) -> bool {
        self.deduplicated.is_none() && self.data_omitted.is_none()
    }
}

/// The response of Create Token, without the data.
pub(crate) fn render_created(written: &WrittenToken) -> RenderedResponse {
    render(201, &written.token, TokenExtrasBody::with_deduplication(written.deduplicated))
}

/// The response of Update Token, without the data.
pub(crate) fn render_updated(written: &WrittenToken) -> RenderedResponse {
    let extras = written.deduplicated.map(|it| TokenExtrasBody::with_deduplication(Some(it)));
    render(200, &written.token, extras.unwrap_or_default())
}

/// The response of Get Token, without the data.
pub(crate) fn render_token(token: &TokenView) -> RenderedResponse {
    render(200, token, TokenExtrasBody::default())
}

fn render(status: u16, token: &TokenView, extras: TokenExtrasBody) -> RenderedResponse {
    let extras = extras.with_detail(token.detail.as_ref());
    let detail = token.detail.as_ref().map(|it| TokenDetailBody {
        mask: it.mask.as_deref(),
        card: it.card.as_ref().map(card_details_body),
        network_token: it.network_token.as_ref().map(card_details_body),
        bank: it.bank.as_ref().map(bank_body),
        metadata: it.metadata.as_ref(),
        search_indexes: it.search_indexes.as_deref(),
        fingerprint_expression: it.fingerprint_expression.as_deref(),
        expires_at: it.expires_at.map(|it| it.to_string()),
        created_by: it.created_by.to_string(),
        created_at: it.created_at.to_string(),
        modified_by: it.modified.map(|it| it.by.to_string()),
        modified_at: it.modified.map(|it| it.at.to_string()),
    });
    let body = TokenResponseBody {
        id: token.id.as_str(),
        tenant_id: token.tenant_id.to_string(),
        r#type: token.token_type.as_str(),
        fingerprint: token.fingerprint.map(|it| it.to_string()),
        containers: token.containers.iter().map(|it| it.as_str()).collect(),
        expires_at: token.expires_at.map(|it| it.to_string()),
        detail,
        extras: (!extras.is_empty()).then_some(extras),
    };
    RenderedResponse::for_token(status, response::render(status, &body).body)
}

pub(crate) fn bank_body(details: &BankDetails) -> BankBody<'_> {
    BankBody {
        routing_number: &details.routing_number,
        account_number_last4: details.account_number_last4.as_deref(),
    }
}
