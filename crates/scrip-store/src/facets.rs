//! The entries by which tokens are found, as both engines keep them.

use scrip_core::{
    listing::Facet,
    token::{TokenRecord, TokenType},
};

/// A letter that keeps the facets apart, and what is looked for. Half a fingerprint is enough to
/// find it by: the token's row has it whole.
pub(crate) fn encode_facet(facet: &Facet) -> Vec<u8> {
    let (letter, bytes) = match facet {
        Facet::Type(token_type) => (b't', token_type.as_str().as_bytes()),
        Facet::Fingerprint(fingerprint) => (b'f', fingerprint.0.split_at(16).0),
        Facet::Index(digest) => (b'i', digest.0.as_slice()),
    };
    let mut facet = Vec::with_capacity(bytes.len().saturating_add(1));
    facet.push(letter);
    facet.extend_from_slice(bytes);
    facet
}

/// The facets to look under. Every token has one type, so all of them together are all tokens.
pub(crate) fn facets_or_all_types(facet: Option<Facet>) -> Vec<Facet> {
    let every = || TokenType::ALL.iter().copied().map(Facet::Type).collect();
    facet.map_or_else(every, |it| vec![it])
}

/// Facet and container of each entry of a token.
pub(crate) fn index_entries(record: &TokenRecord) -> impl Iterator<Item = (Vec<u8>, &str)> {
    Facet::all_for_record(record).flat_map(|facet| {
        let facet = encode_facet(&facet);
        record.containers.iter().map(move |it| (facet.clone(), it.as_str()))
    })
}

/// The facets and containers of a token's entries, side by side.
pub(crate) fn index_entry_columns(record: &TokenRecord) -> (Vec<Vec<u8>>, Vec<&str>) {
    index_entries(record).unzip()
}

/// Whether two versions of a token have the same entries.
pub(crate) fn has_same_index_entries(before: &TokenRecord, after: &TokenRecord) -> bool {
    before.containers == after.containers
        && Facet::all_for_record(before).eq(Facet::all_for_record(after))
}
