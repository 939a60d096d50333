//! The access control server: what the bank of a card does.

mod answer;
mod app;
mod cryptogram;
mod decide;
mod finish;
mod method;
mod page;
mod sealed;
mod sign;
mod timer;

pub(crate) use answer::authenticate;
pub(crate) use app::receive as receive_app;
pub(crate) use method::receive as receive_method;
pub(crate) use page::{receive_answer, receive_creq};
pub(crate) use sealed::AppKeys;
pub(crate) use sign::Signer;

use bytes::Bytes;

/// A field of a form, if it is there once.
fn field(body: &Bytes, name: &str) -> Option<String> {
    let mut found = form_urlencoded::parse(body).filter(|(it, _)| it == name);
    let value = found.next().map(|(_, value)| value.into_owned());
    value.filter(|_| found.next().is_none())
}
