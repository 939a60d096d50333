//! 3-D Secure sessions on the wire. (`session.rs` is about the sessions of browsers' keys.)

mod authentication;
mod device;
mod request;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use authentication::render_authentication;
pub(crate) use request::{ObservedClient, parse_authentication, parse_device, parse_new};
pub(crate) use session::{render_created, render_session, render_updated};
