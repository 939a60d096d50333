//! Detokenize: texts that name tokens become what the caller may see of these.

use std::collections::{BTreeMap, BTreeSet};

use scrip_expression::{Detokenization, LeafError, Reference, ReferenceKind, Scope};
use serde_json::Value;

use crate::{
    Error, FieldError, Timestamp, Vault,
    audit::{self, Operation, Seen},
    id::{TenantId, TokenId, TokenIntentId},
    operations::{check_count, give_way},
    policy::{Caller, Permission, Transform},
    token::{
        AttributePath, Body, Cvc, CvcRecord, Plain, StoredToken, StoredTokenIntent,
        TokenIntentView, TokenView,
        cvc::with_cvc,
        expression::{compiled::Draw, enrichment, work::Attempt},
        intent::{self, IntentBody, cvc_place},
        reveal::{Audience, mask_to_show, reveal},
    },
};

/// What expressions see of a token.
enum Shown {
    Data(Plain),
    /// With all its attributes, the data among them.
    Whole(Plain),
}

/// What belongs to whoever knows the wire: a token as Get Token shows it, and an intent with its
/// data.
#[derive(Debug, Clone, Copy)]
pub struct Wholes {
    pub token: fn(TokenView) -> Plain,
    pub intent: fn(&TokenIntentView, Option<Plain>) -> Plain,
}

/// # Errors
/// A text cannot be read, nobody has an id, no rule lets the caller read a token, or the reads
/// cannot be recorded.
pub async fn detokenize(
    vault: &Vault,
    caller: &Caller,
    body: &Plain,
    wholes: Wholes,
) -> Result<Plain, Error> {
    let now = vault.clock.latest();
    let detokenization = Detokenization::parse(body.expose()).map_err(unusable)?;
    let limit = caller.tenant().quotas.detokenize_limit;
    check_count(detokenization.token_count(), limit, "detokenize_limit")?;

    let named = named(detokenization.references());
    let ids: Vec<_> = named.keys().cloned().collect();
    let inquiry = caller.inquire(Permission::TokenRead)?;
    let found = vault.store.find_tokens(inquiry, &ids, now).await?;
    let (mut seen, mut recorded) = (BTreeMap::new(), Vec::new());
    for ((id, kind), stored) in named.into_iter().zip(found) {
        let Some(mut stored) = stored else { continue };
        let (view, transform) = view(vault, caller, &mut stored, now).await?;
        recorded.push(Seen::token(&stored.record, transform));
        let shown = if kind == ReferenceKind::Token {
            let enrichments = enrichment::of(&view, &vault.bins);
            Shown::Whole(with_enrichments((wholes.token)(view), enrichments))
        } else {
            Shown::Data(data(view))
        };
        seen.insert(id.as_str().to_owned(), shown);
        give_way().await;
    }
    let (mut intents, mut recorded_intents) = (BTreeMap::new(), Vec::new());
    for id in named_intents(detokenization.references()) {
        if let Some((seen, transform)) = intent(vault, caller, id, wholes, now).await? {
            recorded_intents.push(Seen::new(id.to_string(), audit::seen(transform)));
            intents.insert(id, seen);
        }
        give_way().await;
    }
    // Before anything is made of them: an expression that fails tells something, too.
    vault.record_seen(caller, Operation::Detokenize, recorded).await?;
    vault.record_seen(caller, Operation::DetokenizeTokenIntent, recorded_intents).await?;
    let draw = Draw::new(vault.chance);
    let resolve = |it: &Reference| match it.kind {
        ReferenceKind::TokenIntent => {
            intents.get(&TokenIntentId::parse(&it.id)?).map(Plain::expose)
        }
        ReferenceKind::Data | ReferenceKind::Token => resolve(&seen, it),
    };
    let attempt = caller.work().run(|work_max| {
        draw.begin_again();
        let scope = Scope::new(&Value::Null, None).with_outside(&draw).within_work(work_max);
        Attempt { result: detokenization.evaluate(&resolve, &scope), spent: scope.spent() }
    });
    let value = attempt.result.map_err(unusable)?;
    Ok(Plain::new(value))
}

/// Each token once, and whether any expression wants all of it. A text that cannot be an id is
/// nobody's.
fn named(references: &[Reference]) -> BTreeMap<TokenId, ReferenceKind> {
    let mut named = BTreeMap::new();
    for reference in references.iter().filter(|it| it.kind != ReferenceKind::TokenIntent) {
        let Ok(id) = TokenId::parse(&reference.id) else { continue };
        let kind = named.entry(id).or_insert(reference.kind);
        if reference.kind == ReferenceKind::Token {
            *kind = ReferenceKind::Token;
        }
    }
    named
}

fn named_intents(references: &[Reference]) -> BTreeSet<TokenIntentId> {
    let intents = references.iter().filter(|it| it.kind == ReferenceKind::TokenIntent);
    intents.filter_map(|it| TokenIntentId::parse(&it.id)).collect()
}

/// Shown by the right to read tokens in the intent's containers.
async fn intent(
    vault: &Vault,
    caller: &Caller,
    id: TokenIntentId,
    wholes: Wholes,
    now: Timestamp,
) -> Result<Option<(Plain, Transform)>, Error> {
    let inquiry = caller.inquire(Permission::TokenIntentRead)?;
    let Some(found) = vault.store.find_token_intent(inquiry, id, now).await? else {
        return Ok(None);
    };
    let StoredTokenIntent { record, cvc } = found;
    let tenant = caller.tenant();
    let permit = caller.permit(Permission::TokenRead, &record.containers)?;
    caller.permit(Permission::TokenIntentRead, &record.containers)?;
    let opened = IntentBody::open(tenant, &record)?;
    let data = match permit.transform() {
        Transform::Redact => None,
        Transform::Mask => {
            let body = Body { data: opened.data.duplicate(), ..Body::default() };
            mask_to_show(caller.work(), record.token_type, &body)?
        }
        Transform::Reveal => {
            let cvc = match &cvc {
                Some(it) => open_code(vault, it, tenant.id, id, now).await?,
                None => None,
            };
            Some(with_cvc(opened.data.duplicate(), cvc.as_ref()))
        }
    };
    let view = intent::view(&vault.bins, tenant, &record, opened);
    Ok(Some(((wholes.intent)(&view, data), permit.transform())))
}

async fn open_code(
    vault: &Vault,
    record: &CvcRecord,
    tenant: TenantId,
    id: TokenIntentId,
    now: Timestamp,
) -> Result<Option<Cvc>, Error> {
    if record.is_gone(&vault.epochs, now).await? {
        return Ok(None);
    }
    record.open(&vault.epochs, &cvc_place(tenant, id, record.expires_at), now)
}

async fn view(
    vault: &Vault,
    caller: &Caller,
    stored: &mut StoredToken,
    now: Timestamp,
) -> Result<(TokenView, Transform), Error> {
    let permit = caller.permit(Permission::TokenRead, &stored.record)?;
    stored.settle_cvc(&vault.epochs, permit.transform(), now).await?;
    let view = reveal(&permit, stored, Audience::Caller { vault, now })?;
    Ok((view, permit.transform()))
}

/// What is known of its card besides, under a name that no answer has.
fn with_enrichments(mut whole: Plain, enrichments: Option<Value>) -> Plain {
    if let (Some(known), Some(object)) = (enrichments, whole.expose_mut().as_object_mut()) {
        object.insert("enrichments".to_owned(), known);
    }
    whole
}

/// Where the transform leaves nothing of the data, it is null.
fn data(view: TokenView) -> Plain {
    view.detail.and_then(|it| it.shown.into_data()).unwrap_or_default()
}

fn resolve<'v>(seen: &'v BTreeMap<String, Shown>, reference: &Reference) -> Option<&'v Value> {
    const NOTHING: &Value = &Value::Null;
    match (reference.kind, seen.get(&reference.id)?) {
        (ReferenceKind::Data, Shown::Data(data)) => Some(data.expose()),
        (ReferenceKind::Data, Shown::Whole(token)) => {
            Some(token.expose().get("data").unwrap_or(NOTHING))
        }
        (ReferenceKind::Token, Shown::Whole(token)) => Some(token.expose()),
        (ReferenceKind::Token, Shown::Data(_)) | (ReferenceKind::TokenIntent, _) => None,
    }
}

fn unusable(error: LeafError) -> Error {
    let path = AttributePath::of(&error.path);
    let path = if error.path.is_empty() { "body" } else { path.as_str() };
    FieldError::expression(path.to_owned(), error.cause).into()
}
