//! Get Token Intent.

use crate::{
    Error, Vault,
    policy::Caller,
    read_log::ReadLogEntry,
    reveal::{IntentReader, token_intent_view},
    token::{TokenIntentView, intent::IntentBody},
    types::{Operation, Permission, id::TokenIntentId},
};

/// Errors: there is no such live intent, no rule allows the caller to read it, or the read cannot
/// be recorded.
pub async fn get_token_intent(
    vault: &Vault,
    caller: &Caller,
    id: TokenIntentId,
) -> Result<TokenIntentView, Error> {
    let lookup = caller.permit_lookup(Permission::TokenIntentRead)?;
    let stored = vault.store.find_token_intent(lookup, id, vault.clock.latest()).await?;
    let record = stored.ok_or(Error::NotFound)?.record;
    caller.permit(Permission::TokenIntentRead, &record.containers)?;
    let body = IntentBody::open(caller.work(), caller.tenant(), &record)?;
    let view = token_intent_view(&vault.bin_data, IntentReader::Caller(caller), &record, body);
    // The view of an intent never contains its data.
    let entry = ReadLogEntry::new(id.to_string(), "redacted");
    vault.record_reads(caller, Operation::GetTokenIntent, vec![entry]).await?;
    Ok(view)
}
