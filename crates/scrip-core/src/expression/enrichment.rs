//! `enrichments`: the BIN data of a card as an input of whole-token expressions.

use serde_json::{Map, Value, json};

use crate::{
    card::{
        CardDetails, TokenType,
        bin_data::{AuthenticationRequirement, BinData, BinSource, Funding},
    },
    token::TokenView,
};

/// The enrichments of a card. `None` for a token that is not a card, and for a vault without
/// imported BIN data: the built-in ranges have a brand but no issuer. Sandbox cards always have
/// enrichments.
pub fn enrichments(view: &TokenView, bins: &BinData) -> Option<Value> {
    let detail = view.detail.as_ref()?;
    let card = detail.card.as_ref().or(detail.network_token.as_ref())?;
    if !bins.is_loaded() && card.bin_source != BinSource::Sandbox {
        return None;
    }
    Some(json!({
        "bin_details": bin_details(card, view.token_type),
        "card_details": { "bin": card.bin, "last4": card.last4 },
    }))
}

fn bin_details(card: &CardDetails, token_type: TokenType) -> Value {
    let details = &card.bin_details;
    let number_kind = if token_type == TokenType::NetworkToken { "token" } else { "pan" };
    let country = details
        .country
        .map(|it| json!({ "alpha2": it.alpha2, "name": it.name, "numeric": it.numeric }));
    let attributes = [
        ("card_brand", details.brand.map(|it| it.as_str().into())),
        ("type", details.funding.map(|it| it.as_str().into())),
        ("prepaid", details.funding.map(|it| (it == Funding::Prepaid).into())),
        ("country", country),
        (
            "authentication",
            details.authentication().map(AuthenticationRequirement::as_str).map(Value::from),
        ),
        ("bin_length", Some(card.bin.len().into())),
        ("pan_or_token", Some(number_kind.into())),
    ];
    let attributes = attributes.into_iter().filter_map(|(name, it)| Some((name.to_owned(), it?)));
    Value::Object(attributes.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        Timestamp,
        card::{
            self,
            bin_data::{BinDetails, BinRow, BinTable, Brand, Country, PrefixRange},
        },
        token::{DroppedAttributes, TokenDetail, ViewPermissions, VisibleData},
        types::{
            Containers, TenantKind, Transform,
            id::{ApplicationId, TenantId, TokenId},
        },
    };

    fn view(token_type: TokenType, bins: &BinData, kind: TenantKind) -> TokenView {
        let data = json!({"number": "4242424242424242"});
        let details = card::card_details(&data, bins, kind);
        let details = details.filter(|_| token_type.is_card());
        let (card, network_token) =
            if token_type == TokenType::NetworkToken { (None, details) } else { (details, None) };
        let transform = Transform::Redact;
        let visible = VisibleData { transform, data: None, cvc: None, masked: None };
        let detail = TokenDetail {
            visible,
            mask: None,
            card,
            network_token,
            bank: None,
            metadata: None,
            search_indexes: None,
            fingerprint_expression: None,
            expires_at: None,
            created_by: ApplicationId(Uuid::nil()),
            created_at: Timestamp { unix_ms: 0 },
            modified: None,
            dropped_attributes: DroppedAttributes::default(),
        };
        TokenView {
            id: TokenId::parse("a-token").unwrap(),
            tenant_id: TenantId(Uuid::nil()),
            token_type,
            fingerprint: None,
            containers: Containers::parse(["/"]).unwrap(),
            expires_at: None,
            detail: Some(detail),
            shown_by: ViewPermissions::default(),
        }
    }

    #[test]
    fn enrichments_need_imported_bin_data() {
        let bins = BinData::default();
        let enrichments_for = |token_type, bins: &BinData| {
            enrichments(&view(token_type, bins, TenantKind::Production), bins)
        };
        assert_eq!(enrichments_for(TokenType::Card, &bins), None);

        let (brand, funding) = (Some(Brand::Visa), Some(Funding::Prepaid));
        let details =
            BinDetails { brand, funding, country: Country::parse("FR"), ..BinDetails::default() };
        let range = PrefixRange::from_prefix("424242").unwrap();
        bins.replace_imported(Some(BinTable::build(vec![BinRow { range, details }])));
        let country = json!({"alpha2": "FR", "name": "France", "numeric": "250"});
        let mut bin_details = json!({"card_brand": "visa", "type": "prepaid", "prepaid": true,
            "country": country, "authentication": "sca_required", "bin_length": 8,
            "pan_or_token": "pan"});
        let card_details = json!({"bin": "42424242", "last4": "4242"});
        let expected = json!({"bin_details": bin_details, "card_details": card_details});
        assert_eq!(enrichments_for(TokenType::Card, &bins), Some(expected));
        bin_details["pan_or_token"] = "token".into();
        assert_eq!(
            enrichments_for(TokenType::NetworkToken, &bins).unwrap()["bin_details"],
            bin_details
        );
        assert_eq!(enrichments_for(TokenType::Token, &bins), None);

        // Unknown attributes are absent.
        bins.replace_imported(Some(BinTable::default()));
        let bin_details = json!({"card_brand": "visa", "bin_length": 8, "pan_or_token": "pan"});
        assert_eq!(enrichments_for(TokenType::Card, &bins).unwrap()["bin_details"], bin_details);
    }

    #[test]
    fn sandbox_card_always_has_enrichments() {
        let bins = BinData::default();
        let result = enrichments(&view(TokenType::Card, &bins, TenantKind::Test), &bins).unwrap();
        assert_eq!(result["bin_details"]["type"], "credit");
        assert_eq!(result["bin_details"]["prepaid"], false);
    }

    #[test]
    fn caller_without_read_right_sees_no_enrichments() {
        let bins = BinData::default();
        let mut view = view(TokenType::Card, &bins, TenantKind::Test);
        view.detail = None;
        assert_eq!(enrichments(&view, &bins), None);
    }
}
