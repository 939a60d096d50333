//! The card of a 3DS session, and the schemes that can authenticate it. The number is read when it is
//! needed, and no session contains it.

use scrip_threeds::{
    code::Scheme,
    format::{CardNumber, Version},
    range::{CardRangeDetails, negotiate_versions},
};
use scrip_types::hex::encode_hex;
use serde_json::Value;

use crate::{
    Error, Timestamp, Vault,
    card::TokenType,
    policy::{Caller, Permit},
    threeds::{CardReference, SchemeSupport},
    token::{
        StoredToken, StoredTokenIntent, TokenBody, TokenPatch, TokenRecord, intent::IntentBody,
        number_in_use_error, patch_has_card_number,
    },
    types::{
        FailureReason, Permission, Plaintext, ServiceFailure, TenantKind, id::CardNumberVersion,
    },
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
    let number_digest = encode_hex(&digest);
    let number = CardNumber::parse(number).ok();
    let expiry = expiry_yymm(&data);
    Ok(Some(FoundCard { number, expiry, expires_at, permit, number_digest, number_version }))
}

fn expiry_yymm(data: &Plaintext) -> Option<String> {
    let read_number = |name| data.expose().get(name).and_then(Value::as_u64);
    let (year, month) = (read_number("expiration_year")?, read_number("expiration_month")?);
    Some(format!("{:02}{month:02}", year.checked_rem(100)?))
}

/// Rejects a new number for a card that a session uses, by a public application or an access
/// session. The payer may control the browser, and could have one card authenticated and another
/// one charged. Even the same number is rejected: the difference would confirm a guess.
///
/// The store checks again when it writes. The check here runs before the number counts as a guess.
/// Errors: the patch has a number, and a session uses the card.
pub(crate) async fn reject_number_change(
    vault: &Vault,
    caller: &Caller,
    token: &TokenRecord,
    patch: &TokenPatch,
) -> Result<(), Error> {
    if !caller.is_browser() || !patch_has_card_number(token.token_type, patch) {
        return Ok(());
    }
    let lookup = caller.permit_lookup(Permission::TokenUpdate)?;
    let now = vault.clock.latest();
    if vault.store.is_used_by_threeds_session(lookup, &token.id, now).await? {
        return Err(number_in_use_error());
    }
    Ok(())
}

/// Finds the schemes that support the card. The first is the own brand of the card; the others are
/// additional networks.
pub(crate) fn find_supported_schemes(
    vault: &Vault,
    kind: TenantKind,
    number: Option<&CardNumber>,
) -> Result<Vec<SchemeSupport>, Error> {
    let connected = vault.directory_servers.ranges(kind);
    let fail = |reason| Err(Error::Service(Box::new(ServiceFailure::new(reason, None))));
    if connected.is_empty() {
        return fail(FailureReason::NotConnected);
    }
    let mut schemes = Vec::new();
    for it in &connected {
        let range = it.ranges.as_ref().zip(number).and_then(|(ranges, card)| ranges.find(card));
        schemes.extend(range.and_then(|range| scheme_support(it.scheme, range)));
    }
    if !schemes.is_empty() {
        return Ok(schemes);
    }
    // Until all ranges are fetched, the card may be in a missing range.
    if number.is_some() && connected.iter().any(|it| it.ranges.is_none()) {
        return fail(FailureReason::RangesUnavailable);
    }
    fail(FailureReason::CardNotSupported)
}

fn scheme_support(scheme: Scheme, range: &CardRangeDetails) -> Option<SchemeSupport> {
    let negotiated = negotiate_versions(Version::ALL, range.ds, range.acs)?;
    Some(SchemeSupport {
        scheme,
        recommended: negotiated.recommended,
        available: negotiated.available,
        acs: (range.acs.earliest(), range.acs.latest()),
        ds: (range.ds.earliest(), range.ds.latest()),
        acs_information: range.acs_information.clone(),
        method_url: range.method_url.clone(),
    })
}
