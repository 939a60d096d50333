//! Record Rejection: writes a read-log entry for a rejected request of a known caller.

use uuid::Uuid;

use crate::{
    Error, Vault,
    policy::{Caller, CallerRequirement},
    read_log::ReadLogEntry,
    types::{
        EntityType, Operation,
        id::{TokenId, is_random_uuid},
    },
};

/// A rejected request: its operation, the entity id in its path, and the outcome.
#[derive(Debug, Clone, Copy)]
pub struct RejectedRequest<'a> {
    pub operation: Operation,
    pub requirement: CallerRequirement,
    pub entity: &'a str,
    pub outcome: &'static str,
}

/// Writes the entry. Does nothing for an operation without an entity type.
/// Errors: the rejection cannot be recorded. The request stays rejected.
pub async fn record_rejection(
    vault: &Vault,
    caller: &Caller,
    request: RejectedRequest<'_>,
) -> Result<(), Error> {
    if request.operation.entity_type().is_none() {
        return Ok(());
    }
    let entity = loggable_entity(vault, caller, &request).await;
    vault
        .record_reads(caller, request.operation, vec![ReadLogEntry::new(entity, request.outcome)])
        .await
}

/// The entity id for the record. A path contains any text that a client put there, possibly a card
/// number or a name. The id is therefore recorded only in two cases: it has the form of the vault's
/// random ids and contains no card number, or it is the id of an existing token, which the store
/// already has in clear. A caller without the permission does not learn whether the token exists,
/// and its record has no id. One in a hundred random ids contains digits that could be a card
/// number, so random UUIDs are not checked.
async fn loggable_entity(vault: &Vault, caller: &Caller, request: &RejectedRequest<'_>) -> String {
    if let Ok(id) = Uuid::try_parse(request.entity) {
        let id = id.to_string();
        let is_random = is_random_uuid(&id);
        return if is_random {
            id
        } else {
            ReadLogEntry::for_client_text(&id, request.outcome).entity
        };
    }
    let CallerRequirement::Permission(permission) = request.requirement else {
        return String::new();
    };
    let is_token_operation = request.operation.entity_type() == Some(EntityType::Token);
    let id = TokenId::parse(request.entity).ok().filter(|_| is_token_operation);
    let (Some(id), Ok(lookup)) = (id, caller.permit_lookup(permission)) else {
        return String::new();
    };
    match vault.store.find_token(lookup, &id, vault.clock.latest()).await {
        Ok(Some(_)) => id.as_str().to_owned(),
        Ok(None) | Err(_) => String::new(),
    }
}
