//! The view of a token intent for a caller or a proxied call.

use crate::{
    card::{self, TokenType, bank, bin_data::BinData},
    disclosure::{hides_marked, shows_fingerprint},
    policy::Caller,
    token::{TokenIntentRecord, TokenIntentView, intent::IntentBody},
};

/// The view for this reader.
pub(crate) fn token_intent_view(
    bins: &BinData,
    reader: IntentReader<'_>,
    record: &TokenIntentRecord,
    body: IntentBody,
) -> TokenIntentView {
    let (IntentReader::Caller(caller) | IntentReader::Use(caller)) = reader;
    let (tenant, token_type) = (caller.tenant(), record.token_type);
    let fingerprint = record.fingerprint.filter(|_| shows_fingerprint(caller, token_type));
    let is_hidden =
        matches!(reader, IntentReader::Caller(_)) && hides_marked(caller, body.is_marked);
    if is_hidden {
        return TokenIntentView {
            id: record.id,
            tenant_id: tenant.id,
            token_type,
            card: None,
            network_token: None,
            bank: None,
            authentication: None,
            fingerprint: None,
            containers: record.containers.clone(),
            expires_at: record.expires_at,
            created_by: record.created_by,
            created_at: record.created_at,
        };
    }
    let data = body.data.expose();
    let card = token_type.is_card().then(|| card::card_details(data, bins, tenant.kind)).flatten();
    let (card, network_token) =
        if token_type == TokenType::NetworkToken { (None, card) } else { (card, None) };
    TokenIntentView {
        id: record.id,
        tenant_id: tenant.id,
        token_type,
        card,
        network_token,
        bank: (token_type == TokenType::Bank).then(|| bank::bank_details(data)).flatten(),
        authentication: body.authentication,
        fingerprint,
        containers: record.containers.clone(),
        expires_at: record.expires_at,
        created_by: record.created_by,
        created_at: record.created_at,
    }
}

/// The reader of an intent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum IntentReader<'a> {
    /// A response to this caller.
    Caller(&'a Caller),
    /// A proxied call, in which this caller uses the intent.
    Use(&'a Caller),
}
