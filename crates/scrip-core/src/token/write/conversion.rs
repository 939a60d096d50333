//! The data of a new token: from the request, from an intent, or encrypted by a client.

use crate::{
    Error, FieldError, Timestamp, Vault,
    id::{ApplicationId, TokenIntentId},
    policy::{Caller, Permission},
    token::{
        Containers, DataPlace, NewToken, Plaintext, TokenSource, TokenType,
        disclosure::{
            ReadLimits, hides_marked, marks_encrypted, may_read_clear, misplaces_field_values,
        },
        intent::IntentBody,
    },
};

/// The source of a pending token's data.
pub(crate) struct TokenDataSource {
    pub(crate) token_type: TokenType,
    pub(crate) data: Plaintext,
    pub(crate) origin: DataOrigin,
    /// As in [`TokenBody`](crate::token::TokenBody).
    pub(crate) is_marked: bool,
    /// When a payer typed the data into a hosted field. Encrypted and collected data counts as typed
    /// now.
    pub(crate) typed_at: Option<Timestamp>,
    /// Where data comes from that the caller did not send in clear. The sender of a collected call
    /// must not have more rights on the new token.
    pub(crate) places: Vec<DataPlace>,
}

impl TokenDataSource {
    /// Whether the caller sent the data in clear and knows it. A page does not know the text of a
    /// hosted field that it sends.
    pub(crate) fn is_known_to(&self, caller: &Caller) -> bool {
        self.origin.is_request() && !hides_marked(caller, self.is_marked)
    }

    /// Whether the caller knows the data, or may read it in these containers.
    pub(crate) fn is_readable_by(&self, caller: &Caller, containers: &Containers) -> bool {
        self.is_known_to(caller) || may_read_clear(caller, containers, self.read_limits())
    }

    /// What the guessing budget counts of the data. A proxy that collects it counts for its sender, and
    /// the sender may choose text next to data that only the owner of the proxy may read.
    pub(crate) fn counted_part(&self, caller: &Caller, containers: &Containers) -> CountedPart {
        let reads = |it: &Caller| may_read_clear(it, containers, self.read_limits());
        let sender_reads =
            || !caller.is_collecting() || caller.collection_sender().is_some_and(reads);
        if self.is_known_to(caller) || reads(caller) && sender_reads() {
            return CountedPart::Everything;
        }
        let is_counted_intent =
            matches!(&self.origin, DataOrigin::Intent(intent) if intent.is_counted);
        match self.token_type != TokenType::Token || is_counted_intent {
            true => CountedPart::OwnNumber,
            false => CountedPart::Nothing,
        }
    }

    pub(crate) fn read_limits(&self) -> ReadLimits {
        let (is_marked, typed_at) = (self.is_marked, self.typed_at);
        ReadLimits { is_marked, typed_at, is_hidden: self.origin.is_hidden() }
    }
}

/// What the guessing budget counts of the data of a new token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedPart {
    Everything,
    /// The number that the type names. A text of an intent has none; it was counted when the intent was
    /// created.
    OwnNumber,
    /// A text that was not counted before: it must not be compared.
    Nothing,
}

impl CountedPart {
    pub(crate) fn is_any(self) -> bool {
        self != Self::Nothing
    }
}

/// Who knows the data.
pub(crate) enum DataOrigin {
    /// The caller sent it in clear.
    Request,
    /// The conversion deletes the intent.
    Intent(SourceIntent),
    /// A client encrypted it. The caller need not be this client.
    Encrypted,
    /// A proxied call stores it, and the sender of the call may not read it. The token shows no
    /// details of it without a reveal right.
    Hidden,
}

impl DataOrigin {
    /// Whether the caller sent the data in clear.
    pub(crate) fn is_request(&self) -> bool {
        matches!(self, Self::Request)
    }

    /// Whether the token shows no details of the data without a reveal right.
    pub(crate) fn is_hidden(&self) -> bool {
        matches!(self, Self::Hidden)
    }

    pub(crate) fn into_intent(self) -> Option<SourceIntent> {
        match self {
            Self::Intent(intent) => Some(intent),
            Self::Request | Self::Encrypted | Self::Hidden => None,
        }
    }
}

/// The properties of an intent that a conversion needs.
pub(crate) struct SourceIntent {
    pub(crate) id: TokenIntentId,
    pub(crate) containers: Containers,
    pub(crate) created_by: ApplicationId,
    pub(crate) expires_at: Timestamp,
    /// The numbers of the intent were counted, and no budget was exhausted: it has a fingerprint.
    pub(crate) is_counted: bool,
}

/// Takes the data from the request or from the named intent, or decrypts it. The CVC of the intent
/// is not included.
///
/// # Errors
/// There is no such live intent, or the data cannot be decrypted.
pub(crate) async fn load_data_source(
    vault: &Vault,
    caller: &Caller,
    new: &mut NewToken,
) -> Result<TokenDataSource, Error> {
    let source = std::mem::replace(&mut new.source, TokenSource::Intent(String::new()));
    let now = vault.clock.now();
    let typed_at = caller.carries_typed_values().then_some(now);
    let is_marked = |origin: &DataOrigin, token_type| {
        let is_encrypted = matches!(origin, DataOrigin::Encrypted);
        caller.marks_fields() || is_encrypted && marks_encrypted(caller, token_type)
    };
    let text = match source {
        TokenSource::Data { token_type, data } => {
            let origin = DataOrigin::Request;
            // Of a request with several tokens, the vault does not know which one has the value.
            let is_marked = is_marked(&origin, token_type)
                || misplaces_field_values(caller, token_type, data.expose());
            let places = Vec::new();
            return Ok(TokenDataSource { token_type, data, origin, is_marked, typed_at, places });
        }
        TokenSource::Encrypted(encrypted) => {
            let data = encrypted.decrypt(vault, caller)?;
            let (token_type, origin) = (encrypted.token_type, DataOrigin::Encrypted);
            let is_marked = is_marked(&origin, token_type);
            let typed_at = Some(now);
            let places = vec![Containers::from(token_type.default_container()).into()];
            return Ok(TokenDataSource { token_type, data, origin, is_marked, typed_at, places });
        }
        TokenSource::Collected(collected) => {
            let (token_type, data, origin, places) = collected.open();
            let is_marked = is_marked(&origin, token_type);
            let typed_at = Some(now);
            return Ok(TokenDataSource { token_type, data, origin, is_marked, typed_at, places });
        }
        TokenSource::Intent(text) => text,
    };
    let id = TokenIntentId::parse(&text).ok_or_else(unknown_intent_error)?;
    let lookup = caller.permit_lookup(Permission::TokenCreate)?;
    let stored = vault.store.find_token_intent(lookup, id, vault.clock.latest()).await?;
    let record = stored.ok_or_else(unknown_intent_error)?.record;
    let body = IntentBody::open(caller.work(), caller.tenant(), &record)?;
    let intent = SourceIntent {
        id,
        containers: record.containers,
        created_by: record.created_by,
        expires_at: record.expires_at,
        is_counted: record.fingerprint.is_some(),
    };
    let places = vec![intent.containers.clone().into()];
    let origin = DataOrigin::Intent(intent);
    let is_marked = caller.marks_fields() || body.is_marked;
    let (token_type, data) = (record.token_type, body.data);
    let typed_at = typed_at.or_else(|| body.is_typed.then_some(record.created_at));
    Ok(TokenDataSource { token_type, data, origin, is_marked, typed_at, places })
}

pub(crate) fn unknown_intent_error() -> Error {
    FieldError::new("token_intent_id", "is not a live token intent of this tenant").into()
}
