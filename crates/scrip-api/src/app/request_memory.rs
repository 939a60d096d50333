//! The memory that requests may use.

use std::sync::Arc;

use scrip_threeds::message::MESSAGE_BYTES_MAX;

use crate::app::{
    body_memory::BodyMemory, proxy_egress::CallLimits, response_memory::ResponseMemory,
};

const BODY_BYTES: usize = 256 * 1024 * 1024;
const KEYLESS_BODY_BYTES: usize = 16 * 1024 * 1024;
const BODY_NETWORK_SHARE: usize = 4;
const RESPONSE_BYTES: usize = 256 * 1024 * 1024;
const RESPONSE_NETWORK_SHARE: usize = 8;

#[derive(Debug)]
pub struct RequestMemory {
    /// For bodies of authenticated callers, and for the values parsed from them.
    pub bodies: Arc<BodyMemory>,
    /// For bodies of routes that need no key.
    pub keyless_bodies: Arc<BodyMemory>,
    /// For large responses until their clients have read them.
    pub responses: Arc<ResponseMemory>,
}

impl Default for RequestMemory {
    fn default() -> Self {
        Self {
            bodies: BodyMemory::new(BODY_BYTES, BODY_NETWORK_SHARE),
            keyless_bodies: BodyMemory::with_body_size(
                MESSAGE_BYTES_MAX.max(CallLimits::default().body_bytes_max),
                KEYLESS_BODY_BYTES,
                BODY_NETWORK_SHARE,
            ),
            responses: ResponseMemory::new(RESPONSE_BYTES, RESPONSE_NETWORK_SHARE),
        }
    }
}
