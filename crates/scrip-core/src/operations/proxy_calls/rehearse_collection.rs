//! Checks the tokens that a proxied call will store, before the first one is stored.

use crate::{
    Error, Vault,
    card::TokenType,
    disclosure::check_sender_rights,
    policy::{AccessTarget, Caller},
    reveal::Audience,
    token::{DataPlace, NewToken, WrittenToken},
    types::{
        Containers, Permission,
        id::{TokenId, TokenIntentId},
    },
    writes::{
        duplicate_identity::DuplicateIdentity,
        pending_token::{PendingToken, load_data_source, taken_id_error, unknown_intent_error},
    },
};

/// Checks that the sender of a call has no more rights on a new token of this type in these containers
/// than on the data that it may not read, which is stored at `places`.
///
/// Errors: the sender would see more of the data, or could use it.
pub fn check_collected_places(
    vault: &Vault,
    creator: &Caller,
    token_type: TokenType,
    containers: &Containers,
    places: &[DataPlace],
) -> Result<(), Error> {
    let target = AccessTarget { containers, id: None };
    check_sender_rights(creator, token_type, places, target, vault.disclosure)
}

/// The tokens of one call, none of which is stored yet. Each is stored in a transaction of its own, so
/// a call that cannot store all of them must be rejected before the first.
#[derive(Debug, Default)]
pub struct CollectionRehearsal {
    /// The ids that the call names, with the properties that a duplicate would have.
    named_ids: Vec<(TokenId, Option<DuplicateIdentity>)>,
    intents: Vec<TokenIntentId>,
}

impl CollectionRehearsal {
    /// The token as it would be created, with an id that no token will have, unless the request names
    /// one. Nothing is written.
    ///
    /// Errors: the request is invalid, no rule allows it, another token has its id, or an earlier
    /// token of the call uses its id or its intent.
    pub async fn add(
        &mut self,
        vault: &Vault,
        creator: &Caller,
        mut new: NewToken,
    ) -> Result<WrittenToken, Error> {
        let now = vault.clock.now();
        let names_id = new.id.is_some();
        let source = load_data_source(vault, creator, &mut new).await?;
        let pending = PendingToken::new(vault, creator, new, source, now)?;
        if let Some(intent) = pending.intent.as_ref().map(|it| it.id) {
            if self.intents.contains(&intent) {
                return Err(unknown_intent_error());
            }
            self.intents.push(intent);
        }
        // The vault draws another value for an alias that is taken.
        if names_id && !pending.has_alias_id() {
            self.check_id(vault, creator, &pending).await?;
        }
        let token = pending.into_view(Audience::Caller { vault, now })?;
        Ok(WrittenToken { token, deduplicated: None })
    }

    /// Deduplication returns a token with the same id and equal data, so that a call can be repeated.
    async fn check_id(
        &mut self,
        vault: &Vault,
        creator: &Caller,
        pending: &PendingToken,
    ) -> Result<(), Error> {
        let (id, identity) = (&pending.token.record.id, pending.requested_identity());
        let is_equal = |it: &Option<DuplicateIdentity>| identity.is_some() && *it == identity;
        let mut earlier = self.named_ids.iter().filter(|(earlier, _)| earlier == id);
        if earlier.any(|(_, it)| !is_equal(it)) {
            return Err(taken_id_error());
        }
        let lookup = creator.permit_lookup(Permission::TokenCreate)?;
        let stored = vault.store.find_token(lookup, id, vault.clock.latest()).await?;
        if stored.is_some_and(|it| !is_equal(&DuplicateIdentity::of(&it.record))) {
            return Err(taken_id_error());
        }
        self.named_ids.push((id.clone(), identity));
        Ok(())
    }
}
