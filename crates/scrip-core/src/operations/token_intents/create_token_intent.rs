//! Create Token Intent.

use scrip_seal::Sealed;

use crate::{
    Error, FieldError, Vault,
    audit::{AuditRecord, Operation},
    id::{TokenIntentId, random_uuid},
    idempotency::{ResponseRecorder, response::seal_permitted_response},
    policy::{
        Caller, Permission,
        guessing_budget::{EvaluatedNumbers, FingerprintDisclosure},
    },
    store::CommitExtras,
    token::{
        Containers, NewTokenIntent, StoredTokenIntent, TokenBody, TokenIntentRecord,
        TokenIntentView, TokenType,
        cvc::{cvc_expiry, load_cvc_key, take_cvc},
        expression::evaluation::{Evaluation, EvaluationResult, FailureMode},
        intent::{IntentBody, cvc_place, token_intent_view},
    },
};

/// # Errors
/// The data breaks a rule of its type, or no rule lets the caller create an intent there.
pub async fn create_token_intent(
    vault: &Vault,
    caller: &Caller,
    new: NewTokenIntent,
    recorder: Option<ResponseRecorder<TokenIntentView>>,
) -> Result<TokenIntentView, Error> {
    let (tenant, now) = (caller.tenant(), vault.clock.now());
    let NewTokenIntent { token_type, mut data, containers, authentication } = new;
    let containers = containers.unwrap_or_else(|| default_containers(caller, token_type));
    let permit = caller.permit(Permission::TokenIntentCreate, &containers)?;
    token_type.check(data.expose_mut(), tenant.kind).map_err(Error::Invalid)?;
    if authentication.is_some() && token_type != TokenType::NetworkToken {
        return Err(FieldError::new("authentication", "is for a network_token only").into());
    }
    let cvc = take_cvc(token_type, &mut data);
    // By the type's own expression, which is what a token made of it will have, too.
    let body = TokenBody { data, search_indexes: Some(Vec::new()), ..TokenBody::default() };
    let failures = FailureMode::Report;
    let evaluation = Evaluation { caller, token_type, body: &body, vault, failure_mode: failures };
    let EvaluationResult { fingerprint, texts, .. } = evaluation.evaluate()?;
    let evaluated = EvaluatedNumbers { token_type, data: &body.data, texts: &texts };
    let counted = vault.count_numbers(caller, evaluated).await?;
    let fingerprint = fingerprint.filter(|_| counted == FingerprintDisclosure::Allowed);
    let body = IntentBody { data: body.data, authentication };
    let mut record = TokenIntentRecord {
        id: TokenIntentId(random_uuid(vault.fill_random)),
        token_type,
        fingerprint,
        containers,
        created_by: caller.application(),
        created_at: now,
        expires_at: now.plus(tenant.quotas.token_intent_retention()),
        body: Sealed::from_stored(Vec::new()),
    };
    record.body = body.seal(tenant, &record)?;
    if cvc.is_some() {
        load_cvc_key(&vault.epoch_keys, caller, now).await?;
    }
    let cvc = cvc.map(|it| {
        let ends = cvc_expiry(caller, now);
        it.seal(&vault.epoch_keys, &cvc_place(tenant.id, record.id, ends), ends)
    });
    let cvc = cvc.transpose()?;
    let shown_intent = token_intent_view(&vault.bin_data, tenant, &record, body);
    let idempotency = recorder.as_ref().map(|it| {
        seal_permitted_response(&permit, it.claim.digests, (it.render)(&shown_intent), None, now)
    });
    let audit = AuditRecord::new(Operation::CreateTokenIntent, caller, now);
    let extras = CommitExtras {
        audit,
        entity: record.id.to_string(),
        idempotency: idempotency.transpose()?,
    };
    let lookup = caller.permit_lookup(Permission::TokenIntentCreate)?;
    let intent = StoredTokenIntent { record, cvc };
    vault.store.insert_token_intent(lookup, intent, extras).await?;
    Ok(shown_intent)
}

/// The container of the first rule that lets the caller create intents: an application with rules on
/// the containers of one merchant creates intents there. Otherwise the type's default.
fn default_containers(caller: &Caller, token_type: TokenType) -> Containers {
    let ruled = caller.principal().first_container(Permission::TokenIntentCreate);
    Containers::from(ruled.unwrap_or_else(|| token_type.default_container()))
}
