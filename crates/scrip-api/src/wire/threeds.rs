//! 3-D Secure sessions on the wire. (`session.rs` is about the sessions of browsers' keys.)

mod authentication;
mod device;
mod request;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use authentication::authenticated;
pub(crate) use request::{Seen, parse_authentication, parse_device, parse_new};
pub(crate) use session::{created, found, updated};
