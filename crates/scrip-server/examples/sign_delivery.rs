//! Prints a signed delivery as JSON, for the tests of verification code in other languages.
//!
//! Arguments: the time of the delivery in seconds since 1970, and optionally `--rotated`: then the
//! delivery has the signature of a newer secret first.

#![expect(clippy::print_stdout, reason = "the output is the purpose of the program")]

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use scrip_core::{
    Timestamp,
    card::TokenType,
    events::{Event, payload::token::describe_token},
    token::{ExpressionProvenance, TokenBody, TokenRecord},
    types::{
        Container, EventType,
        id::{ApplicationId, EventId, TenantId, TokenId},
    },
};
use scrip_seal::{RootKey, Sealed, WebhookSecret, WebhookSigningKey};
use scrip_server::background::webhooks::signer::EventDelivery;
use serde_json::json;
use uuid::Uuid;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds: i64 = arguments.first().context("the time is missing")?.parse()?;
    let is_rotated = arguments.iter().any(|it| it == "--rotated");
    let now = Timestamp { unix_ms: seconds.saturating_mul(1000) };
    let root = RootKey::from_text("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")?;
    let (signing_key, _) = WebhookSigningKey::create(&root)?;
    let [secret, newer_secret] = [(); 2].map(|()| WebhookSecret::new(scrip_seal::fill_random));
    let secrets: &[&WebhookSecret] =
        if is_rotated { &[&newer_secret, &secret] } else { &[&secret] };
    let event = event(now);
    let json = event.to_json();
    let delivery =
        EventDelivery { event_id: event.id, event: &json, secrets, signing_key: &signing_key };
    let request = delivery.sign(now)?;
    let headers: BTreeMap<_, _> = request
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default()))
        .collect();
    let output = json!({
        "headers": headers,
        "body": String::from_utf8_lossy(request.body()),
        "secret": secret.expose(),
        "public_key": signing_key.public_key_pem(),
    });
    println!("{output}");
    Ok(())
}

/// An event with texts that languages escape and sort differently.
fn event(now: Timestamp) -> Event {
    let metadata = [
        ("\u{ff5e}", "sorted by UTF-16 code units"),
        ("\u{1f600}", "\u{e9} \" \\ / \u{2028} \u{7f} \u{1} \n <&>"),
        ("10", "sorted as text"),
        ("9", ""),
    ];
    let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let body = TokenBody { metadata: Some(metadata.into()), ..TokenBody::default() };
    let record = TokenRecord {
        id: TokenId::random(scrip_seal::fill_random),
        token_type: TokenType::Card,
        fingerprint: None,
        expressions: ExpressionProvenance::default(),
        containers: Container::root().into(),
        created_by: ApplicationId(Uuid::from_u128(9)),
        created_at: now,
        modified: None,
        expires_at: None,
        revision: 0,
        indexes: Vec::new(),
        body: Sealed::from_stored(Vec::new()),
    };
    Event {
        id: EventId(Uuid::from_u128(7)),
        event_type: EventType::TokenCreated.as_str(),
        at: now,
        tenant: TenantId(Uuid::from_u128(8)),
        trace: "trace-1".into(),
        actor: None,
        data: describe_token(&record, &body),
    }
}
