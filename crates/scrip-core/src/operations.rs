//! One file per operation, named after it.

pub mod authorize_access_session;
pub mod claim_answer;
pub mod create_access_session;
pub mod create_api_key;
pub mod create_application;
pub mod create_tenant;
pub mod create_token;
pub mod delete_api_key;
pub mod delete_application;
pub mod delete_tenant;
pub mod delete_token;
pub mod expire_token;
pub mod get_token;
pub mod list_applications;
pub mod list_tokens;
pub mod list_tokens_v1;
pub mod resume_access_session;
pub mod search_tokens;
pub mod search_tokens_v1;
pub mod update_application;
pub mod update_tenant;
pub mod update_token;

use crate::{
    caller::Caller,
    error::{Error, FieldError},
    store::Deduplicate,
    time::Timestamp,
};

fn check_expiry(expires_at: Option<Timestamp>, now: Timestamp) -> Result<(), Error> {
    if expires_at.is_some_and(|it| it <= now) {
        return Err(FieldError::new("expires_at", "must be in the future").into());
    }
    Ok(())
}

fn deduplicate(caller: &Caller, asked: Option<bool>, fingerprinted: bool) -> Deduplicate {
    let wanted = asked.unwrap_or(caller.tenant().settings.deduplicate_tokens);
    if wanted && fingerprinted { Deduplicate::Yes } else { Deduplicate::No }
}
