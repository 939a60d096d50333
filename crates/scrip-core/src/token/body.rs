//! What a token stores sealed: its data, mask, metadata and expressions; and the card verification code
//! (CVC), which is stored separately, encrypted with an epoch key that is destroyed later.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use scrip_expression::{padded_size, value_cost};
use scrip_seal::{
    EpochKeyError, EpochKeys, KeyPresence, OpenedValue, Place, Purpose, Sealed, Secret, TenantKeys,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Error, FieldError, Timestamp,
    card::TokenType,
    policy::{Caller, Tenant},
    token::TokenRecord,
    types::{
        Plaintext, Transform,
        id::{ApplicationId, CardNumberVersion, TenantId, TokenId},
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
    pub withheld: WithheldOutputs,
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
    #[serde(skip_serializing_if = "WithheldOutputs::is_empty")]
    withheld: &'a WithheldOutputs,
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
            self.withheld.fingerprint = true;
            self.withheld.indexes = indexes;
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

/// The outputs of a token's expressions that are not computed: digests that would confirm a guess, and
/// leaves of the mask that would show what they hid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithheldOutputs {
    #[serde(default)]
    pub fingerprint: bool,
    /// The sources of the withheld search indexes.
    #[serde(default)]
    pub indexes: Vec<String>,
    /// The sources of the withheld leaves of the mask.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub mask_leaves: BTreeSet<String>,
}

impl WithheldOutputs {
    pub fn is_empty(&self) -> bool {
        !self.fingerprint && self.indexes.is_empty() && self.mask_leaves.is_empty()
    }
}

/// A CVC between parsing and sealing, or between opening and response. `Debug` does not print it.
#[derive(Debug)]
pub struct Cvc(Secret);

/// The stored CVC. It is not readable after `expires_at`, and not recoverable after its epoch key
/// is destroyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CvcRecord {
    pub expires_at: Timestamp,
    pub sealed: Sealed,
}

impl Cvc {
    pub fn new(text: String) -> Self {
        Self(Secret::new(text.into_bytes()))
    }

    /// The only access to the text.
    pub fn expose(&self) -> &str {
        std::str::from_utf8(self.0.expose()).unwrap_or_default()
    }

    /// Seals with the key that [`load_cvc_key`] loaded.
    pub(crate) fn seal(
        &self,
        epochs: &EpochKeys,
        place: &Place,
        expires_at: Timestamp,
    ) -> Result<CvcRecord, Error> {
        let sealed = epochs.seal(place, &self.0, expires_at.unix_ms)?;
        Ok(CvcRecord { expires_at, sealed })
    }
}

impl CvcRecord {
    /// Decrypts the CVC. `None` after it expired or its key was destroyed.
    pub(crate) fn open(
        &self,
        epochs: &EpochKeys,
        place: &Place,
        now: Timestamp,
    ) -> Result<Option<Cvc>, Error> {
        if self.expires_at <= now {
            return Ok(None);
        }
        match epochs.open(place, &self.sealed, self.expires_at.unix_ms)? {
            OpenedValue::Open(secret) => Ok(Some(Cvc(secret))),
            OpenedValue::KeyDestroyed => Ok(None),
            // An error, because a response without the CVC would state that there is none.
            OpenedValue::KeyNotLoaded => Err(EpochKeyError::NotLoaded.into()),
        }
    }

    /// Whether the CVC expired or its key is destroyed. Loads the key if another node created it.
    /// Errors: the other nodes do not respond.
    pub(crate) async fn is_unrecoverable(
        &self,
        epochs: &EpochKeys,
        now: Timestamp,
    ) -> Result<bool, Error> {
        if self.expires_at <= now {
            return Ok(true);
        }
        let presence = epochs.load_opening_key(&self.sealed, self.expires_at.unix_ms).await?;
        Ok(presence == KeyPresence::Destroyed)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    pub record: TokenRecord,
    pub cvc: Option<CvcRecord>,
}

impl StoredToken {
    /// Prepares the CVC for a response with this transform: removes a CVC with a destroyed key, and
    /// loads the key of a CVC that will be shown.
    ///
    /// Errors: the key is on other nodes, and they do not respond.
    pub(crate) async fn resolve_cvc(
        &mut self,
        epochs: &EpochKeys,
        transform: Transform,
        now: Timestamp,
    ) -> Result<(), Error> {
        let Some(cvc) = self.cvc.as_ref().filter(|_| transform == Transform::Reveal) else {
            return Ok(());
        };
        if cvc.is_unrecoverable(epochs, now).await? {
            self.cvc = None;
        }
        Ok(())
    }
}

/// The place of a token's CVC.
pub(crate) fn cvc_place(tenant: TenantId, token: &TokenId, expires_at: Timestamp) -> Place {
    let tenant = tenant.0.as_bytes();
    Place::new("token.cvc").bytes(tenant).text(token.as_str()).number(expires_at.unix_ms)
}

/// Removes the CVC from the data.
pub(crate) fn take_cvc(token_type: TokenType, data: &mut Plaintext) -> Option<Cvc> {
    if !token_type.has_cvc() {
        return None;
    }
    match data.expose_mut().as_object_mut()?.remove("cvc")? {
        Value::String(text) => Some(Cvc::new(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

/// Whether [`take_cvc`] would find a CVC.
pub(crate) fn has_cvc_value(token_type: TokenType, data: &Plaintext) -> bool {
    token_type.has_cvc() && data.expose().get("cvc").is_some_and(|it| !it.is_null())
}

/// The data with its CVC, for a caller that may see both.
pub(crate) fn with_cvc(mut data: Plaintext, cvc: Option<&Cvc>) -> Plaintext {
    if let (Some(cvc), Some(object)) = (cvc, data.expose_mut().as_object_mut()) {
        object.insert("cvc".to_owned(), cvc.expose().into());
    }
    data
}

/// How long an answer is stored if it can repeat a CVC that the caller may not read.
const HIDDEN_ANSWER_LIFETIME: Duration = Duration::from_mins(15);

/// When such an answer ends: with a CVC that was written now, or earlier.
pub(crate) fn hidden_answer_end(caller: &Caller, now: Timestamp) -> Timestamp {
    cvc_expiry(caller, now).min(now.plus(HIDDEN_ANSWER_LIFETIME))
}

/// The expiry of a CVC that is submitted now.
pub(crate) fn cvc_expiry(caller: &Caller, now: Timestamp) -> Timestamp {
    now.plus(caller.tenant().quotas.cvc_retention())
}

/// Loads the key for a new CVC. The nodes may share the key, so it may be remote.
/// Errors: the key is shared and not available. Nothing was changed.
pub(crate) async fn load_cvc_key(
    epochs: &EpochKeys,
    caller: &Caller,
    now: Timestamp,
) -> Result<(), Error> {
    Ok(epochs.load_sealing_key(cvc_expiry(caller, now).unix_ms).await?)
}

/// Seals a new CVC. Its lifetime starts now.
/// Errors: [`load_cvc_key`] was not called for this time.
pub(crate) fn seal_cvc(
    epochs: &EpochKeys,
    caller: &Caller,
    cvc: &Cvc,
    token: &TokenId,
    now: Timestamp,
) -> Result<CvcRecord, Error> {
    let expires_at = cvc_expiry(caller, now);
    cvc.seal(epochs, &cvc_place(caller.tenant().id, token, expires_at), expires_at)
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

    /// A caller without a right to read can replace a leaf of the data by a patch.
    #[test]
    fn padded_size_of_a_leaf_does_not_depend_on_the_length_of_another() {
        let size = |hidden_length: usize, own_length: usize| {
            let hidden = "7".repeat(hidden_length);
            let own = "x".repeat(own_length);
            let data = json!({"hidden": hidden, "own": {"list": [own, 1], "text": own}});
            TokenBody { data: Plaintext::new(data), ..TokenBody::default() }.padded_size()
        };
        for own_length in 0..3_000 {
            assert_eq!(size(7, own_length), size(17, own_length), "{own_length}");
        }
        assert!(size(600, 0) > size(7, 0));
    }
}
