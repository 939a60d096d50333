//! Tenants, applications, API keys and their rights.

mod access_session_rights;
mod access_sessions;
mod api_keys;
mod applications;
mod coverage;
pub(crate) mod operation_calls;
mod permission_table;
mod permissions;
pub(crate) mod proxies;
mod recorded_deletion;
mod rejections;
mod resources;
mod rules;
mod sealed_start;
mod tenant;

use serde_json::json;

use crate::harness::server::{ACME, SERVER};

/// Creates a token in this container, and returns its id.
fn create_ssn_token(container: &str) -> String {
    let body =
        json!({"type": "social_security_number", "data": "123-45-6789", "containers": [container]});
    SERVER.create_token_id(&ACME.private, &body)
}
