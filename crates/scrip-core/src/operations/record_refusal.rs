//! Record Refusal: a caller that is known asked for something, and was told no.

use uuid::Uuid;

use crate::{
    Error, Vault,
    audit::{EntityType, Operation, Seen},
    id::{TokenId, is_random_uuid},
    policy::{Caller, Needs},
};

/// What was refused: by which name the path knew it, and how.
#[derive(Debug, Clone, Copy)]
pub struct Refused<'a> {
    pub operation: Operation,
    pub needs: Needs,
    pub entity: &'a str,
    pub outcome: &'static str,
}

/// # Errors
/// It cannot be recorded. The request is refused all the same.
pub async fn record_refusal(
    vault: &Vault,
    caller: &Caller,
    refused: Refused<'_>,
) -> Result<(), Error> {
    if refused.operation.entity_type().is_none() {
        return Ok(());
    }
    let entity = nameable(vault, caller, &refused).await;
    vault.record_seen(caller, refused.operation, vec![Seen::new(entity, refused.outcome)]).await
}

/// What stands in a path is whatever a client put there, perhaps by mistake a number or a name. So
/// it is written down only if it has the form of the ids that the vault draws, and no card's number
/// in it; or if it is a token's id here, which the store has in clear already. Whoever lacks the
/// right to look for tokens does not learn by this whether there is one, and its record has no name.
/// One in a hundred random ids has digits in a row that could be a card's, so these pass whole.
async fn nameable(vault: &Vault, caller: &Caller, refused: &Refused<'_>) -> String {
    if let Ok(id) = Uuid::try_parse(refused.entity) {
        let id = id.to_string();
        let is_drawn = is_random_uuid(&id);
        return if is_drawn { id } else { Seen::named(&id, refused.outcome).entity };
    }
    let Needs::Permission(permission) = refused.needs else { return String::new() };
    let about_tokens = refused.operation.entity_type() == Some(EntityType::Token);
    let id = TokenId::parse(refused.entity).ok().filter(|_| about_tokens);
    let (Some(id), Ok(inquiry)) = (id, caller.inquire(permission)) else { return String::new() };
    match vault.store.find_token(inquiry, &id, vault.clock.latest()).await {
        Ok(Some(_)) => id.as_str().to_owned(),
        Ok(None) | Err(_) => String::new(),
    }
}
