//! The shop's backend: it defines the purchase and has the private key.

use std::{net::IpAddr, sync::Arc};

use axum::{Router, body::Body, extract::Request, response::Response};
use http_body_util::BodyExt;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use jiff::{Timestamp, tz::TimeZone};
use scrip_api::{
    app::App, middleware::body::read_body, pipeline, problem::Problem, wire::response,
};
use scrip_core::{Error, policy::rate_limit::ClientNetwork, types::id::ThreeDsSessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::shop::Demo;

/// More than the page ever sends.
const BODY_BYTES_MAX: usize = 4 * 1024;

pub(super) type BackendHandler = for<'a> fn(&'a ShopBackend<'a>, Body) -> BackendFuture<'a>;
pub(super) type BackendFuture<'a> =
    std::pin::Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send + 'a>>;

pub(super) struct ShopBackend<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) demo: &'a Demo,
    /// The API of the vault.
    pub(super) router: &'a Router,
    pub(super) client: IpAddr,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PayerRequest {
    session_id: String,
    name: String,
    email: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PaymentRequest {
    pub(super) session_id: String,
}

/// The API key of a request: the shop's own, or the key that manages its proxy.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyOwner {
    Private,
    Management,
}

/// A request of the backend to the vault.
pub(super) struct VaultRequest<'a> {
    method: &'static str,
    path: &'a str,
    key: KeyOwner,
    headers: Vec<(&'static str, &'a str)>,
    body: Option<Value>,
}

impl<'a> VaultRequest<'a> {
    pub(super) fn new(method: &'static str, path: &'a str) -> Self {
        Self { method, path, key: KeyOwner::Private, headers: Vec::new(), body: None }
    }

    pub(super) fn with_key(mut self, key: KeyOwner) -> Self {
        self.key = key;
        self
    }

    pub(super) fn with_header(mut self, name: &'static str, value: &'a str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(super) fn with_body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }
}

/// The response of the vault. Its body is null if it is no JSON.
pub(super) struct VaultResponse {
    pub(super) status: u16,
    /// The status of the provider, if the provider answered.
    pub(super) destination_status: Option<String>,
    pub(super) body: Value,
}

/// Returns the settings of the page.
pub(super) fn settings<'a>(shop: &'a ShopBackend<'a>, _: Body) -> BackendFuture<'a> {
    Box::pin(async {
        let key = shop.demo.public_key.as_str();
        Ok(response::json(200, json!({ "public_key": key }).to_string()))
    })
}

pub(super) fn authenticate<'a>(shop: &'a ShopBackend<'a>, body: Body) -> BackendFuture<'a> {
    Box::pin(async move {
        let payer: PayerRequest = shop.read_json(body).await?;
        let id = parse_session_id(&payer.session_id)?;
        let body = authenticate_request(&payer, shop.app.vault.clock.now().unix_ms);
        shop.call_vault("POST", &format!("/3ds/sessions/{id}/authenticate"), Some(body)).await
    })
}

pub(super) fn challenge_result<'a>(shop: &'a ShopBackend<'a>, body: Body) -> BackendFuture<'a> {
    Box::pin(async move {
        let payment: PaymentRequest = shop.read_json(body).await?;
        let id = parse_session_id(&payment.session_id)?;
        shop.call_vault("GET", &format!("/3ds/sessions/{id}/challenge-result"), None).await
    })
}

/// The purchase comes from the shop; name and email of the payer come from the page.
fn authenticate_request(payer: &PayerRequest, unix_ms: i64) -> Value {
    let now = Timestamp::from_millisecond(unix_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    let date = now.to_zoned(TimeZone::UTC).strftime("%Y%m%d%H%M%S").to_string();
    json!({
        "authentication_category": "payment",
        "authentication_type": "payment-transaction",
        "purchase_info": {
            "amount": "2850", "currency": "978", "exponent": "2", "date": date,
            "transaction_type": "purchase",
        },
        "merchant_info": {
            "name": "Corner Coffee", "mid": "9876543210001", "acquirer_bin": "000000999",
            "country_code": "276", "category_code": "5499",
        },
        "requestor_info": {
            "id": "corner-coffee", "name": "Corner Coffee", "url": "https://coffee.example",
        },
        "cardholder_info": { "name": payer.name, "email": payer.email },
    })
}

pub(super) fn parse_session_id(text: &str) -> Result<ThreeDsSessionId, Problem> {
    ThreeDsSessionId::parse(text).ok_or(Problem::Failed(Error::NotFound))
}

impl ShopBackend<'_> {
    pub(super) async fn read_json<T: for<'de> Deserialize<'de>>(
        &self,
        mut body: Body,
    ) -> Result<T, Problem> {
        let mut reservation = self
            .app
            .memory
            .keyless_bodies
            .start_reservation(ClientNetwork::from_address(self.client));
        let deadline = self.app.settings.limits.body_deadline;
        let bytes =
            read_body(self.app, &mut body, deadline, BODY_BYTES_MAX, &mut reservation).await?;
        let malformed =
            |_| Problem::Malformed("the body is not a request of the demo page".to_owned());
        serde_json::from_slice(&bytes).map_err(malformed)
    }

    /// Calls the vault with the private key. Returns request and response, because the page shows
    /// both.
    pub(super) async fn call_vault(
        &self,
        method: &'static str,
        path: &str,
        body: Option<Value>,
    ) -> Result<Response, Problem> {
        let request = VaultRequest { body: body.clone(), ..VaultRequest::new(method, path) };
        let answer = self.send(request).await?;
        let exchange = json!({
            "request": { "method": method, "path": path, "body": body },
            "status": answer.status,
            "answer": answer.body,
        });
        Ok(response::json(200, exchange.to_string()))
    }

    pub(super) async fn send(&self, request: VaultRequest<'_>) -> Result<VaultResponse, Problem> {
        let failed = |it: axum::http::Error| Problem::Failed(Error::Internal(it.into()));
        let text = request.body.as_ref().map(Value::to_string).unwrap_or_default();
        let mut builder = Request::builder()
            .method(request.method)
            .uri(request.path)
            .header("bt-api-key", self.key_header(request.key)?)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in request.headers {
            builder = builder.header(name, value);
        }
        let request = builder.body(Body::from(text)).map_err(failed)?;
        let api = self.router.clone();
        let response = pipeline::serve_api_request(self.app, api, self.client, request).await;
        let (head, body) = response.into_parts();
        let destination_status = head.headers.get("bt-proxy-destination-status");
        let bytes = body.collect().await.map(|it| it.to_bytes());
        Ok(VaultResponse {
            status: head.status.as_u16(),
            destination_status: destination_status
                .and_then(|it| it.to_str().ok())
                .map(str::to_owned),
            body: bytes.ok().and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or_default(),
        })
    }

    fn key_header(&self, owner: KeyOwner) -> Result<HeaderValue, Problem> {
        let key = match owner {
            KeyOwner::Private => &self.demo.private_key,
            KeyOwner::Management => &self.demo.management_key,
        };
        let key = HeaderValue::from_bytes(key.expose());
        let mut key = key.map_err(|it| Problem::Failed(Error::Internal(it.into())))?;
        key.set_sensitive(true);
        Ok(key)
    }
}
