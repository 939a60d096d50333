//! The directory server of each scheme: publishes card ranges and forwards messages to the issuer.

mod message;

pub(crate) use message::receive;
