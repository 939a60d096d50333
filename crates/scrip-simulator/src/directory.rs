//! The directory server of each scheme: publishes card ranges and forwards messages to the issuer.

mod message;
mod response;
mod result_report;

pub(crate) use message::receive;
pub(crate) use result_report::send_result;
