//! The access control server (ACS) of a card's issuer.

mod app_challenge;
mod ares;
mod browser_challenge;
mod challenge_result;
mod cryptogram;
mod method_page;
mod timers;

pub(crate) use app_challenge::receive_creq as receive_app;
pub(crate) use ares::authenticate;
pub(crate) use browser_challenge::{receive_action, receive_creq};
pub(crate) use method_page::receive as receive_method;

use bytes::Bytes;

/// The value of a form field. `None` if the field is missing or occurs more than once.
fn form_field(body: &Bytes, name: &str) -> Option<String> {
    let mut matching_values = form_urlencoded::parse(body).filter(|(it, _)| it == name);
    let value = matching_values.next().map(|(_, value)| value.into_owned());
    value.filter(|_| matching_values.next().is_none())
}
