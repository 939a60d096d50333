//! One file per operation, named after it.

pub mod access_sessions;
pub mod applications;
pub mod claim_answer;
pub mod logs;
pub mod record_refusal;
pub mod sessions;
pub mod tenants;
pub mod token_intents;
pub mod tokens;

// ALIASES
pub use access_sessions::authorize_access_session;
pub use access_sessions::create_access_session;
pub use access_sessions::list_access_sessions;
pub use access_sessions::resume_access_session;
pub use access_sessions::revoke_access_session;
pub use applications::create_api_key;
pub use applications::create_application;
pub use applications::delete_api_key;
pub use applications::delete_application;
pub use applications::list_api_keys;
pub use applications::list_applications;
pub use applications::update_application;
pub use logs::list_logs;
pub use logs::prune_logs;
pub use sessions::authenticate_session;
pub use sessions::create_session;
pub use sessions::expire_session;
pub use sessions::get_challenge_result;
pub use sessions::get_session;
pub use sessions::notify_challenge;
pub use sessions::notify_method;
pub use sessions::receive_result;
pub use sessions::update_session;
pub use tenants::create_tenant;
pub use tenants::delete_tenant;
pub use tenants::get_tenant;
pub use tenants::get_tenant_usage;
pub use tenants::purge_tenants;
pub use tenants::restore_tenant;
pub use tenants::update_tenant;
pub use token_intents::create_token_intent;
pub use token_intents::delete_token_intent;
pub use token_intents::get_token_intent;
pub use tokens::create_token;
pub use tokens::delete_token;
pub use tokens::detokenize;
pub use tokens::expire_token;
pub use tokens::get_token;
pub use tokens::list_tokens;
pub use tokens::list_tokens_v1;
pub use tokens::search_tokens;
pub use tokens::search_tokens_v1;
pub use tokens::tokenize;
pub use tokens::update_token;
// END

use std::{future::poll_fn, task::Poll};

use crate::error::{Error, FieldError};

/// Between two pieces of work of one request, so that others go on meanwhile.
pub(crate) async fn give_way() {
    let mut given = false;
    poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What a tenant's quota allows in one request.
fn check_count(count: usize, limit: u64, quota: &'static str) -> Result<(), Error> {
    if u64::try_from(count).is_ok_and(|it| it <= limit) {
        return Ok(());
    }
    let problem = format!("allows at most {limit} tokens in one request").into();
    Err(FieldError { field: quota.into(), problem }.into())
}
