//! The steps of the pipeline, before and after the handler.

pub mod authenticate;
pub mod body;
pub mod client_address;
pub(crate) mod cors;
pub(crate) mod idempotency;
pub(crate) mod long_evaluation;
pub(crate) mod rejection_record;
pub(crate) mod request_head;
pub(crate) mod request_observer;
pub(crate) mod response_body;
pub(crate) mod span;
pub mod throttle;
pub mod trace;
pub(crate) mod trailing_slash;
pub mod unread_body;
