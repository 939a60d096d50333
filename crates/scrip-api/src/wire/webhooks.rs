//! JSON of webhooks.

pub(crate) mod delivery_response;
pub(crate) mod webhook_request;
pub(crate) mod webhook_response;
