//! Detokenize: replaces expressions that name tokens by the data that the caller may see.

use scrip_expression::{Detokenization, Reference, Scope};
use serde_json::Value;

use crate::{
    Error, Vault, audit,
    equality::EvaluatedEntity,
    expression::compilation::ReplayableRandom,
    operations::{
        check_request_quota,
        reference_data::{
            DataAccess, DetokenizeRenderers, LoadedReferences, ReferenceUse, expression_error,
            load_references,
        },
    },
    policy::Caller,
    read_log::ReadLogEntry,
    types::{Operation, Plaintext, Transform},
    work_meter::{EvaluationAttempt, EvaluationInput},
};

/// Errors: an expression is invalid, an id does not exist, no rule allows the caller to read a
/// token, or the reads cannot be recorded.
pub async fn detokenize(
    vault: &Vault,
    caller: &Caller,
    body: &Plaintext,
    renderers: DetokenizeRenderers,
) -> Result<Plaintext, Error> {
    let detokenization = Detokenization::parse(body.expose()).map_err(expression_error)?;
    let limit = caller.tenant().quotas.detokenize_limit;
    check_request_quota(detokenization.token_count(), limit, "detokenize_limit")?;

    let references = detokenization.references().iter();
    let references =
        references.map(|reference| ReferenceUse { reference, reads_cvc: true, filtered: &[] });
    let references: Vec<_> = references.collect();
    let LoadedReferences { data, entities: loaded } =
        load_references::<Plaintext>(vault, caller, DataAccess::Read, &references, renderers)
            .await?;
    // A caller with a mask learns from a failing expression what the mask shows of other data.
    let masked_tokens = loaded.tokens.iter().filter(|it| it.transform != Transform::Reveal);
    let to_data = |id: &str| EvaluatedEntity::from_id(caller.tenant(), id);
    let masked: Vec<_> = masked_tokens.map(|it| to_data(it.record.id.as_str())).collect();
    vault.check_rejected_evaluations(caller, &masked).await?;
    // The reads are recorded before the evaluation, because an expression that fails also reveals
    // something about the data.
    let entries =
        loaded.tokens.iter().map(|it| ReadLogEntry::for_token(&it.record, it.transform)).collect();
    let tokens = loaded.tokens.iter().map(|it| (&it.record.id, it.record.token_type));
    vault.record_token_reads(caller, Operation::Detokenize, entries, tokens).await?;
    let entries = loaded
        .intents
        .iter()
        .map(|it| ReadLogEntry::new(it.record.id.to_string(), audit::read_outcome(it.transform)));
    vault.record_reads(caller, Operation::DetokenizeTokenIntent, entries.collect()).await?;

    let random = ReplayableRandom::new(vault.fill_random);
    let resolve_reference = |it: &Reference| data.find(it).map(|it| it.read(Plaintext::expose));
    let attempt = caller.work().run(EvaluationInput::Known, |work_max| {
        random.rewind();
        let scope =
            Scope::new(&Value::Null, None).with_host_functions(&random).with_work_limit(work_max);
        EvaluationAttempt {
            result: detokenization.evaluate(&resolve_reference, &scope),
            spent: scope.spent_work(),
        }
    });
    match attempt.result {
        Ok(value) => Ok(Plaintext::new(value)),
        Err(error) => {
            vault.count_rejected_evaluation(caller, &masked).await?;
            Err(expression_error(error))
        }
    }
}
