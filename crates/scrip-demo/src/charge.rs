//! The charge: the shop's backend sends it through the proxy of the vault, with references instead
//! of the card. Only the provider receives the number.

use axum::body::Body;
use scrip_api::{problem::Problem, wire::response};
use scrip_core::Error;
use serde_json::{Value, json};

use crate::backend::{
    BackendFuture, KeyOwner, PaymentRequest, ShopBackend, VaultRequest, parse_session_id,
};

const PROXY_NAME: &str = "Demo provider";
/// Results of 3-D Secure with which the shop charges.
const CHARGEABLE: [&str; 2] = ["successful", "attempted"];

/// Charges the card of an authenticated session, and removes the card from the vault.
pub(super) fn charge<'a>(shop: &'a ShopBackend<'a>, body: Body) -> BackendFuture<'a> {
    Box::pin(async move {
        let payment: PaymentRequest = shop.read_json(body).await?;
        let id = parse_session_id(&payment.session_id)?;
        let path = format!("/3ds/sessions/{id}");
        let session = shop.send(VaultRequest::new("GET", &path)).await?.body;
        let intent = read_chargeable_intent(&session)?;
        let proxy_key = shop.demo.proxy_key.get_or_try_init(|| save_proxy(shop)).await?;
        let body = charge_request(&payment.session_id, intent, &session);
        // The provider key is in the configuration of the proxy. The shop does not have it.
        let provider_key = "Bearer {{ config: provider_key }}";
        // A session is charged once, also if the browser repeats its request.
        let idempotency_key = format!("charge-{id}");
        let request = VaultRequest::new("POST", "/proxy/charges")
            .with_header("bt-proxy-key", proxy_key)
            .with_header("authorization", provider_key)
            .with_header("bt-idempotency-key", &idempotency_key)
            .with_body(body.clone());
        let answer = shop.send(request).await?;
        // A CVC must not be stored after the authorization, whatever its result is.
        let path = format!("/token-intents/{intent}");
        shop.send(VaultRequest::new("DELETE", &path)).await?;
        let charge_id = answer.body.get("id").and_then(Value::as_str);
        let exchange = json!({
            "request": {
                "method": "POST",
                "path": "/proxy/charges",
                "body": body,
            },
            "status": answer.status,
            "destination_status": answer.destination_status,
            "answer": answer.body,
            "provider_page": charge_id.map(|it| format!("{}/charges/{it}", shop.demo.provider.url)),
        });
        Ok(response::json(200, exchange.to_string()))
    })
}

/// The browser decides neither the card nor the result of the bank: both come from the vault.
fn read_chargeable_intent(session: &Value) -> Result<&str, Problem> {
    let status = session.pointer("/authentication/authentication_status").and_then(Value::as_str);
    let intent = session.get("token_intent_id").and_then(Value::as_str);
    let refused = || Problem::Malformed("this session is not authenticated".to_owned());
    intent.filter(|_| status.is_some_and(|it| CHARGEABLE.contains(&it))).ok_or_else(refused)
}

/// The expressions name attributes of the card. The vault replaces them on the way.
fn charge_request(reference: &str, intent: &str, session: &Value) -> Value {
    let card =
        |attribute: &str| format!("{{{{ token_intent: {intent} | json: '$.data.{attribute}' }}}}");
    let authentication = |name: &str| session.pointer(&format!("/authentication/{name}")).cloned();
    json!({
        "amount": 2850,
        "currency": "EUR",
        "reference": reference,
        "card": {
            "number": card("number"),
            "expiration_month": card("expiration_month"),
            "expiration_year": card("expiration_year"),
            "cvc": card("cvc"),
        },
        "threeds": {
            "eci": authentication("eci"),
            "authentication_value": authentication("authentication_value"),
        },
    })
}

/// Creates the proxy to the provider, or updates the proxy of an earlier start: the provider has
/// another port after each start. Returns the key of the proxy.
async fn save_proxy(shop: &ShopBackend<'_>) -> Result<String, Problem> {
    let provider = &shop.demo.provider;
    let settings = json!({
        "name": PROXY_NAME,
        "destination_url": provider.url,
        "configuration": { "provider_key": provider.api_key },
    });
    let find =
        VaultRequest::new("GET", "/proxies?name=Demo+provider").with_key(KeyOwner::Management);
    let found = shop.send(find).await?.body;
    let existing = found.pointer("/data/0/id").and_then(Value::as_str);
    let (method, path) = match existing {
        Some(id) => ("PUT", format!("/proxies/{id}")),
        None => ("POST", "/proxies".to_owned()),
    };
    let save = VaultRequest::new(method, &path).with_key(KeyOwner::Management).with_body(settings);
    let saved = shop.send(save).await?;
    let key = saved.body.get("key").and_then(Value::as_str).map(str::to_owned);
    key.ok_or_else(|| Problem::Failed(Error::Internal("the proxy was not saved".into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_authenticated_sessions_of_an_intent_are_charged() {
        let session = |status: &str| {
            json!({
                "token_intent_id": "intent-1",
                "authentication": { "authentication_status": status },
            })
        };
        for status in ["successful", "attempted"] {
            assert_eq!(read_chargeable_intent(&session(status)).unwrap(), "intent-1");
        }
        for status in ["failed", "rejected", "unavailable", "challenge", ""] {
            assert!(read_chargeable_intent(&session(status)).is_err(), "{status}");
        }
        let without_intent = json!({ "authentication": { "authentication_status": "successful" } });
        assert!(read_chargeable_intent(&without_intent).is_err());
        assert!(read_chargeable_intent(&json!({ "token_intent_id": "intent-1" })).is_err());
    }

    #[test]
    fn charge_has_references_instead_of_the_card() {
        let session = json!({ "authentication": { "eci": "05", "authentication_value": "AAA" } });
        let request = charge_request("session-1", "intent-1", &session);
        assert_eq!(
            request["card"]["number"],
            "{{ token_intent: intent-1 | json: '$.data.number' }}"
        );
        assert_eq!(request["threeds"]["eci"], "05");
    }
}
