//! The authentication value: deterministic for a transaction and different for each transaction.

use aws_lc_rs::hmac;
use scrip_threeds::{
    code::Status,
    format::{AuthenticationValue, TransId},
};

/// Public on purpose: the simulated cryptograms have no value.
const KEY: &[u8] = b"simulated issuer";

pub(super) fn authentication_value(
    server_trans_id: &TransId,
    status: Status,
) -> Option<AuthenticationValue> {
    if !matches!(status, Status::Successful | Status::Attempted) {
        return None;
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, KEY);
    let text = format!("{}{}", status.code(), server_trans_id.expose().to_ascii_lowercase());
    let tag = hmac::sign(&key, text.as_bytes());
    tag.as_ref().first_chunk().copied().map(AuthenticationValue::from_bytes)
}
