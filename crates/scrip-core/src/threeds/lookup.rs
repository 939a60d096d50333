//! Which schemes a card can be authenticated with, by the ranges that they have told.

use scrip_threeds::{
    code::Scheme,
    format::{CardNumber, Version},
    range::{Range, negotiate},
};

use crate::{
    Error, Vault,
    policy::TenantKind,
    threeds::{FailureReason, ServiceFailure, rail::Rail},
};

/// The first is the card's own brand, the others are those that it has besides.
pub(crate) fn find_rails(
    vault: &Vault,
    kind: TenantKind,
    number: Option<&CardNumber>,
) -> Result<Vec<Rail>, Error> {
    let connected = vault.directory_servers.ranges(kind);
    let fail = |reason| Err(Error::Service(Box::new(ServiceFailure::new(reason, None))));
    if connected.is_empty() {
        return fail(FailureReason::NotConnected);
    }
    let mut rails = Vec::new();
    for it in &connected {
        let range = it.ranges.as_ref().zip(number).and_then(|(ranges, card)| ranges.find(card));
        rails.extend(range.and_then(|range| rail(it.scheme, range)));
    }
    if !rails.is_empty() {
        return Ok(rails);
    }
    // As long as one has not told its ranges, the card may be in those.
    if number.is_some() && connected.iter().any(|it| it.ranges.is_none()) {
        return fail(FailureReason::RangesUnavailable);
    }
    fail(FailureReason::CardNotSupported)
}

fn rail(scheme: Scheme, range: &Range) -> Option<Rail> {
    let negotiated = negotiate(Version::ALL, range.ds, range.acs)?;
    Some(Rail {
        scheme,
        recommended: negotiated.recommended,
        available: negotiated.available,
        acs: (range.acs.earliest(), range.acs.latest()),
        ds: (range.ds.earliest(), range.ds.latest()),
        acs_information: range.acs_information.clone(),
        method_url: range.method_url.clone(),
    })
}
