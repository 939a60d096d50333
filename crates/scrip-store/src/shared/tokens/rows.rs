//! Conversion between the rows of tokens and token intents and their records, and the facets of the
//! token index as both engines store them.

use scrip_core::{
    card::TokenType,
    disclosure::{DuplicateKey, DuplicateKeys},
    listing::Facet,
    token::{
        CvcRecord, StoredToken, StoredTokenIntent, TokenIntentRecord, TokenModification,
        TokenRecord,
    },
    types::{
        StoreError,
        id::{TenantId, TokenIntentId},
    },
};
use scrip_seal::IndexDigest;

use crate::sql::{
    ColumnReader, MISSING_COLUMNS, NO_TOKEN, Parameter, parameters, read_optional, read_required,
};

/// A token and the number of its row.
#[derive(Debug, Clone)]
pub(crate) struct NumberedToken {
    pub(crate) number: i64,
    pub(crate) token: StoredToken,
}

/// Decodes the columns of `select_tokens!`. Never panics: a malformed row is an error.
pub(crate) fn decode_numbered_token(row: &dyn ColumnReader) -> Result<NumberedToken, StoreError> {
    let token = StoredToken { record: decode_token_record(row)?, cvc: decode_cvc(row, 14)? };
    Ok(NumberedToken { number: read_required(row, 0)?, token })
}

/// Decodes a token from the second column on.
pub(crate) fn decode_token_record(row: &dyn ColumnReader) -> Result<TokenRecord, StoreError> {
    decode_columns(row).map_err(|_| NO_TOKEN)
}

fn decode_columns(row: &dyn ColumnReader) -> Result<TokenRecord, StoreError> {
    let modified = match (read_optional(row, 7)?, read_optional(row, 8)?) {
        (Some(by), Some(at)) => Some(TokenModification { by, at }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(MISSING_COLUMNS),
    };
    Ok(TokenRecord {
        id: read_required(row, 1)?,
        token_type: read_required(row, 2)?,
        fingerprint: read_optional(row, 3)?,
        containers: read_required(row, 4)?,
        created_by: read_required(row, 5)?,
        created_at: read_required(row, 6)?,
        modified,
        expires_at: read_optional(row, 9)?,
        revision: read_required(row, 10)?,
        indexes: read_required(row, 11)?,
        body: read_required(row, 12)?,
        expressions: read_required(row, 13)?,
    })
}

/// Decodes two columns, which are NULL if there is no CVC.
pub(crate) fn decode_cvc(
    row: &dyn ColumnReader,
    first_column: usize,
) -> Result<Option<CvcRecord>, StoreError> {
    let columns =
        read_optional(row, first_column)?.zip(read_optional(row, first_column.saturating_add(1))?);
    Ok(columns.map(|(expires_at, sealed)| CvcRecord { expires_at, sealed }))
}

/// The columns of a new token: tenant, id, type, fingerprint, containers, creator, creation time,
/// expiry, revision, indexes, body, expressions and the two keys for deduplication.
pub(crate) fn insert_token_parameters(
    tenant: TenantId,
    token: &TokenRecord,
) -> [Parameter<'_>; 14] {
    let DuplicateKeys { key, read_key } = DuplicateKeys::from_record(token);
    parameters![
        tenant,
        &token.id,
        token.token_type,
        token.fingerprint.as_ref(),
        token.containers.to_text(),
        token.created_by,
        token.created_at,
        token.expires_at,
        token.revision,
        encode_indexes(&token.indexes),
        &token.body,
        token.expressions.to_bytes().to_vec(),
        key.map(encode_duplicate_key),
        read_key.map(encode_duplicate_key),
    ]
}

/// The columns that may change, then tenant and number.
pub(crate) fn update_token_parameters(
    tenant: TenantId,
    number: i64,
    token: &TokenRecord,
) -> [Parameter<'_>; 13] {
    let DuplicateKeys { key, read_key } = DuplicateKeys::from_record(token);
    parameters![
        token.fingerprint.as_ref(),
        token.containers.to_text(),
        token.modified.map(|it| it.by),
        token.modified.map(|it| it.at),
        token.expires_at,
        token.revision,
        encode_indexes(&token.indexes),
        &token.body,
        token.expressions.to_bytes().to_vec(),
        key.map(encode_duplicate_key),
        read_key.map(encode_duplicate_key),
        tenant,
        number,
    ]
}

fn encode_duplicate_key(key: DuplicateKey) -> Vec<u8> {
    key.0.to_vec()
}

/// Encodes index digests as the column stores them.
pub(crate) fn encode_indexes(indexes: &[IndexDigest]) -> Vec<u8> {
    indexes.iter().flat_map(|it| it.0).collect()
}

/// Decodes the columns type, fingerprint, creator, creation time, expiry, body, expiry of the CVC, CVC
/// and containers.
pub(crate) fn decode_token_intent(
    row: &dyn ColumnReader,
    id: TokenIntentId,
) -> Result<StoredTokenIntent, StoreError> {
    decode_intent_columns(row, id)
        .map_err(|_| StoreError::Corrupt("a token intent's row is invalid"))
}

fn decode_intent_columns(
    row: &dyn ColumnReader,
    id: TokenIntentId,
) -> Result<StoredTokenIntent, StoreError> {
    let record = TokenIntentRecord {
        id,
        token_type: read_required(row, 0)?,
        fingerprint: read_optional(row, 1)?,
        containers: read_required(row, 8)?,
        created_by: read_required(row, 2)?,
        created_at: read_required(row, 3)?,
        expires_at: read_required(row, 4)?,
        body: read_required(row, 5)?,
    };
    Ok(StoredTokenIntent { record, cvc: decode_cvc(row, 6)? })
}

/// The columns tenant, id, type, fingerprint, containers, creator, creation time, expiry and body.
pub(crate) fn insert_intent_parameters(
    tenant: TenantId,
    record: &TokenIntentRecord,
) -> [Parameter<'_>; 9] {
    parameters![
        tenant,
        record.id,
        record.token_type,
        record.fingerprint.as_ref(),
        record.containers.to_text(),
        record.created_by,
        record.created_at,
        record.expires_at,
        &record.body,
    ]
}

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
