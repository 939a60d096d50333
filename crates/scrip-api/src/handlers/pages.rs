//! The pages that the official browser SDK puts into frames, between the page of a shop and the
//! payer's bank.
//!
//! Any shop may embed them, and they may embed any bank, so the policy restricts neither. The pages
//! store nothing: they validate messages and forward them.

pub(crate) mod html;

use axum::response::Response;

use crate::handlers::pages::html::generate_nonce;

const METHOD_PAGE: &str = include_str!("pages/method.html");
const CHALLENGE_PAGE: &str = include_str!("pages/challenge.html");
const RELAY_SCRIPT: &str = include_str!("pages/relay.js");

pub(crate) fn method_page(fill_random: fn(&mut [u8])) -> Response {
    render_framed_page(METHOD_PAGE, fill_random)
}

pub(crate) fn challenge_page(fill_random: fn(&mut [u8])) -> Response {
    render_framed_page(CHALLENGE_PAGE, fill_random)
}

/// The policy allows the single script and style of the page, and frames of any bank.
fn render_framed_page(page: &str, fill_random: fn(&mut [u8])) -> Response {
    let nonce = generate_nonce(fill_random);
    let page = page.replace("{{script}}", RELAY_SCRIPT).replace("{{nonce}}", &nonce);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         frame-src http: https:; base-uri 'none'"
    );
    html::html_response(page, &policy)
}
