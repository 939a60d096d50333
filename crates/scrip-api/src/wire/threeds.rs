//! JSON of 3DS sessions. For access sessions see `policy/access_session.rs`.

mod authentication;
mod device;
mod request;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use authentication::render_authentication;
pub(crate) use request::{ObservedClient, parse_authentication, parse_device, parse_new};
pub(crate) use session::{render_created, render_session, render_updated};
