//! The schemes that can authenticate a card, by their card ranges.

use scrip_threeds::{
    code::Scheme,
    format::{CardNumber, Version},
    range::{CardRangeDetails, negotiate_versions},
};

use crate::{
    Error, Vault,
    threeds::SchemeSupport,
    types::{FailureReason, ServiceFailure, TenantKind},
};

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
