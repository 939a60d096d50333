//! The sealed part of a token: its data, mask, metadata and expressions.

use std::collections::BTreeMap;

use scrip_expression::{padded_size, value_cost};
use scrip_seal::{Place, Purpose, Sealed, Secret, TenantKeys};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Error, FieldError, Timestamp,
    card::TokenType,
    policy::Tenant,
    token::TokenRecord,
    types::{
        Plaintext,
        id::{ApplicationId, CardNumberVersion, TenantId},
    },
    work_meter::{BodyWork, WorkMeter},
};

/// The maximum size of a body, which repeated patches could exceed. A request body is smaller.
const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The content of the sealed body. It includes the metadata, because metadata in clear would reveal
/// the customers to a reader of the database. It never contains the CVC.
#[derive(Debug, Default, Deserialize)]
pub struct TokenBody {
    pub data: Plaintext,
    pub mask: Option<Value>,
    pub metadata: Option<BTreeMap<String, String>>,
    pub search_indexes: Option<Vec<String>>,
    pub fingerprint_expression: Option<String>,
    /// The application that wrote mask, search indexes and fingerprint expression.
    pub expressions_writer: Option<ApplicationId>,
    #[serde(default)]
    pub withheld: WithheldDigests,
    /// Whether the token shows BIN, last four, mask and digests only with a reveal right: its data
    /// can be that of another token, which the sender of a proxied call may not read.
    #[serde(default)]
    pub withheld_details: bool,
    /// For a card: the version of its number. 3-D Secure sessions are bound to it.
    pub number_version: Option<CardNumberVersion>,
    /// The data holds the text of a hosted field, or data that a browser encrypted. The page that
    /// sent it must not learn anything about it.
    #[serde(default)]
    pub is_marked: bool,
    /// The Unix time in milliseconds of the last write of data that a payer typed into a hosted field.
    #[serde(default)]
    pub typed_at_ms: Option<i64>,
}

#[derive(Serialize)]
struct TokenBodyRef<'a> {
    data: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    mask: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search_indexes: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint_expression: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expressions_writer: Option<String>,
    #[serde(skip_serializing_if = "WithheldDigests::is_empty")]
    withheld: &'a WithheldDigests,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    withheld_details: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    number_version: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    is_marked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    typed_at_ms: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_false(value: &bool) -> bool {
    !*value
}

impl TokenBody {
    pub(crate) fn seal(&self, tenant: &Tenant, record: &TokenRecord) -> Result<Sealed, Error> {
        let body_ref = TokenBodyRef {
            data: self.data.expose(),
            mask: self.mask.as_ref(),
            metadata: self.metadata.as_ref(),
            search_indexes: self.search_indexes.as_deref(),
            fingerprint_expression: self.fingerprint_expression.as_deref(),
            expressions_writer: self.expressions_writer.map(|it| it.0.to_string()),
            withheld: &self.withheld,
            withheld_details: self.withheld_details,
            number_version: self.number_version.map(|it| it.to_string()),
            is_marked: self.is_marked,
            typed_at_ms: self.typed_at_ms,
        };
        // Reserve space for most bodies: a buffer that grows leaves copies of itself in memory.
        let mut bytes = Vec::with_capacity(1024);
        serde_json::to_writer(&mut bytes, &body_ref).map_err(|_| Error::Internal("body".into()))?;
        if bytes.len() > BODY_BYTES_MAX {
            return Err(FieldError::new("data", "the token would be larger than 2 MiB").into());
        }
        Ok(tenant.keys.seal(Purpose::Data, &body_place(tenant.id, record), &Secret::new(bytes)))
    }

    /// Opens the body and uses it in one step of the request's work: large bodies outside of the async
    /// workers. No other function opens a body for a request.
    ///
    /// Errors: the body cannot be opened, too many other steps are running, or `use_body` fails.
    pub(crate) fn open_in_step<T>(
        work: &WorkMeter,
        tenant: &Tenant,
        record: &TokenRecord,
        use_body: impl FnOnce(Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        Self::open_with_work(work, record_work(record), tenant, record, use_body)
    }

    /// As [`open_in_step`](Self::open_in_step), for a step with more work, such as sealing.
    pub(crate) fn open_with_work<T>(
        work: &WorkMeter,
        body_work: BodyWork,
        tenant: &Tenant,
        record: &TokenRecord,
        use_body: impl FnOnce(Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        work.run_opening(body_work, || use_body(Self::open_with(&tenant.keys, tenant.id, record)?))?
    }

    fn open_with(keys: &TenantKeys, tenant: TenantId, record: &TokenRecord) -> Result<Self, Error> {
        let secret = keys.open(Purpose::Data, &body_place(tenant, record), &record.body)?;
        serde_json::from_slice(secret.expose())
            .map_err(|_| Error::Internal("the body of a token cannot be parsed".into()))
    }
}

impl TokenBody {
    /// The last write of data that a payer typed into a hosted field.
    pub(crate) fn typed_at(&self) -> Option<Timestamp> {
        self.typed_at_ms.map(|unix_ms| Timestamp { unix_ms })
    }

    /// The size of the body for limits that a caller without a right to read can observe. Each part is
    /// padded on its own: such a caller may choose the metadata, and a sum that is padded as a whole
    /// would tell the length of the data.
    pub(crate) fn padded_size(&self) -> usize {
        let texts = self.metadata.iter().flatten().flat_map(|(name, value)| [name, value]);
        let sources = self.search_indexes.iter().flatten().chain(&self.fingerprint_expression);
        let texts = texts.chain(sources).map(|it| padded_size(it.len()));
        let values = [Some(self.data.expose()), self.mask.as_ref()];
        let values = values.into_iter().flatten().map(padded_data_size);
        texts.chain(values).fold(0, usize::saturating_add)
    }

    /// Withholds all digests if the details are withheld.
    pub(crate) fn withhold_digests(&mut self, token_type: TokenType) {
        if self.withheld_details {
            let indexes = self.search_indexes.as_deref();
            let indexes = indexes.unwrap_or_else(|| token_type.default_indexes()).to_vec();
            self.withheld = WithheldDigests { fingerprint: true, indexes };
        }
    }

    /// An explicit copy.
    pub(crate) fn duplicate(&self) -> Self {
        Self {
            data: self.data.duplicate(),
            mask: self.mask.clone(),
            metadata: self.metadata.clone(),
            search_indexes: self.search_indexes.clone(),
            fingerprint_expression: self.fingerprint_expression.clone(),
            expressions_writer: self.expressions_writer,
            withheld: self.withheld.clone(),
            withheld_details: self.withheld_details,
            number_version: self.number_version,
            is_marked: self.is_marked,
            typed_at_ms: self.typed_at_ms,
        }
    }
}

/// The size of data for limits that a caller without a right to read can observe. Each leaf is padded
/// on its own, because such a caller can patch one of them. An array is a leaf: a merge patch replaces
/// it as a whole.
pub(crate) fn padded_data_size(data: &Value) -> usize {
    match data {
        Value::Object(members) if !members.is_empty() => {
            let sizes = members.iter().map(|(name, value)| {
                padded_size(name.len()).saturating_add(padded_data_size(value))
            });
            sizes.fold(0, usize::saturating_add)
        }
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => padded_size(value_cost(data)),
    }
}

/// The work to open or seal the body of this record.
pub(crate) fn record_work(record: &TokenRecord) -> BodyWork {
    BodyWork::for_bytes(record.body.as_bytes().len())
}

/// The version of the card number. `None` for a token that is not a card, and for a body that
/// cannot be decrypted.
pub(crate) fn read_number_version(
    keys: &TenantKeys,
    tenant: TenantId,
    record: &TokenRecord,
) -> Option<CardNumberVersion> {
    if record.token_type != TokenType::Card {
        return None;
    }
    TokenBody::open_with(keys, tenant, record).ok()?.number_version
}

/// The associated data of a token body: every clear column. With write access to the database, an
/// attacker can neither move a token into another container nor change its expiry, creator or
/// fingerprint.
pub(crate) fn body_place(tenant: TenantId, record: &TokenRecord) -> Place {
    let mut place = Place::new("token.body")
        .bytes(tenant.0.as_bytes())
        .text(record.id.as_str())
        .text(record.token_type.as_str())
        .optional_bytes(record.fingerprint.as_ref().map(|it| it.0.as_slice()))
        .bytes(&record.expressions.to_bytes())
        .bytes(record.created_by.0.as_bytes())
        .number(record.created_at.unix_ms)
        .optional_bytes(record.modified.as_ref().map(|it| it.by.0.as_bytes().as_slice()))
        .optional_number(record.modified.as_ref().map(|it| it.at.unix_ms))
        .optional_number(record.expires_at.map(|it| it.unix_ms))
        .number(record.revision);
    // The count comes first, so that the end of one list cannot become the start of the next.
    place = place.number(to_i64(record.containers.iter().count()));
    for container in record.containers.iter() {
        place = place.text(container.as_str());
    }
    place = place.number(to_i64(record.indexes.len()));
    for index in &record.indexes {
        place = place.bytes(&index.0);
    }
    place
}

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The digests of a token that are not computed, because they would confirm a guess.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithheldDigests {
    #[serde(default)]
    pub fingerprint: bool,
    /// The sources of the withheld search indexes.
    #[serde(default)]
    pub indexes: Vec<String>,
}

impl WithheldDigests {
    pub fn is_empty(&self) -> bool {
        !self.fingerprint && self.indexes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn padded_size_of_metadata_does_not_depend_on_the_length_of_the_data() {
        let size = |data_length: usize, metadata_length: usize| {
            let metadata = [("m".to_owned(), "x".repeat(metadata_length))];
            let data = Plaintext::new(json!({"account_number": "7".repeat(data_length)}));
            let body = TokenBody { data, metadata: Some(metadata.into()), ..TokenBody::default() };
            body.padded_size()
        };
        for metadata_length in 0..3_000 {
            assert_eq!(size(7, metadata_length), size(17, metadata_length), "{metadata_length}");
        }
        assert!(size(600, 0) > size(7, 0));
    }
}
