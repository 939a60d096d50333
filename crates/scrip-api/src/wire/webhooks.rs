//! JSON of webhooks.

pub(crate) mod webhook_request;
pub(crate) mod webhook_response;
