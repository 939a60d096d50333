//! JSON of proxies.

pub(crate) mod proxy_request;
pub(crate) mod proxy_response;
mod transform;
