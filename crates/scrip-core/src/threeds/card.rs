//! The card of a session. Its number is read when it is needed, and is in no session.

use scrip_threeds::format::CardNumber;
use serde_json::Value;

use crate::{
    Vault,
    audit::Operation,
    body::Body,
    caller::Caller,
    error::Error,
    id::{TokenId, TokenIntentId},
    permission::Permission,
    plain::Plain,
    time::Timestamp,
    token_intent::IntentBody,
    token_type::TokenType,
};

/// What a session was created with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CardReference {
    Token(TokenId),
    TokenIntent(TokenIntentId),
}

impl CardReference {
    /// The attribute by which a client names it.
    #[must_use]
    pub fn attribute(&self) -> &'static str {
        match self {
            Self::Token(_) => "token_id",
            Self::TokenIntent(_) => "token_intent_id",
        }
    }

    /// How its use is recorded, and of what.
    #[must_use]
    pub fn recorded(&self) -> (Operation, String) {
        match self {
            Self::Token(id) => (Operation::UseToken, id.as_str().to_owned()),
            Self::TokenIntent(id) => (Operation::UseTokenIntent, id.to_string()),
        }
    }
}

/// A live card of the tenant.
#[derive(Debug)]
pub(crate) struct FoundCard {
    /// Nothing when no scheme can have such a number.
    pub(crate) number: Option<CardNumber>,
    /// As YYMM.
    pub(crate) expiry: Option<String>,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Nothing when there is no such card.
pub(crate) async fn find_card(
    vault: &Vault,
    caller: &Caller,
    permission: Permission,
    card: &CardReference,
) -> Result<Option<FoundCard>, Error> {
    let (inquiry, now) = (caller.inquire(permission)?, vault.clock.latest());
    let found = match card {
        CardReference::Token(id) => {
            let found = vault.store.find_token(inquiry, id, now).await?;
            let found = found.filter(|it| it.record.token_type == TokenType::Card);
            let Some(stored) = found else { return Ok(None) };
            let body = Body::open(caller.tenant(), &stored.record)?;
            (body.data, stored.record.expires_at)
        }
        CardReference::TokenIntent(id) => {
            let found = vault.store.find_token_intent(inquiry, *id, now).await?;
            let found = found.filter(|it| it.record.token_type == TokenType::Card);
            let Some(stored) = found else { return Ok(None) };
            let body = IntentBody::open(caller.tenant(), &stored.record)?;
            (body.data, Some(stored.record.expires_at))
        }
    };
    let (data, expires_at) = found;
    let number = data.expose().get("number").and_then(Value::as_str);
    let number = number.and_then(|it| CardNumber::parse(it).ok());
    Ok(Some(FoundCard { number, expiry: expiry(&data), expires_at }))
}

fn expiry(data: &Plain) -> Option<String> {
    let part = |name| data.expose().get(name).and_then(Value::as_u64);
    let (year, month) = (part("expiration_year")?, part("expiration_month")?);
    Some(format!("{:02}{month:02}", year.checked_rem(100)?))
}
