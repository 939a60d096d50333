//! The directory server of each scheme: which cards there are, and the way to their issuer.

mod answer;
mod message;
mod report;

pub(crate) use message::receive;
pub(crate) use report::report;
