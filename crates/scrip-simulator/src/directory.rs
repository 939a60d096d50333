//! The directory server of each scheme: which cards there are, and the way to their issuer.

mod message;
mod response;
mod result_report;

pub(crate) use message::receive;
pub(crate) use result_report::send_result;
