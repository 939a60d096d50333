//! The pages that the official browser SDK puts into frames: between a shop's page and its payer's bank.
//!
//! Any shop may hold them, and any bank may stand in them, so no policy here says who. They know nothing
//! and keep nothing: what they are told is checked, posted on, and forgotten.

use axum::response::Response;

use crate::handlers::html::{self, nonce};

const METHOD: &str = include_str!("pages/method.html");
const CHALLENGE: &str = include_str!("pages/challenge.html");
const RELAY: &str = include_str!("pages/relay.js");

pub(crate) fn method(chance: fn(&mut [u8])) -> Response {
    framed(METHOD, chance)
}

pub(crate) fn challenge(chance: fn(&mut [u8])) -> Response {
    framed(CHALLENGE, chance)
}

/// The one script and the one style of the page, and frames of any bank.
fn framed(page: &str, chance: fn(&mut [u8])) -> Response {
    let nonce = nonce(chance);
    let page = page.replace("{{script}}", RELAY).replace("{{nonce}}", &nonce);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         frame-src http: https:; base-uri 'none'"
    );
    html::page(page, &policy)
}
