//! Responses with a token: renders a token into JSON without its data, then inserts the data. The data
//! of a token is the last attribute of its object: data can be omitted or inserted into a stored
//! response, at any position of the object, without parsing the rest.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use axum::response::Response;
use scrip_core::{
    card::{
        CardDetails,
        bank::BankDetails,
        bin_data::{AuthenticationRequirement, Brand, Country, Funding},
    },
    idempotency::{
        RenderedResponse, Replay,
        response::{TokenSpan, replay::ReplayVisibility},
    },
    policy::DeduplicationBehavior,
    token::{TokenDetail, TokenView, VisibleData, WrittenToken},
    types::{Plaintext, Transform},
};
use serde_json::{Map, Value};

use crate::wire::response;

bodies! {
    /// Absent values are omitted.
    struct TokenResponseBody<'a> {
        id: &'a str,
        tenant_id: String,
        r#type: &'static str,
        fingerprint?: String,
        containers: Vec<&'a str>,
        expires_at?: String,
        #[serde(flatten, skip_serializing_if = "Option::is_none")]
        detail: Option<TokenDetailBody<'a>>,
        #[serde(rename = "_extras")]
        extras?: TokenExtrasBody,
    }

    struct TokenDetailBody<'a> {
        mask?: &'a Value,
        card?: CardDetailsBody<'a>,
        network_token?: CardDetailsBody<'a>,
        bank?: BankBody<'a>,
        metadata?: &'a BTreeMap<String, String>,
        search_indexes?: &'a [String],
        fingerprint_expression?: &'a str,
        expires_at?: String,
        created_by: String,
        created_at: String,
        modified_by?: String,
        modified_at?: String,
    }

    pub(crate) struct BankBody<'a> {
        routing_number: &'a str,
        account_number_last4?: &'a str,
    }

    /// Absent values are omitted.
    #[derive(Default)]
    struct TokenExtrasBody {
        deduplicated?: bool,
        deduplication_behavior?: &'static str,
        data_omitted?: &'static str,
        dropped_attributes?: DroppedAttributesBody,
    }

    struct DroppedAttributesBody {
        names: Vec<&'static str>,
        other_count: usize,
    }
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

bodies! {
    /// Brand, funding and authentication are null if they are not known. Other absent values are omitted.
    pub(crate) struct CardDetailsBody<'a> {
        bin: &'a str,
        last4: &'a str,
        expiration_month?: u64,
        expiration_year?: u64,
        brand: Option<&'static str>,
        funding: Option<&'static str>,
        authentication: Option<&'static str>,
        issuer_country?: CountryBody,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        additional: Vec<AdditionalBrandBody>,
    }

    struct CountryBody {
        alpha2: &'static str,
        name: &'static str,
        numeric: &'static str,
    }

    struct AdditionalBrandBody {
        brand: &'static str,
        funding?: &'static str,
        authentication?: &'static str,
    }
}

pub(crate) fn card_details_body(details: &CardDetails) -> CardDetailsBody<'_> {
    let bin_details = &details.bin_details;
    let authentication = bin_details.authentication().map(AuthenticationRequirement::as_str);
    let additional = bin_details.additional.iter().map(|it| AdditionalBrandBody {
        brand: it.brand.as_str(),
        funding: it.funding.map(Funding::as_str),
        // The requirement depends on the issuer, which is the same for all brands of the card.
        authentication,
    });
    CardDetailsBody {
        bin: &details.bin,
        last4: &details.last4,
        expiration_month: details.expiration_month,
        expiration_year: details.expiration_year,
        brand: bin_details.brand.map(Brand::as_str),
        funding: bin_details.funding.map(Funding::as_str),
        authentication,
        issuer_country: bin_details.country.map(country_body),
        additional: additional.collect(),
    }
}

fn country_body(country: &Country) -> CountryBody {
    CountryBody { alpha2: country.alpha2, name: country.name, numeric: country.numeric }
}

pub(crate) fn with_token(rendered: RenderedResponse, token: TokenView) -> Response {
    with_tokens(rendered, vec![token])
}

/// Builds a response, and inserts the visible data of the tokens.
pub(crate) fn with_tokens(rendered: RenderedResponse, tokens: Vec<TokenView>) -> Response {
    let mut visible: Vec<_> = tokens.into_iter().map(|it| it.detail.map(|it| it.visible)).collect();
    let inserts = rendered.tokens.into_iter().map(|span| {
        let data = visible
            .get_mut(span.write_index)
            .and_then(Option::take)
            .and_then(VisibleData::into_data);
        (span, data.map_or(TokenInsert::Nothing, TokenInsert::Data))
    });
    response::json(rendered.status, insert_token_data(&rendered.body, inserts))
}

/// Builds a replayed response, with the data that its caller may still read.
pub(crate) fn from_replay(replay: Replay) -> Response {
    let inserts = replay.tokens.into_iter().map(|it| {
        let insert = match it.visibility {
            ReplayVisibility::Full(Some(data)) => TokenInsert::Data(data),
            ReplayVisibility::Full(None) => TokenInsert::Nothing,
            ReplayVisibility::Outline => TokenInsert::Outline,
        };
        (it.span, insert)
    });
    let body = insert_token_data(&replay.body, inserts);
    response::from_rendered(RenderedResponse::without_tokens(replay.status, body))
}

/// How the object of a token in the body changes.
enum TokenInsert {
    Nothing,
    Data(Plaintext),
    /// Only the attributes of [`reduce_to_outline`] remain.
    Outline,
}

/// Inserts the data of tokens into their objects. `inserts` are in the order of the body.
fn insert_token_data(
    body: &str,
    inserts: impl Iterator<Item = (TokenSpan, TokenInsert)>,
) -> String {
    let mut text = String::with_capacity(body.len().saturating_add(256));
    let mut copied_to = 0;
    let text_between = |from: usize, to: usize| body.get(from..to).unwrap_or_default();
    for (span, insert) in inserts {
        let brace = span.end.saturating_sub(1);
        match insert {
            TokenInsert::Nothing => continue,
            TokenInsert::Data(data) => {
                text.push_str(text_between(copied_to, brace));
                text.push_str(",\"data\":");
                // Serializing into memory cannot fail. If it did, the response would be invalid
                // JSON, not false data.
                text.push_str(&serde_json::to_string(data.expose()).unwrap_or_default());
                copied_to = brace;
            }
            TokenInsert::Outline => {
                text.push_str(text_between(copied_to, span.start));
                text.push_str(&reduce_to_outline(text_between(span.start, span.end)));
                copied_to = span.end;
            }
        }
    }
    text.push_str(text_between(copied_to, body.len()));
    text
}

/// Reduces a token to the attributes that identify it.
fn reduce_to_outline(object: &str) -> String {
    const OUTLINE_ATTRIBUTES: [&str; 6] =
        ["id", "tenant_id", "type", "fingerprint", "containers", "_extras"];
    let mut object: Map<String, Value> = serde_json::from_str(object).unwrap_or_default();
    object.retain(|name, _| OUTLINE_ATTRIBUTES.contains(&name.as_str()));
    Value::Object(object).to_string()
}
