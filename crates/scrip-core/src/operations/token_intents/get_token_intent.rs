//! Get Token Intent.

use crate::{
    Error, Vault,
    audit::{Operation, Seen},
    id::TokenIntentId,
    policy::{Caller, Permission},
    token::{
        TokenIntentView,
        intent::{IntentBody, view},
    },
};

/// # Errors
/// There is no such live intent, no rule lets the caller read it, or the read cannot be recorded.
pub async fn get_token_intent(
    vault: &Vault,
    caller: &Caller,
    id: TokenIntentId,
) -> Result<TokenIntentView, Error> {
    let inquiry = caller.inquire(Permission::TokenIntentRead)?;
    let found = vault.store.find_token_intent(inquiry, id, vault.clock.latest()).await?;
    let record = found.ok_or(Error::NotFound)?.record;
    caller.permit(Permission::TokenIntentRead, &record.containers)?;
    let body = IntentBody::open(caller.tenant(), &record)?;
    let seen = view(&vault.bins, caller.tenant(), &record, body);
    // An intent is never shown with its data.
    let recorded = Seen::new(id.to_string(), "redacted");
    vault.record_seen(caller, Operation::GetTokenIntent, vec![recorded]).await?;
    Ok(seen)
}
