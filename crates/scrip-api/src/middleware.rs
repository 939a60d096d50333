//! The steps of the pipeline, before and after the handler.

pub mod admission;
pub mod body;
pub(crate) mod cors;
pub(crate) mod idempotency;
pub(crate) mod rejection_record;
pub mod request_head;
pub(crate) mod request_observer;
pub(crate) mod response_body;
pub(crate) mod trailing_slash;
pub mod unread_body;
