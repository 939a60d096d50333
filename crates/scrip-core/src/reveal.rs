//! Builds the view of a token that a caller may see: the last step before a response.

mod intent_view;

pub(crate) use self::intent_view::{IntentReader, token_intent_view};

use std::{borrow::Cow, collections::BTreeSet};

use scrip_expression::{ExpressionError, Scope, Template, value_cost};
use serde_json::Value;

use crate::{
    Error, Timestamp, Vault,
    card::{self, CardDetails, TokenType, bank, bin_data::BinData},
    disclosure::{hides_marked, shows_fingerprint, withholds_typed},
    expression::compilation::{ReplayableRandom, compile_mask},
    policy::{Caller, Permit},
    token::{
        Cvc, DroppedAttributes, StoredToken, TokenBody, TokenDetail, TokenView, ViewPermissions,
        VisibleData, body::cvc_place,
    },
    types::{Permission, Plaintext, Transform},
    work_meter::{EvaluationAttempt, EvaluationInput, WorkMeter},
};

/// The reader of a view.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Audience<'a> {
    /// The caller of this request.
    Caller { vault: &'a Vault, now: Timestamp },
    /// A stored response. It never contains the CVC, but also contains the data for a caller with a
    /// weaker right.
    StoredResponse { bins: &'a BinData },
}

impl<'a> Audience<'a> {
    fn bins(self) -> &'a BinData {
        match self {
            Self::Caller { vault, .. } => &vault.bin_data,
            Self::StoredResponse { bins } => bins,
        }
    }
}

/// Decrypts a token and builds the view that the permit allows. Large tokens are opened outside of
/// the async workers.
pub(crate) fn reveal(
    permit: &Permit,
    stored: &StoredToken,
    audience: Audience<'_>,
) -> Result<TokenView, Error> {
    let build = |body| build_view(permit, stored, body, audience);
    TokenBody::open_in_step(permit.caller().work(), permit.tenant(), &stored.record, build)
}

/// As [`reveal`], with a body that is already decrypted, for a token that was just written.
pub(crate) fn build_view(
    permit: &Permit,
    stored: &StoredToken,
    body: TokenBody,
    audience: Audience<'_>,
) -> Result<TokenView, Error> {
    let transform = shown_transform(permit, &body);
    let cvc = match (audience, &stored.cvc) {
        (Audience::Caller { vault, now }, Some(cvc)) if transform == Transform::Reveal => {
            let place = cvc_place(permit.tenant().id, &stored.record.id, cvc.expires_at);
            cvc.open(&vault.epoch_keys, &place, now)?
        }
        (Audience::Caller { .. } | Audience::StoredResponse { .. }, _) => None,
    };
    let mut view = outline_view(permit.caller(), stored, body.is_marked);
    if hides_marked_from(permit, transform, &body) {
        return Ok(TokenView { expires_at: stored.record.expires_at, ..view });
    }
    let token_type = stored.record.token_type;
    let masked = masked_for_audience(permit.caller(), transform, token_type, &body, audience)?;
    // A stored response may be replayed to a caller with a weaker right.
    let is_revealed = transform == Transform::Reveal && matches!(audience, Audience::Caller { .. });
    let shows_details = is_revealed || !body.withheld_details;
    let find_details =
        || card::card_details(body.data.expose(), audience.bins(), permit.tenant().kind);
    let card = (token_type.is_card() && shows_details).then(find_details).flatten();
    let mut detail = build_detail(stored, body, card, transform, masked, cvc);
    detail.bank = detail.bank.filter(|_| shows_details);
    detail.fingerprint_expression =
        detail.fingerprint_expression.filter(|_| view.fingerprint.is_some());
    view.shown_by.limiting.push(permit.permission());
    // Data that the caller did not send. Without it, the view has nothing that needs the right to read.
    if permit.is_limited_to_read() && detail.visible.data.is_some() {
        view.shown_by.limiting.push(Permission::TokenRead);
    }
    view.detail = Some(detail);
    Ok(view)
}

/// The transform of the permit, or a mask if the data is withheld from the caller. A proxied call uses
/// the data, and the caller does not see it.
fn shown_transform(permit: &Permit, body: &TokenBody) -> Transform {
    let is_withheld = permit.permission() != Permission::TokenUse
        && withholds_typed(permit.caller(), body.typed_at());
    if is_withheld { permit.transform().min(Transform::Mask) } else { permit.transform() }
}

/// Whether the response shows a marked token only by its id, type, containers and expiry. A page
/// would otherwise read the text of a hosted field when it stores or changes it. An access session
/// that a backend allowed to read the token in clear reads it; a proxied call uses the data.
fn hides_marked_from(permit: &Permit, transform: Transform, body: &TokenBody) -> bool {
    let reads_clear = transform == Transform::Reveal
        && matches!(permit.permission(), Permission::TokenRead | Permission::TokenSearch);
    let uses = permit.permission() == Permission::TokenUse;
    hides_marked(permit.caller(), body.is_marked) && !reads_clear && !uses
}

/// The view of a token that a create request found. It has detail only for a caller that may read
/// the token. It shows no more than the weaker of the two rights: to read, and to create or update.
pub(crate) fn reveal_existing(
    permit: &Permit,
    stored: &StoredToken,
    audience: Audience<'_>,
) -> Result<TokenView, Error> {
    let caller = permit.caller();
    let Ok(read) = caller.permit(Permission::TokenRead, &stored.record) else {
        let outline = |body: TokenBody| Ok(outline_view(caller, stored, body.is_marked));
        return TokenBody::open_in_step(caller.work(), permit.tenant(), &stored.record, outline);
    };
    let weaker = if read.transform() <= permit.transform() { &read } else { permit };
    let mut view = reveal(weaker, stored, audience)?;
    view.shown_by.limiting = vec![permit.permission(), Permission::TokenRead];
    Ok(view)
}

/// A view that states only that the token exists.
pub(crate) fn outline_view(caller: &Caller, stored: &StoredToken, is_marked: bool) -> TokenView {
    let record = &stored.record;
    let has_fingerprint =
        shows_fingerprint(caller, record.token_type) && !hides_marked(caller, is_marked);
    TokenView {
        id: record.id.clone(),
        tenant_id: caller.tenant().id,
        token_type: record.token_type,
        fingerprint: record.fingerprint.filter(|_| has_fingerprint),
        containers: record.containers.clone(),
        expires_at: None,
        detail: None,
        shown_by: ViewPermissions::default(),
    }
}

/// The masked data for a response. A mask that cannot be evaluated, or exceeds the work budget of the
/// request, shows no data: one caller wrote the mask, another one may have patched the data, and requests
/// of others must not fail because of them.
pub(crate) fn mask_within_budget(
    work: &WorkMeter,
    token_type: TokenType,
    body: &TokenBody,
) -> Result<Option<Plaintext>, Error> {
    let masked = apply_mask(work, EvaluationInput::Hidden, token_type, body);
    work.check()?;
    Ok(masked.ok().flatten())
}

/// The masked data, if the audience needs it.
fn masked_for_audience(
    caller: &Caller,
    transform: Transform,
    token_type: TokenType,
    body: &TokenBody,
    audience: Audience<'_>,
) -> Result<Option<Plaintext>, Error> {
    if body.withheld_details {
        return Ok(None);
    }
    match (transform, audience) {
        (Transform::Redact, _) | (Transform::Reveal, Audience::Caller { .. }) => Ok(None),
        (Transform::Mask, _) | (Transform::Reveal, Audience::StoredResponse { .. }) => {
            mask_within_budget(caller.work(), token_type, body)
        }
    }
}

fn build_detail(
    stored: &StoredToken,
    mut body: TokenBody,
    card: Option<CardDetails>,
    transform: Transform,
    masked: Option<Plaintext>,
    cvc: Option<Cvc>,
) -> TokenDetail {
    let record = &stored.record;
    let token_type = record.token_type;
    let data = body.data.expose();
    let (card, network_token) =
        if token_type == TokenType::NetworkToken { (None, card) } else { (card, None) };
    let bank = (token_type == TokenType::Bank).then(|| bank::bank_details(data)).flatten();
    let visible = match transform {
        Transform::Redact => VisibleData { transform, data: None, cvc: None, masked: None },
        Transform::Mask => VisibleData { transform, data: masked, cvc: None, masked: None },
        Transform::Reveal => {
            let data = Some(std::mem::take(&mut body.data));
            VisibleData { transform, data, cvc, masked }
        }
    };
    let default_indexes = || {
        let indexes = token_type.default_indexes();
        (!indexes.is_empty()).then_some(Cow::Borrowed(indexes))
    };
    let default_mask = || token_type.default_mask().map(Cow::Borrowed);
    TokenDetail {
        visible,
        mask: body.mask.take().map(Cow::Owned).or_else(default_mask),
        card,
        network_token,
        bank,
        metadata: body.metadata.take(),
        search_indexes: body.search_indexes.take().map(Cow::Owned).or_else(default_indexes),
        fingerprint_expression: record.fingerprint.map(|_| {
            let default_expression = || Cow::Borrowed(token_type.default_fingerprint_expression());
            body.fingerprint_expression.take().map_or_else(default_expression, Cow::Owned)
        }),
        expires_at: record.expires_at,
        created_by: record.created_by,
        created_at: record.created_at,
        modified: record.modified,
        dropped_attributes: DroppedAttributes::default(),
    }
}

/// The masked data; `None` without a mask, and for a mask that is withheld as a whole.
///
/// One caller writes the mask, and another caller sees its result. For a card, the input of the
/// mask contains only BIN and last four, so no mask can show more.
pub(crate) fn apply_mask(
    work: &WorkMeter,
    visibility: EvaluationInput,
    token_type: TokenType,
    body: &TokenBody,
) -> Result<Option<Plaintext>, ExpressionError> {
    let input = replace_card_number(token_type, &body.data, card::mask_number);
    let random = ReplayableRandom::unseeded();
    let evaluate = |template: &Template| {
        let attempt = work.run(visibility, |work_max| {
            let scope = Scope::new(input.expose(), None).with_host_functions(&random);
            let scope = scope.with_work_limit(work_max);
            EvaluationAttempt { result: template.evaluate(&scope), spent: scope.spent_work() }
        });
        attempt.result
    };
    if let Some(mask) = &body.mask {
        let shown_mask = without_withheld_leaves(work, mask, &body.withheld.mask_leaves);
        if shown_mask.is_null() {
            return Ok(None);
        }
        return Ok(Some(Plaintext::new(evaluate(&compile_mask(work, &shown_mask)?)?)));
    }
    let Some(template) = token_type.default_mask_template() else { return Ok(None) };
    let mut masked = evaluate(template)?;
    if let Value::Object(object) = &mut masked {
        object.retain(|_, value| !value.is_null());
    }
    hide_unmasked_secret(token_type, &body.data, &mut masked);
    Ok(Some(Plaintext::new(masked)))
}

/// The mask with null in place of the withheld leaves.
fn without_withheld_leaves<'m>(
    work: &WorkMeter,
    mask: &'m Value,
    withheld: &BTreeSet<String>,
) -> Cow<'m, Value> {
    if withheld.is_empty() {
        return Cow::Borrowed(mask);
    }
    work.charge(value_cost(mask));
    Cow::Owned(copy_shown_leaves(mask, withheld))
}

fn copy_shown_leaves(mask: &Value, withheld: &BTreeSet<String>) -> Value {
    match mask {
        Value::String(source) if withheld.contains(source) => Value::Null,
        Value::Array(items) => items.iter().map(|it| copy_shown_leaves(it, withheld)).collect(),
        Value::Object(members) => {
            let copy_member =
                |(name, it): (&String, _)| (name.clone(), copy_shown_leaves(it, withheld));
            members.iter().map(copy_member).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => mask.clone(),
    }
}

/// The data with a replaced card number, for expressions with results that other callers see.
pub(crate) fn replace_card_number(
    token_type: TokenType,
    data: &Plaintext,
    replace: impl FnOnce(&str) -> String,
) -> Plaintext {
    let mut replaced = data.duplicate();
    if token_type.is_card() {
        let number = match (replaced.expose_mut(), token_type.secret_property()) {
            (value, None) => Some(value),
            (value, Some(property)) => value.get_mut(property),
        };
        if let Some(Value::String(number)) = number {
            *number = replace(number);
        }
    }
    replaced
}

/// Hides the secret completely if the default mask would hide nothing, such as the last four of a
/// four-digit account.
fn hide_unmasked_secret(token_type: TokenType, data: &Plaintext, masked: &mut Value) {
    let (secret, masked) = match token_type.secret_property() {
        None => (Some(data.expose()), Some(masked)),
        Some(property) => (data.expose().get(property), masked.get_mut(property)),
    };
    if let (Some(secret), Some(masked)) = (secret, masked)
        && secret == masked
    {
        let length = secret.as_str().map_or(0, |it| it.chars().count());
        *masked = Value::String("X".repeat(length));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(
        token_type: TokenType,
        data: Value,
        custom_mask: Option<Value>,
        expected: Option<Value>,
    ) {
        let body =
            TokenBody { data: Plaintext::new(data), mask: custom_mask, ..TokenBody::default() };
        let masked =
            apply_mask(&WorkMeter::default(), EvaluationInput::Known, token_type, &body).unwrap();
        let masked = masked.map(Plaintext::into_exposed);
        assert_eq!(masked, expected);
    }

    #[test]
    fn default_masks_show_only_last_four() {
        let card = json!({"number": "4242424242424242", "expiration_month": 7});
        let masked = json!({"number": "XXXXXXXXXXXX4242", "expiration_month": 7});
        check(TokenType::Card, card, None, Some(masked));
        check(TokenType::Token, json!("anything"), None, None);
        check(
            TokenType::SocialSecurityNumber,
            json!("123-45-6789"),
            None,
            Some(json!("XXX-XX-6789")),
        );
        check(
            TokenType::CardNumber,
            json!("4242424242424242"),
            None,
            Some(json!("XXXXXXXXXXXX4242")),
        );
    }

    #[test]
    fn default_mask_that_would_hide_nothing_hides_all() {
        check(TokenType::UsBankAccountNumber, json!("1234"), None, Some(json!("XXXX")));
        check(TokenType::UsBankAccountNumber, json!("12345"), None, Some(json!("X2345")));
        let bank = json!({"routing_number": "021000021", "account_number": "12"});
        let masked = json!({"routing_number": "021000021", "account_number": "XX"});
        check(TokenType::Bank, bank, None, Some(masked));
    }

    #[test]
    fn mask_never_shows_more_of_a_card_than_bin_and_last_four() {
        let card = || json!({"number": "4242424242424242"});
        let visible = || Some(json!("42424242XXXX4242"));
        check(TokenType::Card, card(), Some(json!("{{ data.number }}")), visible());
        check(
            TokenType::CardNumber,
            json!("4242424242424242"),
            Some(json!("{{ data }}")),
            visible(),
        );
        let mask = Some(json!(["{{ data | stringify }}", "{{ data.number | reveal_last: 16 }}"]));
        let expected = json!([r#"{"number":"42424242XXXX4242"}"#, "42424242XXXX4242"]);
        check(TokenType::Card, card(), mask, Some(expected));
    }

    #[test]
    fn withheld_leaf_is_null_and_a_withheld_mask_shows_no_data() {
        let apply = |mask: Value| {
            let mut body = TokenBody { mask: Some(mask), ..TokenBody::default() };
            body.data = Plaintext::new(json!({"a": "1", "b": "2"}));
            body.withheld.mask_leaves.insert("{{ data.a }}".to_owned());
            mask_within_budget(&WorkMeter::default(), TokenType::Token, &body)
                .unwrap()
                .map(Plaintext::into_exposed)
        };
        let shown = json!({"a": [null, "2"], "b": "2"});
        assert_eq!(apply(json!({"a": ["{{ data.a }}", "2"], "b": "{{ data.b }}"})), Some(shown));
        assert_eq!(apply(json!("{{ data.a }}")), None);
    }

    #[test]
    fn mask_that_cannot_be_evaluated_shows_no_data() {
        for mask in ["{{ data | date: '%Y' }}", "{{ 1 | divided_by: 0 }}", "{{ data | unknown }}"] {
            let data = Plaintext::new(json!("x"));
            let body = TokenBody { data, mask: Some(json!(mask)), ..TokenBody::default() };
            let masked = mask_within_budget(&WorkMeter::default(), TokenType::Token, &body);
            assert!(masked.unwrap().is_none(), "{mask}");
        }
    }

    #[test]
    fn custom_mask_is_evaluated_leaf_by_leaf() {
        let mask = Some(json!({"last": "{{ data | last4 }}", "note": "fixed"}));
        let expected = Some(json!({"last": "6789", "note": "fixed"}));
        check(TokenType::Token, json!("123456789"), mask, expected);
    }
}
