//! Access sessions, described.

use scrip_core::permission::ApplicationKind;
use serde_json::{Value, json};

use crate::wire::{
    described::{Description, Tag, operation},
    policy::{
        access::{
            Holder,
            described::{attributes, not_empty},
        },
        session::SessionBody,
    },
    schema::{Schema, always, answer, instant, named, request, sometimes, text},
    tokens::token::described::expiry,
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let session = answer([
        always("session_key", text().about("Shown now, and never again.")),
        always(
            "nonce",
            text().about("By which a private application authorizes the session, once."),
        ),
        always("expires_at", instant()),
    ]);
    let asked =
        [always("nonce", text()), sometimes("expires_at", expiry().about("Within 24 hours."))];
    let authorization = request(
        asked.into_iter().chain(attributes(Holder::Session, Some(ApplicationKind::Private))),
    );
    let lent = json!({"nonce": NONCE, "permissions": ["token:create"]});
    vec![
        ("Session", session.examples([example()])),
        ("SessionAuthorization", not_empty(authorization).examples([lent])),
    ]
}

const NONCE: &str = "4QK7ZP2M9XW1B6TJ8HN3CR5VDY0AGSFE4QK7ZP2";

fn example() -> Value {
    json!(SessionBody {
        session_key: "key_test_us_ses_4QK7ZP2M9XW1B6TJ8HN3CR5VDY0AGSFE4QK7ZP2",
        nonce: NONCE,
        expires_at: "2026-11-15T12:03:00+00:00".to_owned(),
    })
}

pub(crate) fn create() -> Description {
    operation(Tag::Sessions, "Create a session")
        .about(
            "Its key can do nothing until a private application has authorized it. It ends after \
             three minutes, or when the authorization says. An idempotency key is ignored.",
        )
        .answer(201, "A key for a browser, and the nonce to authorize it by.", named("Session"))
}

pub(crate) fn authorize() -> Description {
    operation(Tag::Sessions, "Authorize a session")
        .about("Lends the session some of the rights of the application that asks, never more.")
        .body(named("SessionAuthorization"))
        .done("The session has these rights.")
        .problem(404)
}
