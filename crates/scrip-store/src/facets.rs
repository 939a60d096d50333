//! Facets of the token index, encoded as both engines store them.

use scrip_core::{card::TokenType, listing::Facet, token::TokenRecord};

/// Encodes a tag byte for the kind of facet, then the value. The first half of a fingerprint is
/// enough for a lookup; the token's row stores all of it.
pub(crate) fn encode_facet(facet: &Facet) -> Vec<u8> {
    let (tag, bytes) = match facet {
        Facet::Type(token_type) => (b't', token_type.as_str().as_bytes()),
        Facet::Fingerprint(fingerprint) => (b'f', fingerprint.0.split_at(16).0),
        Facet::Index(digest) => (b'i', digest.0.as_slice()),
    };
    let mut encoded = Vec::with_capacity(bytes.len().saturating_add(1));
    encoded.push(tag);
    encoded.extend_from_slice(bytes);
    encoded
}

/// Returns the facets to scan. Every token has exactly one type, so the entries of all types cover
/// all tokens.
pub(crate) fn facets_or_all_types(facet: Option<Facet>) -> Vec<Facet> {
    let all_types = || TokenType::ALL.iter().copied().map(Facet::Type).collect();
    facet.map_or_else(all_types, |it| vec![it])
}

/// Facet and container of each index entry of a token.
pub(crate) fn index_entries(record: &TokenRecord) -> impl Iterator<Item = (Vec<u8>, &str)> {
    Facet::all_for_record(record).flat_map(|facet| {
        let facet = encode_facet(&facet);
        record.containers.iter().map(move |it| (facet.clone(), it.as_str()))
    })
}

/// Facets and containers of a token's index entries, as two parallel columns.
pub(crate) fn index_entry_columns(record: &TokenRecord) -> (Vec<Vec<u8>>, Vec<&str>) {
    index_entries(record).unzip()
}

/// Whether two versions of a token have the same index entries.
pub(crate) fn has_same_index_entries(previous: &TokenRecord, updated: &TokenRecord) -> bool {
    previous.containers == updated.containers
        && Facet::all_for_record(previous).eq(Facet::all_for_record(updated))
}
