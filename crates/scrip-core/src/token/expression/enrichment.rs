//! What a whole-token expression sees of a card besides the token: `enrichments`.

use serde_json::{Map, Value, json};

use crate::{
    card::{
        CardDetails,
        bin_data::{Authentication, BinData, Funding, Origin},
    },
    token::{TokenType, TokenView},
};

/// Nothing for what is no card, and for a vault whose operator imported no BIN data: the built-in
/// ranges know a brand, and no issuer. Sandbox cards have it always.
#[must_use]
pub fn of(view: &TokenView, bins: &BinData) -> Option<Value> {
    let detail = view.detail.as_ref()?;
    let card = detail.card.as_ref().or(detail.network_token.as_ref())?;
    if !bins.is_loaded() && card.origin != Origin::Sandbox {
        return None;
    }
    Some(json!({
        "bin_details": bin_details(card, view.token_type),
        "card_details": { "bin": card.bin, "last4": card.last4 },
    }))
}

fn bin_details(card: &CardDetails, token_type: TokenType) -> Value {
    let facts = &card.facts;
    let of = if token_type == TokenType::NetworkToken { "token" } else { "pan" };
    let country = facts
        .country
        .map(|it| json!({ "alpha2": it.alpha2, "name": it.name, "numeric": it.numeric }));
    let known = [
        ("card_brand", facts.brand.map(|it| it.as_str().into())),
        ("type", facts.funding.map(|it| it.as_str().into())),
        ("prepaid", facts.funding.map(|it| (it == Funding::Prepaid).into())),
        ("country", country),
        ("authentication", facts.authentication().map(Authentication::as_str).map(Value::from)),
        ("bin_length", Some(card.bin.len().into())),
        ("pan_or_token", Some(of.into())),
    ];
    let known = known.into_iter().filter_map(|(name, it)| Some((name.to_owned(), it?)));
    Value::Object(known.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::{
        card::{
            self,
            bin_data::{BinTable, Block, Brand, Country, Facts, Row},
        },
        id::{ApplicationId, TenantId, TokenId},
        policy::{TenantKind, Transform},
        time::Timestamp,
        token::{Containers, Shown, TokenDetail},
    };

    fn view(token_type: TokenType, bins: &BinData, kind: TenantKind) -> TokenView {
        let data = json!({"number": "4242424242424242"});
        let details = card::details(&data, bins, kind);
        let details = details.filter(|_| token_type.is_card());
        let (card, network_token) =
            if token_type == TokenType::NetworkToken { (None, details) } else { (details, None) };
        let transform = Transform::Redact;
        let shown = Shown { transform, data: None, cvc: None, masked: None };
        let detail = TokenDetail {
            shown,
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
        };
        TokenView {
            id: TokenId::parse("a-token").unwrap(),
            tenant_id: TenantId(Uuid::nil()),
            token_type,
            fingerprint: None,
            containers: Containers::parse(["/"]).unwrap(),
            expires_at: None,
            detail: Some(detail),
        }
    }

    #[test]
    fn there_are_some_when_bin_data_was_imported() {
        let bins = BinData::default();
        let of =
            |token_type, bins: &BinData| of(&view(token_type, bins, TenantKind::Production), bins);
        assert_eq!(of(TokenType::Card, &bins), None);

        let (brand, funding) = (Some(Brand::Visa), Some(Funding::Prepaid));
        let facts = Facts { brand, funding, country: Country::parse("FR"), ..Facts::default() };
        let range = Block::of_prefix("424242").unwrap();
        bins.replace(Some(BinTable::build(vec![Row { range, facts }])));
        let country = json!({"alpha2": "FR", "name": "France", "numeric": "250"});
        let mut bin_details = json!({"card_brand": "visa", "type": "prepaid", "prepaid": true,
            "country": country, "authentication": "sca_required", "bin_length": 8,
            "pan_or_token": "pan"});
        let card_details = json!({"bin": "42424242", "last4": "4242"});
        let expected = json!({"bin_details": bin_details, "card_details": card_details});
        assert_eq!(of(TokenType::Card, &bins), Some(expected));
        bin_details["pan_or_token"] = "token".into();
        assert_eq!(of(TokenType::NetworkToken, &bins).unwrap()["bin_details"], bin_details);
        assert_eq!(of(TokenType::Token, &bins), None);

        // What is not known is left out.
        bins.replace(Some(BinTable::default()));
        let bin_details = json!({"card_brand": "visa", "bin_length": 8, "pan_or_token": "pan"});
        assert_eq!(of(TokenType::Card, &bins).unwrap()["bin_details"], bin_details);
    }

    #[test]
    fn a_sandbox_card_has_them_always() {
        let bins = BinData::default();
        let found = of(&view(TokenType::Card, &bins, TenantKind::Test), &bins).unwrap();
        assert_eq!(found["bin_details"]["type"], "credit");
        assert_eq!(found["bin_details"]["prepaid"], false);
    }

    #[test]
    fn a_caller_that_may_not_read_the_token_sees_none() {
        let bins = BinData::default();
        let mut view = view(TokenType::Card, &bins, TenantKind::Test);
        view.detail = None;
        assert_eq!(of(&view, &bins), None);
    }
}
