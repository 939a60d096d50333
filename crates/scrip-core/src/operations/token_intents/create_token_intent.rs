//! Create Token Intent.

use scrip_seal::Sealed;

use crate::{
    Error, FieldError, Vault,
    audit::{AuditRecord, Operation},
    id::{TokenIntentId, random_uuid},
    idempotency::{Remember, answer::seal_permitted_answer},
    policy::{
        Caller, Permission,
        guessing_budget::{EvaluatedNumbers, Fingerprinting},
    },
    store::Beside,
    token::{
        Body, Containers, NewTokenIntent, StoredTokenIntent, TokenIntentRecord, TokenIntentView,
        TokenType,
        cvc::{cvc_end, prepare_cvc, take_cvc},
        expression::evaluation::{Evaluated, Evaluation, Failures},
        intent::{IntentBody, cvc_place, view},
    },
};

/// # Errors
/// The data breaks a rule of its type, or no rule lets the caller create an intent there.
pub async fn create_token_intent(
    vault: &Vault,
    caller: &Caller,
    new: NewTokenIntent,
    remember: Option<Remember<TokenIntentView>>,
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
    let body = Body { data, search_indexes: Some(Vec::new()), ..Body::default() };
    let failures = Failures::Report;
    let evaluation = Evaluation { caller, token_type, body: &body, vault, failures };
    let Evaluated { fingerprint, texts, .. } = evaluation.evaluate()?;
    let evaluated = EvaluatedNumbers { token_type, data: &body.data, texts: &texts };
    let counted = vault.count_numbers(caller, evaluated).await?;
    let fingerprint = fingerprint.filter(|_| counted == Fingerprinting::On);
    let body = IntentBody { data: body.data, authentication };
    let mut record = TokenIntentRecord {
        id: TokenIntentId(random_uuid(vault.chance)),
        token_type,
        fingerprint,
        containers,
        created_by: caller.application(),
        created_at: now,
        expires_at: now.after(tenant.quotas.token_intent_retention()),
        body: Sealed::from_stored(Vec::new()),
    };
    record.body = body.seal(tenant, &record)?;
    if cvc.is_some() {
        prepare_cvc(&vault.epochs, caller, now).await?;
    }
    let cvc = cvc.map(|it| {
        let ends = cvc_end(caller, now);
        it.seal(&vault.epochs, &cvc_place(tenant.id, record.id, ends), ends)
    });
    let cvc = cvc.transpose()?;
    let seen = view(&vault.bins, tenant, &record, body);
    let answer = remember
        .as_ref()
        .map(|it| seal_permitted_answer(&permit, it.claim.digest, (it.render)(&seen), None, now));
    let audit = AuditRecord::new(Operation::CreateTokenIntent, caller, now);
    let written = Beside { audit, entity: record.id.to_string(), answer: answer.transpose()? };
    let inquiry = caller.inquire(Permission::TokenIntentCreate)?;
    let intent = StoredTokenIntent { record, cvc };
    vault.store.insert_token_intent(inquiry, intent, written).await?;
    Ok(seen)
}

/// The container of the first rule that lets the caller create intents: an application with rules on
/// the containers of one merchant creates intents there. Otherwise the type's default.
fn default_containers(caller: &Caller, token_type: TokenType) -> Containers {
    let ruled = caller.principal().first_container(Permission::TokenIntentCreate);
    Containers::from(ruled.unwrap_or_else(|| token_type.default_container()))
}
