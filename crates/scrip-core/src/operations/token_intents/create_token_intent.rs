//! Create Token Intent.

use scrip_seal::{Fingerprint, Sealed};

use crate::{
    Error, FieldError, Vault,
    audit::AuditRecord,
    card::TokenType,
    change::CommitExtras,
    disclosure::{
        check_data, check_field_place, check_no_added_rights, hides_marked, marks_encrypted,
        may_digest_marked, misplaces_field_values,
    },
    equality::{Comparable, evaluated_numbers::EvaluatedNumbers},
    events::{EventSource, payload},
    idempotency::{ResponseRecorder, response::seal_permitted_response},
    policy::Caller,
    reveal::{IntentReader, token_intent_view},
    token::{
        IntentData, NewTokenIntent, StoredTokenIntent, TokenBody, TokenIntentRecord,
        TokenIntentView,
        body::{cvc_expiry, load_cvc_key, take_cvc},
        intent::{IntentBody, cvc_place},
    },
    types::{
        Containers, DisclosureRule, EventType, Operation, Permission,
        id::{TokenIntentId, random_uuid},
    },
    writes::evaluation::{Evaluation, EvaluationResult, FailureMode},
};

/// Errors: the data is invalid for its type, or no rule allows the caller to create an intent in
/// its containers.
pub async fn create_token_intent(
    vault: &Vault,
    caller: &Caller,
    new: NewTokenIntent,
    recorder: Option<ResponseRecorder<TokenIntentView>>,
) -> Result<TokenIntentView, Error> {
    let (tenant, now) = (caller.tenant(), vault.clock.now());
    let NewTokenIntent { token_type, data, containers, authentication } = new;
    let containers = containers.unwrap_or_else(|| default_containers(caller, token_type));
    let permit = caller.permit(Permission::TokenIntentCreate, &containers)?;
    check_field_place(caller, Permission::TokenIntentCreate, token_type, (&containers).into())?;
    let is_marked = is_marked(caller, token_type, &data);
    let is_typed = caller.carries_typed_values() || matches!(data, IntentData::Encrypted(_));
    let (mut data, failure_mode) = match data {
        IntentData::Clear(data) if hides_marked(caller, is_marked) => (data, FailureMode::Hide),
        IntentData::Clear(data) => (data, FailureMode::Report),
        IntentData::Encrypted(encrypted) => {
            // The caller need not know the data, so it must not gain a right by its choice of
            // containers.
            if vault.disclosure.applies(DisclosureRule::StrongerRight) {
                let default = Containers::from(token_type.default_container());
                check_no_added_rights(caller, token_type, (&default).into(), (&containers).into())?;
            }
            (encrypted.decrypt(caller, vault.clock.latest())?, FailureMode::Hide)
        }
    };
    check_data(caller, token_type, &mut data, is_marked)?;
    if authentication.is_some() && token_type != TokenType::NetworkToken {
        return Err(FieldError::new("authentication", "is only for a network_token").into());
    }
    let cvc = take_cvc(token_type, &mut data);
    // The fingerprint uses the default expression of the type, so a token from this intent has the
    // same fingerprint.
    let body = TokenBody { data, search_indexes: Some(Vec::new()), ..TokenBody::default() };
    let evaluation = Evaluation::new(vault, caller, token_type, &body, failure_mode);
    let may_digest = !is_marked || may_digest_marked(caller, &containers);
    let fingerprint = compute_fingerprint(&evaluation, may_digest).await?;
    let body = IntentBody { data: body.data, authentication, is_marked, is_typed };
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
    let cvc_expires_at = cvc_expiry(caller, now);
    let place = cvc_place(tenant.id, record.id, cvc_expires_at);
    let cvc = cvc.map(|it| it.seal(&vault.epoch_keys, &place, cvc_expires_at)).transpose()?;
    let view = token_intent_view(&vault.bin_data, IntentReader::Caller(caller), &record, body);
    let idempotency = recorder.as_ref().map(|it| {
        seal_permitted_response(&permit, it.claim.digests, (it.render)(&view), None, now)
    });
    let audit = AuditRecord::new(Operation::CreateTokenIntent, caller, now);
    let deliveries = EventSource::new(tenant, &audit, vault.fill_random)
        .raise(EventType::TokenIntentCreated, || payload::token::describe_intent(&record));
    let extras = CommitExtras {
        audit,
        entity: record.id.to_string(),
        idempotency: idempotency.transpose()?,
        deliveries,
    };
    let lookup = caller.permit_lookup(Permission::TokenIntentCreate)?;
    let intent = StoredTokenIntent { record, cvc };
    vault.store.insert_token_intent(lookup, intent, extras).await?;
    Ok(view)
}

/// The fingerprint, if it may be compared.
async fn compute_fingerprint(
    evaluation: &Evaluation<'_>,
    may_digest: bool,
) -> Result<Option<Fingerprint>, Error> {
    let EvaluationResult { fingerprint, texts, .. } = evaluation.evaluate()?;
    // A counter of data that is not compared would tell the caller about it.
    if !may_digest {
        return Ok(None);
    }
    let Evaluation { vault, caller, token_type, body, failure_mode, .. } = evaluation;
    let evaluated = EvaluatedNumbers {
        token_type: *token_type,
        data: &body.data,
        texts: &texts,
        is_known: *failure_mode == FailureMode::Report,
        tokens: 1,
    };
    let comparison = vault.may_compare(caller, Comparable::Token(evaluated)).await?;
    Ok(fingerprint.filter(|_| comparison.is_some()))
}

/// The container of the first rule that allows the caller to create intents. Thus an application
/// with rules on the containers of one merchant creates intents there. Without such a rule, the
/// default container of the type.
fn default_containers(caller: &Caller, token_type: TokenType) -> Containers {
    let rule_container = caller.principal().first_container(Permission::TokenIntentCreate);
    Containers::from(rule_container.unwrap_or_else(|| token_type.default_container()))
}

/// Whether the page that sent the data must not learn anything about it.
fn is_marked(caller: &Caller, token_type: TokenType, data: &IntentData) -> bool {
    let holds_hidden_value = match data {
        IntentData::Clear(data) => misplaces_field_values(caller, token_type, data.expose()),
        IntentData::Encrypted(_) => marks_encrypted(caller, token_type),
    };
    caller.marks_fields() || holds_hidden_value
}
