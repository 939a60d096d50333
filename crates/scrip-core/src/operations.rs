//! The operations of the vault: one file each, with the name of the operation.

pub mod access_sessions;
pub mod applications;
pub mod claim_idempotency_key;
pub mod client_keys;
pub mod key_rotations;
pub mod logs;
pub mod proxies;
pub mod proxy_calls;
pub mod record_rejection;
pub mod reference_data;
pub mod tenants;
pub mod threeds_sessions;
pub mod token_intents;
pub mod tokens;
pub mod webhooks;

use crate::{Error, FieldError};

/// Checks a quota on the number of tokens in one request.
fn check_request_quota(count: usize, limit: u64, quota: &'static str) -> Result<(), Error> {
    if u64::try_from(count).is_ok_and(|it| it <= limit) {
        return Ok(());
    }
    let problem = format!("allows at most {limit} tokens in one request").into();
    Err(FieldError { field: quota.into(), problem }.into())
}
