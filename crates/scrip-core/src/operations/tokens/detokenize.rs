//! Detokenize: replaces expressions that name tokens by the data that the caller may see.

use std::collections::{BTreeMap, BTreeSet};

use scrip_expression::{Detokenization, LeafError, Reference, ReferenceKind, Scope};
use serde_json::Value;

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::{self, Operation, ReadLogEntry},
    id::{TenantId, TokenId, TokenIntentId},
    operations::{check_request_quota, yield_now},
    policy::{Caller, Permission, Transform},
    token::{
        AttributePath, Cvc, CvcRecord, Plaintext, StoredToken, StoredTokenIntent, TokenBody,
        TokenIntentView, TokenView,
        cvc::with_cvc,
        expression::{compilation::ReplayableRandom, enrichment, work_meter::EvaluationAttempt},
        intent::{self, IntentBody, cvc_place},
        reveal::{Audience, mask_within_budget, reveal},
    },
};

/// The input of expressions for one token.
enum DetokenizeInput {
    Data(Plaintext),
    /// All attributes, including the data.
    FullToken(Plaintext),
}

/// Functions of the API crate that render a token as in Get Token, and an intent with its data.
#[derive(Debug, Clone, Copy)]
pub struct DetokenizeRenderers {
    pub token: fn(TokenView) -> Plaintext,
    pub intent: fn(&TokenIntentView, Option<Plaintext>) -> Plaintext,
}

/// # Errors
/// An expression is invalid, an id does not exist, no rule allows the caller to read a token, or
/// the reads cannot be recorded.
pub async fn detokenize(
    vault: &Vault,
    caller: &Caller,
    body: &Plaintext,
    renderers: DetokenizeRenderers,
) -> Result<Plaintext, Error> {
    let now = vault.clock.latest();
    let detokenization = Detokenization::parse(body.expose()).map_err(expression_error)?;
    let limit = caller.tenant().quotas.detokenize_limit;
    check_request_quota(detokenization.token_count(), limit, "detokenize_limit")?;

    let references = collect_token_ids(detokenization.references());
    let ids: Vec<_> = references.keys().cloned().collect();
    let lookup = caller.permit_lookup(Permission::TokenRead)?;
    let stored_tokens = vault.store.find_tokens(lookup, &ids, now).await?;
    let (mut inputs, mut entries) = (BTreeMap::new(), Vec::new());
    for ((id, kind), stored) in references.into_iter().zip(stored_tokens) {
        let Some(mut stored) = stored else { continue };
        let (view, transform) = load_view(vault, caller, &mut stored, now).await?;
        entries.push(ReadLogEntry::for_token(&stored.record, transform));
        let input = if kind == ReferenceKind::Token {
            let enrichments = enrichment::enrichments(&view, &vault.bin_data);
            DetokenizeInput::FullToken(with_enrichments((renderers.token)(view), enrichments))
        } else {
            DetokenizeInput::Data(visible_data(view))
        };
        inputs.insert(id.as_str().to_owned(), input);
        yield_now().await;
    }
    let (mut intents, mut intent_entries) = (BTreeMap::new(), Vec::new());
    for id in collect_intent_ids(detokenization.references()) {
        if let Some((visible_intent, transform)) =
            load_intent(vault, caller, id, renderers, now).await?
        {
            intent_entries.push(ReadLogEntry::new(id.to_string(), audit::read_outcome(transform)));
            intents.insert(id, visible_intent);
        }
        yield_now().await;
    }
    // The reads are recorded before the evaluation, because an expression that fails also reveals
    // something about the data.
    vault.record_reads(caller, Operation::Detokenize, entries).await?;
    vault.record_reads(caller, Operation::DetokenizeTokenIntent, intent_entries).await?;
    let random = ReplayableRandom::new(vault.fill_random);
    let resolve_reference = |it: &Reference| match it.kind {
        ReferenceKind::TokenIntent => {
            intents.get(&TokenIntentId::parse(&it.id)?).map(Plaintext::expose)
        }
        ReferenceKind::Data | ReferenceKind::Token => resolve(&inputs, it),
    };
    let attempt = caller.work().run(|work_max| {
        random.rewind();
        let scope =
            Scope::new(&Value::Null, None).with_host_functions(&random).with_work_limit(work_max);
        EvaluationAttempt {
            result: detokenization.evaluate(&resolve_reference, &scope),
            spent: scope.spent_work(),
        }
    });
    let value = attempt.result.map_err(expression_error)?;
    Ok(Plaintext::new(value))
}

/// The ids of the tokens, each once. The kind is [`ReferenceKind::Token`] if an expression needs
/// all attributes of the token. Texts that cannot be an id are skipped.
fn collect_token_ids(references: &[Reference]) -> BTreeMap<TokenId, ReferenceKind> {
    let mut kinds = BTreeMap::new();
    for reference in references.iter().filter(|it| it.kind != ReferenceKind::TokenIntent) {
        let Ok(id) = TokenId::parse(&reference.id) else { continue };
        let kind = kinds.entry(id).or_insert(reference.kind);
        if reference.kind == ReferenceKind::Token {
            *kind = ReferenceKind::Token;
        }
    }
    kinds
}

fn collect_intent_ids(references: &[Reference]) -> BTreeSet<TokenIntentId> {
    let intents = references.iter().filter(|it| it.kind == ReferenceKind::TokenIntent);
    intents.filter_map(|it| TokenIntentId::parse(&it.id)).collect()
}

/// Renders an intent. The caller needs `token:read` and `token-intent:read` in its containers.
async fn load_intent(
    vault: &Vault,
    caller: &Caller,
    id: TokenIntentId,
    renderers: DetokenizeRenderers,
    now: Timestamp,
) -> Result<Option<(Plaintext, Transform)>, Error> {
    let lookup = caller.permit_lookup(Permission::TokenIntentRead)?;
    let Some(stored) = vault.store.find_token_intent(lookup, id, now).await? else {
        return Ok(None);
    };
    let StoredTokenIntent { record, cvc } = stored;
    let tenant = caller.tenant();
    let permit = caller.permit(Permission::TokenRead, &record.containers)?;
    caller.permit(Permission::TokenIntentRead, &record.containers)?;
    let intent_body = IntentBody::open(tenant, &record)?;
    let data = match permit.transform() {
        Transform::Redact => None,
        Transform::Mask => {
            let body = TokenBody { data: intent_body.data.duplicate(), ..TokenBody::default() };
            mask_within_budget(caller.work(), record.token_type, &body)?
        }
        Transform::Reveal => {
            let cvc = match &cvc {
                Some(it) => open_cvc(vault, it, tenant.id, id, now).await?,
                None => None,
            };
            Some(with_cvc(intent_body.data.duplicate(), cvc.as_ref()))
        }
    };
    let view = intent::token_intent_view(&vault.bin_data, tenant, &record, intent_body);
    Ok(Some(((renderers.intent)(&view, data), permit.transform())))
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

async fn load_view(
    vault: &Vault,
    caller: &Caller,
    stored: &mut StoredToken,
    now: Timestamp,
) -> Result<(TokenView, Transform), Error> {
    let permit = caller.permit(Permission::TokenRead, &stored.record)?;
    stored.resolve_cvc(&vault.epoch_keys, permit.transform(), now).await?;
    let view = reveal(&permit, stored, Audience::Caller { vault, now })?;
    Ok((view, permit.transform()))
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

fn resolve<'v>(
    inputs: &'v BTreeMap<String, DetokenizeInput>,
    reference: &Reference,
) -> Option<&'v Value> {
    const NO_DATA: &Value = &Value::Null;
    match (reference.kind, inputs.get(&reference.id)?) {
        (ReferenceKind::Data, DetokenizeInput::Data(data)) => Some(data.expose()),
        (ReferenceKind::Data, DetokenizeInput::FullToken(token)) => {
            Some(token.expose().get("data").unwrap_or(NO_DATA))
        }
        (ReferenceKind::Token, DetokenizeInput::FullToken(token)) => Some(token.expose()),
        (ReferenceKind::Token, DetokenizeInput::Data(_)) | (ReferenceKind::TokenIntent, _) => None,
    }
}

fn expression_error(error: LeafError) -> Error {
    let path = AttributePath::from_steps(&error.path);
    let path = if error.path.is_empty() { "body" } else { path.as_str() };
    FieldError::from_expression_error(path.to_owned(), error.cause).into()
}
