//! A fake payment provider with its own listener: the destination of the demo's proxy. It is
//! another company, so it shares nothing with the shop but the wire.

use std::{
    collections::VecDeque,
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, Request, State},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{
            AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST,
            REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use scrip_seal::fill_random;
use scrip_types::hex::encode_hex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// More than a charge ever has.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Charges that the provider remembers. The oldest is forgotten first.
const CHARGES_MAX: usize = 100;
/// The card that is declined, as in the guides. Other cards of the demo have the same last digits.
const DECLINED_NUMBER: &str = "4200000000000002";
/// The page has no script, and it loads only its own style.
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'";

/// Address and API key of a running provider.
#[derive(Clone)]
pub struct Provider {
    /// Without a trailing slash.
    pub url: String,
    /// The key that the provider gave to the shop.
    pub api_key: String,
}

impl fmt::Debug for Provider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Provider").field("url", &self.url).finish_non_exhaustive()
    }
}

struct ProviderState {
    address: SocketAddr,
    api_key: String,
    charges: Mutex<VecDeque<ReceivedCharge>>,
}

/// A request as it arrived. It has no `Debug`, because it has a card number.
#[derive(Clone)]
struct ReceivedCharge {
    id: String,
    status: &'static str,
    body: String,
}

/// The part of a charge that the provider needs for its decision.
#[derive(Deserialize)]
struct ChargeRequest {
    reference: String,
    card: ChargeCard,
}

#[derive(Deserialize)]
struct ChargeCard {
    number: String,
}

/// Serves the provider until the process exits.
/// Errors: the address of the listener is unknown.
pub fn start(listener: TcpListener) -> std::io::Result<Provider> {
    let address = listener.local_addr()?;
    let api_key = format!("sk_demo_{}", random_hex());
    let state = ProviderState { address, api_key: api_key.clone(), charges: Mutex::default() };
    let service = router(Arc::new(state));
    tokio::spawn(async move { axum::serve(listener, service).await });
    Ok(Provider { url: format!("http://{address}"), api_key })
}

fn router(state: Arc<ProviderState>) -> Router {
    Router::new()
        .route("/charges", post(receive_charge))
        .route("/charges/{id}", get(show_charge))
        .route("/style.css", get(show_style))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), check_host))
        .with_state(state)
}

/// Accepts requests to the own address only, so that no web page can resolve its own name to the
/// provider and read its charges (DNS rebinding).
async fn check_host(
    State(state): State<Arc<ProviderState>>,
    request: Request,
    next: Next,
) -> Response {
    let host = request.headers().get(HOST).and_then(|it| it.to_str().ok());
    if host.is_some_and(|it| it == state.address.to_string()) {
        return next.run(request).await;
    }
    StatusCode::MISDIRECTED_REQUEST.into_response()
}

async fn receive_charge(
    State(state): State<Arc<ProviderState>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    if authorization != Some(format!("Bearer {}", state.api_key).as_bytes()) {
        return json_response(StatusCode::UNAUTHORIZED, &json!({ "error": "unknown API key" }));
    }
    let (Ok(charge), Ok(text)) =
        (serde_json::from_slice::<ChargeRequest>(&body), str::from_utf8(&body))
    else {
        return json_response(StatusCode::BAD_REQUEST, &json!({ "error": "not a charge" }));
    };
    let number = &charge.card.number;
    let status = if number.as_str() == DECLINED_NUMBER { "declined" } else { "approved" };
    let last4 = number.get(number.len().saturating_sub(4)..).unwrap_or_default();
    let id = format!("ch_{}", random_hex());
    let answer = json!({
        "id": &id, "status": status, "reference": charge.reference, "card": { "last4": last4 },
    });
    let mut charges = state.charges.lock().unwrap_or_else(PoisonError::into_inner);
    if charges.len() == CHARGES_MAX {
        charges.pop_front();
    }
    charges.push_back(ReceivedCharge { id, status, body: indent_json(text) });
    json_response(StatusCode::OK, &answer)
}

/// The provider's own page about a charge, with the request exactly as it arrived.
async fn show_charge(State(state): State<Arc<ProviderState>>, Path(id): Path<String>) -> Response {
    let charges = state.charges.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(charge) = charges.iter().find(|it| it.id == id).cloned() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    drop(charges);
    let ReceivedCharge { id, status, body } = charge;
    let html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Charge {id}</title>\n<link rel=\"stylesheet\" href=\"/style.css\">\n</head>\n<body>\n\
         <h1>Fake provider: charge {status}</h1>\n<p>{id}, received by {address}:</p>\n\
         <pre tabindex=\"0\">{body}</pre>\n</body>\n</html>\n",
        address = state.address,
        body = escape_html(&body),
    );
    let mut response = html.into_response();
    insert_headers(response.headers_mut(), "text/html; charset=utf-8");
    response
}

async fn show_style() -> Response {
    let mut response = include_str!("pages/provider.css").into_response();
    insert_headers(response.headers_mut(), "text/css; charset=utf-8");
    response
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    let mut response = (status, body.to_string()).into_response();
    insert_headers(response.headers_mut(), "application/json");
    response
}

fn insert_headers(headers: &mut HeaderMap, content_type: &'static str) {
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// Indents JSON for a reader. Other text stays unchanged.
fn indent_json(text: &str) -> String {
    let value = serde_json::from_str::<Value>(text);
    let indented = value.and_then(|it| serde_json::to_string_pretty(&it));
    indented.unwrap_or_else(|_| text.to_owned())
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn random_hex() -> String {
    let mut bytes = [0; 12];
    fill_random(&mut bytes);
    encode_hex(&bytes)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn send(provider: &Provider, host: &str, request: &str) -> String {
        let address = provider.url.strip_prefix("http://").unwrap();
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (line, rest) = request.split_once('\n').unwrap();
        let text = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{rest}");
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    fn charge_request(key: &str, number: &str) -> String {
        let body = json!({ "reference": "<b>order</b>", "card": { "number": number } }).to_string();
        let length = body.len();
        format!(
            "POST /charges\nAuthorization: Bearer {key}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    }

    #[tokio::test]
    async fn provider_shows_the_received_request_on_its_own_page() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = start(listener).unwrap();
        let host = provider.url.strip_prefix("http://").unwrap().to_owned();
        let charge = charge_request(&provider.api_key, "4242424242424242");
        let answer = send(&provider, &host, &charge).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(!answer.contains("42424242"), "the answer repeats the number");
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
        assert_eq!(body["status"], "approved");
        let id = body["id"].as_str().unwrap();
        let page = send(&provider, &host, &format!("GET /charges/{id}\n\r\n")).await;
        assert!(page.contains("4242424242424242"), "{page}");
        assert!(page.contains("&lt;b&gt;order"), "{page}");
        let foreign = send(&provider, "evil.example", &format!("GET /charges/{id}\n\r\n")).await;
        assert!(foreign.starts_with("HTTP/1.1 421"), "{foreign}");
    }

    #[tokio::test]
    async fn provider_rejects_unknown_keys_and_declines_one_card() {
        let state = Arc::new(ProviderState {
            address: ([127, 0, 0, 1], 1).into(),
            api_key: "sk".to_owned(),
            charges: Mutex::default(),
        });
        let charge = async |key: &str, number: &str| {
            let headers: HeaderMap =
                [(AUTHORIZATION, format!("Bearer {key}").parse().unwrap())].into_iter().collect();
            let body = json!({ "reference": "1", "card": { "number": number } }).to_string();
            let response = receive_charge(State(Arc::clone(&state)), headers, body.into()).await;
            let (head, body) = response.into_parts();
            let body: Body = body;
            (head.status, body.collect().await.unwrap().to_bytes())
        };
        assert_eq!(charge("wrong", "4242424242424242").await.0, 401);
        let (status, body) = charge("sk", DECLINED_NUMBER).await;
        assert_eq!(status, 200);
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["status"], "declined");
        let scenarios = include_str!("pages/sandbox.js").split("number: \"").skip(1);
        for number in scenarios.map(|it| it.split('"').next().unwrap()) {
            let (_, body) = charge("sk", number).await;
            let answer: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(answer["status"], "approved", "{number}");
        }
        for _ in 0..CHARGES_MAX {
            charge("sk", "4242424242424242").await;
        }
        assert_eq!(state.charges.lock().unwrap().len(), CHARGES_MAX);
    }
}
