//! Record Refusal: a caller that is known asked for something, and was told no.

use uuid::Uuid;

use crate::{
    Error, Vault,
    audit::{EntityType, Operation, ReadLogEntry},
    id::{TokenId, is_random_uuid},
    policy::{Caller, CallerRequirement},
};

/// What was refused: by which name the path knew it, and how.
#[derive(Debug, Clone, Copy)]
pub struct RejectedRequest<'a> {
    pub operation: Operation,
    pub requirement: CallerRequirement,
    pub entity: &'a str,
    pub outcome: &'static str,
}

/// # Errors
/// It cannot be recorded. The request is refused all the same.
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

/// What stands in a path is whatever a client put there, perhaps by mistake a number or a name. So
/// it is written down only if it has the form of the ids that the vault draws, and no card's number
/// in it; or if it is a token's id here, which the store has in clear already. Whoever lacks the
/// right to look for tokens does not learn by this whether there is one, and its record has no name.
/// One in a hundred random ids has digits in a row that could be a card's, so these pass whole.
async fn loggable_entity(vault: &Vault, caller: &Caller, request: &RejectedRequest<'_>) -> String {
    if let Ok(id) = Uuid::try_parse(request.entity) {
        let id = id.to_string();
        let is_drawn = is_random_uuid(&id);
        return if is_drawn {
            id
        } else {
            ReadLogEntry::for_client_text(&id, request.outcome).entity
        };
    }
    let CallerRequirement::Permission(permission) = request.requirement else {
        return String::new();
    };
    let about_tokens = request.operation.entity_type() == Some(EntityType::Token);
    let id = TokenId::parse(request.entity).ok().filter(|_| about_tokens);
    let (Some(id), Ok(inquiry)) = (id, caller.permit_lookup(permission)) else {
        return String::new();
    };
    match vault.store.find_token(inquiry, &id, vault.clock.latest()).await {
        Ok(Some(_)) => id.as_str().to_owned(),
        Ok(None) | Err(_) => String::new(),
    }
}
