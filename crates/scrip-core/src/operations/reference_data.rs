//! The data of the tokens and intents that expressions name: for Detokenize, and for the body of a
//! proxied call.

mod data_size;
mod decrypted_call_data;

pub use self::decrypted_call_data::DecryptedCallData;
pub use scrip_expression::{Reference, ReferenceKind};

pub(crate) use self::{data_size::DataAccess, decrypted_call_data::DecryptedPart};

use std::{collections::BTreeMap, sync::Arc};

use scrip_expression::{FilteredPath, LeafError};
use serde_json::Value;

use crate::{
    Error, FieldError, Timestamp, Vault,
    disclosure::{hides_marked, withholds_typed},
    equality::EvaluatedEntity,
    expression::enrichment,
    operations::reference_data::data_size::DataSize,
    policy::{AccessTarget, Caller, LookupPermit, Permit, UseRight},
    reveal::{Audience, IntentReader, build_view, mask_within_budget},
    token::{
        Cvc, CvcRecord, StoredToken, StoredTokenIntent, TokenBody, TokenIntentRecord,
        TokenIntentView, TokenRecord, TokenView,
        body::{hidden_answer_end, padded_data_size, with_cvc},
        intent::{IntentBody, cvc_place},
    },
    types::{
        AttributePath, Permission, Plaintext, Transform,
        error::Denial,
        id::{TenantId, TokenId, TokenIntentId},
    },
    work_meter::yield_now,
};

/// Functions of the API crate that render a token as in Get Token, and an intent with its data.
#[derive(Debug, Clone, Copy)]
pub struct DetokenizeRenderers {
    pub token: fn(TokenView) -> Plaintext,
    pub intent: fn(&TokenIntentView, Option<Plaintext>) -> Plaintext,
}

/// A reference, and what its expressions read. Only a reference that reads the CVC gets it.
#[derive(Debug, Clone, Copy)]
pub struct ReferenceUse<'a> {
    pub reference: &'a Reference,
    pub reads_cvc: bool,
    /// The parts of the data that filters change.
    pub filtered: &'a [FilteredPath],
}

/// The values of references. `P` decides who can read them: [`Plaintext`] for a caller that sees the
/// data, and a type of the API crate for data that only goes into the message of a proxied call.
#[derive(Debug)]
pub struct ReferenceData<P = Plaintext> {
    tokens: BTreeMap<String, ReferenceInput<P>>,
    intents: BTreeMap<TokenIntentId, P>,
    /// The data that the client encrypted for the call.
    encrypted: Option<Arc<DecryptedCallData<P>>>,
}

impl<P> Default for ReferenceData<P> {
    fn default() -> Self {
        Self { tokens: BTreeMap::new(), intents: BTreeMap::new(), encrypted: None }
    }
}

/// The input of expressions for one token.
#[derive(Debug)]
enum ReferenceInput<P> {
    Data(P),
    /// All attributes, including the data.
    FullToken(P),
}

/// The value of a reference.
#[derive(Debug)]
pub enum FoundReference<'a, P> {
    Whole(&'a P),
    /// The attribute `data` of this token.
    DataOf(&'a P),
}

/// The loaded data.
#[derive(Debug)]
pub(crate) struct LoadedReferences<P> {
    pub(crate) data: ReferenceData<P>,
    pub(crate) entities: LoadedEntities,
}

/// The tokens and intents that loaded data belongs to.
#[derive(Debug, Default)]
pub(crate) struct LoadedEntities {
    pub(crate) tokens: Vec<LoadedEntity<TokenRecord>>,
    pub(crate) intents: Vec<LoadedEntity<TokenIntentRecord>>,
}

/// A token or an intent with loaded data.
#[derive(Debug)]
pub(crate) struct LoadedEntity<R> {
    pub(crate) record: R,
    pub(crate) transform: Transform,
    /// The end of the retention of the CVC, if the data contains it.
    pub(crate) cvc_expires_at: Option<Timestamp>,
    /// When a stored answer to the data must end, because it can repeat the CVC.
    pub(crate) answer_ends_at: Option<Timestamp>,
    /// The data, if the caller may use and not read it.
    pub(crate) hidden_data: Option<HiddenData>,
    /// Whether a payer typed the data after the caller got its rights.
    pub(crate) is_withheld: bool,
}

/// Data that the caller may use and not read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HiddenData {
    pub(crate) entity: EvaluatedEntity,
    /// Whether the caller could send the data to a destination of its own, which is the same as
    /// reading it.
    pub(crate) is_sent_anywhere: bool,
    /// Whether the data has a mask, which shows some attributes to every caller with a right to see
    /// it. A caller that may only use the data computes with these attributes, too.
    pub(crate) has_mask: bool,
}

/// The parts of a token that expressions need.
#[derive(Debug, Clone, Copy)]
struct NeededParts {
    is_full_token: bool,
    cvc: bool,
}

/// Loads the data of all references that exist. All tokens are read in one transaction.
/// Errors: no rule allows the caller to read or use a token, or the store is unavailable.
pub(crate) async fn load_references<P: From<Plaintext>>(
    vault: &Vault,
    caller: &Caller,
    access: DataAccess,
    references: &[ReferenceUse<'_>],
    renderers: DetokenizeRenderers,
) -> Result<LoadedReferences<P>, Error> {
    let loader = ReferenceLoader { vault, caller, access, renderers, now: vault.clock.latest() };
    let (mut data, mut entities) = (ReferenceData::default(), LoadedEntities::default());
    let needed_tokens = collect_tokens(references);
    let ids: Vec<_> = needed_tokens.keys().cloned().collect();
    let stored_tokens = vault.store.find_tokens(loader.permit_lookup()?, &ids, loader.now).await?;
    // Rights first: the size of a token is not for callers without them.
    stored_tokens.iter().flatten().try_for_each(|it| loader.permit_token(&it.record).map(drop))?;
    let mut size = DataSize::new(access);
    for ((id, needed), stored) in needed_tokens.into_iter().zip(stored_tokens) {
        let Some(stored) = stored else { continue };
        if !entities.tokens.is_empty() {
            yield_now().await;
        }
        let (input, token) = loader.load_token(stored, needed, &mut size).await?;
        data.tokens.insert(id.as_str().to_owned(), input);
        entities.tokens.push(token);
    }
    for (id, needs_cvc) in collect_intents(references) {
        if let Some((input, token_intent)) = loader.load_intent(id, needs_cvc, &mut size).await? {
            data.intents.insert(id, input.into());
            entities.intents.push(token_intent);
        }
        yield_now().await;
    }
    Ok(LoadedReferences { data, entities })
}

struct ReferenceLoader<'a> {
    vault: &'a Vault,
    caller: &'a Caller,
    access: DataAccess,
    renderers: DetokenizeRenderers,
    now: Timestamp,
}

impl ReferenceLoader<'_> {
    fn permit_lookup(&self) -> Result<LookupPermit, Error> {
        match self.access {
            DataAccess::Read => self.caller.permit_lookup(Permission::TokenRead),
            DataAccess::Use { right, .. } => self.caller.permit_use_lookup(right),
        }
    }

    fn permit_token(&self, record: &TokenRecord) -> Result<Permit, Error> {
        match self.access {
            DataAccess::Read => self.caller.permit(Permission::TokenRead, record),
            DataAccess::Use { right, .. } => self.caller.permit_use(right, record),
        }
    }

    async fn load_token<P: From<Plaintext>>(
        &self,
        mut stored: StoredToken,
        needed: NeededParts,
        size: &mut DataSize,
    ) -> Result<(ReferenceInput<P>, LoadedEntity<TokenRecord>), Error> {
        let Self { vault, now, .. } = *self;
        let permit = self.permit_token(&stored.record)?;
        if !needed.cvc {
            stored.cvc = None;
        }
        stored.resolve_cvc(&vault.epoch_keys, permit.transform(), now).await?;
        let (work, tenant) = (self.caller.work(), self.caller.tenant());
        let body = TokenBody::open_in_step(work, tenant, &stored.record, Ok)?;
        size.add(body.padded_size())?;
        let is_withheld = withholds_typed(self.caller, body.typed_at());
        self.check_destination(is_withheld)?;
        let has_mask = !body.withheld_details && !hides_marked(self.caller, body.is_marked);
        let view = build_view(&permit, &stored, body, Audience::Caller { vault, now })?;
        let transform = view.limit_transform(permit.transform());
        let has_cvc = view.detail.as_ref().is_some_and(|it| it.visible.cvc.is_some());
        let target = (&stored.record).into();
        let hidden_data =
            self.find_hidden_data(target, stored.record.id.as_str(), is_withheld, has_mask);
        let input = if needed.is_full_token {
            let enrichments = enrichment::enrichments(&view, &vault.bin_data);
            let token = (self.renderers.token)(view);
            ReferenceInput::FullToken(with_enrichments(token, enrichments).into())
        } else {
            ReferenceInput::Data(visible_data(view).into())
        };
        let StoredToken { record, cvc } = stored;
        let cvc_expires_at = cvc.filter(|_| has_cvc).map(|it| it.expires_at);
        let reads_cvc = needed.cvc && record.token_type.has_cvc();
        let answer_ends_at = self.find_answer_end(hidden_data, reads_cvc, cvc_expires_at);
        let entity = LoadedEntity {
            record,
            transform,
            cvc_expires_at,
            answer_ends_at,
            hidden_data,
            is_withheld,
        };
        Ok((input, entity))
    }

    /// Checks that the caller sends withheld data to no destination of its own, which is the same as
    /// reading it.
    fn check_destination(&self, is_withheld: bool) -> Result<(), Error> {
        match self.access {
            DataAccess::Use { right: UseRight::EphemeralProxy, .. } if is_withheld => {
                Err(Error::Forbidden(Denial::LaterTypedData))
            }
            DataAccess::Use { .. } | DataAccess::Read => Ok(()),
        }
    }

    /// The entity, if the caller may use and not read its data.
    fn find_hidden_data(
        &self,
        target: AccessTarget<'_>,
        id: &str,
        is_withheld: bool,
        has_mask: bool,
    ) -> Option<HiddenData> {
        let DataAccess::Use { destinations, .. } = self.access else { return None };
        let caller = self.caller;
        let is_hidden = is_withheld
            || caller.transform(Permission::TokenRead, target) != Some(Transform::Reveal);
        is_hidden.then(|| HiddenData {
            entity: EvaluatedEntity::from_id(caller.tenant(), id),
            is_sent_anywhere: caller.sends_anywhere(destinations, target),
            has_mask,
        })
    }

    /// When a stored answer to the data must end. For hidden data the expression decides: otherwise
    /// the end would tell whether there is a CVC, and when it was written.
    fn find_answer_end(
        &self,
        hidden: Option<HiddenData>,
        reads_cvc: bool,
        cvc_expires_at: Option<Timestamp>,
    ) -> Option<Timestamp> {
        if hidden.is_some_and(|it| !it.is_sent_anywhere) {
            return reads_cvc.then(|| hidden_answer_end(self.caller, self.vault.clock.now()));
        }
        cvc_expires_at
    }

    async fn load_intent(
        &self,
        id: TokenIntentId,
        needs_cvc: bool,
        size: &mut DataSize,
    ) -> Result<Option<(Plaintext, LoadedEntity<TokenIntentRecord>)>, Error> {
        let Self { vault, caller, now, .. } = *self;
        let lookup = match self.access {
            DataAccess::Read => caller.permit_lookup(Permission::TokenIntentRead)?,
            DataAccess::Use { .. } => self.permit_lookup()?,
        };
        let Some(stored) = vault.store.find_token_intent(lookup, id, now).await? else {
            return Ok(None);
        };
        let StoredTokenIntent { record, cvc } = stored;
        let (tenant, mut transform) = (caller.tenant(), self.permit_intent(&record)?.transform());
        let intent_body = IntentBody::open(caller.work(), tenant, &record)?;
        size.add(padded_data_size(intent_body.data.expose()))?;
        let typed_at = intent_body.is_typed.then_some(record.created_at);
        let is_withheld = withholds_typed(caller, typed_at);
        self.check_destination(is_withheld)?;
        if is_withheld && matches!(self.access, DataAccess::Read) {
            transform = transform.min(Transform::Mask);
        }
        let target = (&record.containers).into();
        let has_mask = !hides_marked(caller, intent_body.is_marked);
        let hidden_data =
            self.find_hidden_data(target, &record.id.to_string(), is_withheld, has_mask);
        let (mut data, mut cvc_expires_at) = (None, None);
        match transform {
            Transform::Redact => (),
            Transform::Mask => {
                let body = TokenBody { data: intent_body.data.duplicate(), ..TokenBody::default() };
                data = mask_within_budget(caller.work(), record.token_type, &body)?;
            }
            Transform::Reveal => {
                let opened = match cvc.as_ref().filter(|_| needs_cvc) {
                    Some(it) => open_cvc(vault, it, tenant.id, id, now).await?,
                    None => None,
                };
                cvc_expires_at = opened.as_ref().and(cvc.as_ref()).map(|it| it.expires_at);
                data = Some(with_cvc(intent_body.data.duplicate(), opened.as_ref()));
            }
        }
        let reader = match self.access {
            DataAccess::Read if transform != Transform::Reveal => IntentReader::Caller(caller),
            DataAccess::Read | DataAccess::Use { .. } => IntentReader::Use(caller),
        };
        if matches!(reader, IntentReader::Caller(_)) && hides_marked(caller, intent_body.is_marked)
        {
            data = None;
        }
        let view = crate::reveal::token_intent_view(&vault.bin_data, reader, &record, intent_body);
        let input = (self.renderers.intent)(&view, data);
        let reads_cvc = needs_cvc && record.token_type.has_cvc();
        let answer_ends_at = self.find_answer_end(hidden_data, reads_cvc, cvc_expires_at);
        let entity = LoadedEntity {
            record,
            transform,
            cvc_expires_at,
            answer_ends_at,
            hidden_data,
            is_withheld,
        };
        Ok(Some((input, entity)))
    }

    /// To read an intent, the caller needs `token:read` and `token-intent:read` in its containers.
    fn permit_intent(&self, record: &TokenIntentRecord) -> Result<Permit, Error> {
        match self.access {
            DataAccess::Use { right, .. } => self.caller.permit_use(right, &record.containers),
            DataAccess::Read => {
                let permit = self.caller.permit(Permission::TokenRead, &record.containers)?;
                self.caller.permit(Permission::TokenIntentRead, &record.containers)?;
                Ok(permit)
            }
        }
    }
}

/// The ids of the tokens, each once, with the parts that any of its expressions needs. Texts that
/// cannot be an id are skipped.
fn collect_tokens(references: &[ReferenceUse<'_>]) -> BTreeMap<TokenId, NeededParts> {
    let mut tokens = BTreeMap::new();
    for ReferenceUse { reference, reads_cvc, .. } in references {
        let is_full_token = match reference.kind {
            ReferenceKind::Data => false,
            ReferenceKind::Token => true,
            ReferenceKind::TokenIntent => continue,
        };
        let Ok(id) = TokenId::parse(&reference.id) else { continue };
        let nothing = NeededParts { is_full_token: false, cvc: false };
        let needed = tokens.entry(id).or_insert(nothing);
        needed.is_full_token |= is_full_token;
        needed.cvc |= *reads_cvc;
    }
    tokens
}

/// The ids of the intents, and whether any of its expressions needs the CVC.
fn collect_intents(references: &[ReferenceUse<'_>]) -> BTreeMap<TokenIntentId, bool> {
    let mut intents = BTreeMap::new();
    for ReferenceUse { reference, reads_cvc, .. } in references {
        let is_intent = reference.kind == ReferenceKind::TokenIntent;
        let id = TokenIntentId::parse(&reference.id).filter(|_| is_intent);
        if let Some(id) = id {
            *intents.entry(id).or_default() |= *reads_cvc;
        }
    }
    intents
}

impl<P> ReferenceData<P> {
    pub(crate) fn set_encrypted(&mut self, encrypted: Option<Arc<DecryptedCallData<P>>>) {
        self.encrypted = encrypted;
    }

    /// The value of a reference; `None` if nothing with this id was loaded.
    pub fn find(&self, reference: &Reference) -> Option<FoundReference<'_, P>> {
        if let Some(encrypted) = &self.encrypted
            && DecryptedCallData::<P>::is_named_by(reference)
        {
            return Some(FoundReference::Whole(encrypted.value()));
        }
        if reference.kind == ReferenceKind::TokenIntent {
            let intent = self.intents.get(&TokenIntentId::parse(&reference.id)?)?;
            return Some(FoundReference::Whole(intent));
        }
        match (reference.kind, self.tokens.get(&reference.id)?) {
            (ReferenceKind::Data, ReferenceInput::Data(data)) => Some(FoundReference::Whole(data)),
            (ReferenceKind::Data, ReferenceInput::FullToken(token)) => {
                Some(FoundReference::DataOf(token))
            }
            (ReferenceKind::Token, ReferenceInput::FullToken(token)) => {
                Some(FoundReference::Whole(token))
            }
            (ReferenceKind::Token, ReferenceInput::Data(_)) | (ReferenceKind::TokenIntent, _) => {
                None
            }
        }
    }
}

impl<'a, P> FoundReference<'a, P> {
    /// The value, as `expose` shows it.
    pub fn read(self, expose: impl FnOnce(&'a P) -> &'a Value) -> &'a Value {
        const NO_DATA: &Value = &Value::Null;
        match self {
            Self::Whole(value) => expose(value),
            Self::DataOf(token) => expose(token).get("data").unwrap_or(NO_DATA),
        }
    }
}

async fn open_cvc(
    vault: &Vault,
    record: &CvcRecord,
    tenant: TenantId,
    id: TokenIntentId,
    now: Timestamp,
) -> Result<Option<Cvc>, Error> {
    if record.is_unrecoverable(&vault.epoch_keys, now).await? {
        return Ok(None);
    }
    record.open(&vault.epoch_keys, &cvc_place(tenant, id, record.expires_at), now)
}

/// Adds the BIN data of the card as `enrichments`. No response has an attribute of this name.
fn with_enrichments(mut token: Plaintext, enrichments: Option<Value>) -> Plaintext {
    if let (Some(enrichments), Some(object)) = (enrichments, token.expose_mut().as_object_mut()) {
        object.insert("enrichments".to_owned(), enrichments);
    }
    token
}

/// The data of a view; null if the transform shows no data.
fn visible_data(view: TokenView) -> Plaintext {
    view.detail.and_then(|it| it.visible.into_data()).unwrap_or_default()
}

/// The error of an expression, with the path of its text in the body.
pub(crate) fn expression_error(error: LeafError) -> Error {
    let path = AttributePath::from_steps(&error.path);
    let path = if error.path.is_empty() { "body" } else { path.as_str() };
    FieldError::from_expression_error(path.to_owned(), error.cause).into()
}
