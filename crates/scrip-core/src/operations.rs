//! One file per operation, named after it.

pub mod authenticate_session;
pub mod authorize_access_session;
pub mod claim_answer;
pub mod create_access_session;
pub mod create_api_key;
pub mod create_application;
pub mod create_session;
pub mod create_tenant;
pub mod create_token;
pub mod create_token_intent;
pub mod delete_api_key;
pub mod delete_application;
pub mod delete_tenant;
pub mod delete_token;
pub mod delete_token_intent;
pub mod detokenize;
pub mod expire_session;
pub mod expire_token;
pub mod get_challenge_result;
pub mod get_session;
pub mod get_tenant;
pub mod get_tenant_usage;
pub mod get_token;
pub mod get_token_intent;
pub mod list_access_sessions;
pub mod list_api_keys;
pub mod list_applications;
pub mod list_logs;
pub mod list_tokens;
pub mod list_tokens_v1;
pub mod notify_challenge;
pub mod notify_method;
pub mod prune_logs;
pub mod purge_tenants;
pub mod receive_result;
pub mod record_refusal;
pub mod restore_tenant;
pub mod resume_access_session;
pub mod revoke_access_session;
pub mod search_tokens;
pub mod search_tokens_v1;
pub mod tokenize;
pub mod update_application;
pub mod update_session;
pub mod update_tenant;
pub mod update_token;

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
