//! The card of a 3DS session. The number is read when it is needed, and no session contains it.

use scrip_threeds::format::CardNumber;
use serde_json::Value;

use crate::{
    Error, Timestamp, Vault,
    card::TokenType,
    policy::{Caller, Permit},
    threeds::CardReference,
    token::{StoredToken, StoredTokenIntent, TokenBody, intent::IntentBody},
    types::{Permission, Plaintext, id::CardNumberVersion},
};

/// A live card of the tenant that the caller may use.
#[derive(Debug)]
pub(crate) struct FoundCard {
    /// `None` when no scheme can have such a number.
    pub(crate) number: Option<CardNumber>,
    /// In the format YYMM.
    pub(crate) expiry: Option<String>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) permit: Permit,
    /// A keyed digest of the number, as stored in a session.
    pub(crate) number_digest: String,
    /// For a token only. The number of an intent never changes.
    pub(crate) number_version: Option<CardNumberVersion>,
}

/// Finds and decrypts a card. `None` when there is no such card.
/// Errors: the caller has no right in the containers of the card.
pub(crate) async fn find_card(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    card: &CardReference,
) -> Result<Option<FoundCard>, Error> {
    let (lookup, now) = (caller.permit_lookup(permission)?, vault.clock.latest());
    let (permit, data, expires_at, number_version) = match card {
        CardReference::Token(id) => {
            let stored = vault.store.find_token(lookup, id, now).await?;
            let Some(StoredToken { record, .. }) = stored else { return Ok(None) };
            let permit = caller.permit(permission, &record)?;
            if record.token_type != TokenType::Card {
                return Ok(None);
            }
            let body = TokenBody::open_in_step(caller.work(), caller.tenant(), &record, Ok)?;
            (permit, body.data, record.expires_at, body.number_version)
        }
        CardReference::TokenIntent(id) => {
            let stored = vault.store.find_token_intent(lookup, *id, now).await?;
            let Some(StoredTokenIntent { record, .. }) = stored else { return Ok(None) };
            let permit = caller.permit(permission, &record.containers)?;
            if record.token_type != TokenType::Card {
                return Ok(None);
            }
            let body = IntentBody::open(caller.work(), caller.tenant(), &record)?;
            (permit, body.data, Some(record.expires_at), None)
        }
    };
    let number = data.expose().get("number").and_then(Value::as_str).unwrap_or_default();
    let digest = caller.tenant().keys.card_number_digest(number.as_bytes());
    let number_digest = digest.iter().map(|it| format!("{it:02x}")).collect();
    let number = CardNumber::parse(number).ok();
    let expiry = expiry_yymm(&data);
    Ok(Some(FoundCard { number, expiry, expires_at, permit, number_digest, number_version }))
}

fn expiry_yymm(data: &Plaintext) -> Option<String> {
    let read_number = |name| data.expose().get(name).and_then(Value::as_u64);
    let (year, month) = (read_number("expiration_year")?, read_number("expiration_month")?);
    Some(format!("{:02}{month:02}", year.checked_rem(100)?))
}
