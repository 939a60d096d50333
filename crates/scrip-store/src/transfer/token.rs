//! A token's row, read as the engines read it: the entries by which it is found follow from it.

use scrip_core::{
    container::Containers,
    disclosure::{DuplicateKey, DuplicateKeys, ExpressionMarks},
    id::{ApplicationId, TenantId, TokenId},
    listing::Facet,
    store::{Modified, TokenRecord},
    time::Timestamp,
    token_type::TokenType,
};
use scrip_seal::{Fingerprint, IndexDigest, Sealed};

use crate::{
    facets::facet_bytes,
    transfer::row::{Row, Value},
};

/// Facet and container of each.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) tenant: TenantId,
    pub(crate) created_at: i64,
    pub(crate) all: Vec<(Vec<u8>, String)>,
}

/// Nothing when no engine could have written this row.
pub(crate) fn entries(row: &Row) -> Option<Entries> {
    let (tenant, record) = record(row)?;
    let mut all = Vec::new();
    for facet in Facet::of_record(&record) {
        let facet = facet_bytes(&facet);
        let of_facet = record.containers.iter().map(|it| (facet.clone(), it.as_str().to_owned()));
        all.extend(of_facet);
    }
    Some(Entries { tenant, created_at: record.created_at.unix_ms, all })
}

fn record(row: &Row) -> Option<(TenantId, TokenRecord)> {
    let [
        tenant,
        id,
        token_type,
        fingerprint,
        containers,
        created_by,
        created_at,
        modified_by,
        modified_at,
        expires_at,
        revision,
        indexes,
        _body,
        expressions,
        duplicate_key,
        duplicate_read_key,
    ] = row.as_slice()
    else {
        return None;
    };
    let time = |it: &Value| it.number().map(|unix_ms| Timestamp { unix_ms });
    let (digests, rest) = indexes.bytes()?.as_chunks::<16>();
    let modified = match (modified_by.id(), time(modified_at)) {
        (Some(by), Some(at)) => Some(Modified { by: ApplicationId(by), at }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return None,
    };
    let fingerprint = match fingerprint.bytes() {
        Some(bytes) => Some(Fingerprint(bytes.try_into().ok()?)),
        None => None,
    };
    let record = TokenRecord {
        id: TokenId::parse(id.text()?).ok()?,
        token_type: TokenType::parse(token_type.text()?)?,
        fingerprint,
        expressions: ExpressionMarks::from_bytes(expressions.bytes()?)?,
        containers: Containers::parse(containers.text()?.split(',')).ok()?,
        created_by: ApplicationId(created_by.id()?),
        created_at: time(created_at)?,
        modified,
        expires_at: time(expires_at),
        revision: revision.number()?,
        indexes: rest.is_empty().then(|| digests.iter().copied().map(IndexDigest).collect())?,
        body: Sealed::from_stored(Vec::new()),
    };
    let DuplicateKeys { key, read_key } = DuplicateKeys::of(&record);
    let is = |column: &Value, key: Option<DuplicateKey>| {
        column.bytes() == key.as_ref().map(|it| it.0.as_slice())
    };
    let keys_match = is(duplicate_key, key) && is(duplicate_read_key, read_key);
    keys_match.then_some((TenantId(tenant.id()?), record))
}
