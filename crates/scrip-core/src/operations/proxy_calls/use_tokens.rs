//! Loads the data of the tokens and intents that a proxied call names.

use std::sync::Arc;

use crate::{
    Error, Timestamp, Vault,
    audit::{Operation, ReadLogEntry},
    id::TokenIntentId,
    idempotency::proxy_call::CallTarget,
    operations::{
        check_request_quota,
        proxy_calls::decrypt_call_data::{DecryptedCallData, DecryptedPart},
        reference_data::{
            DataAccess, DetokenizeRenderers, LoadedEntities, ReferenceData, ReferenceUse,
            load_references,
        },
    },
    policy::{
        Caller, Permission, Transform, UseRight,
        guessing_budget::{EvaluatedData, conditional_evaluations::TestedCondition},
    },
    token::{DataPlace, Plaintext},
};
use scrip_expression::ReferenceKind;

/// The tokens, intents and encrypted data that a call uses, for its records.
#[derive(Debug, Default)]
pub struct UsedTokens {
    loaded: LoadedEntities,
    encrypted: Option<Arc<[DecryptedPart]>>,
}

/// The tokens of a call, and the data for its expressions. Call `start_proxy_call` before any of the
/// data leaves, or `record_rejected_use` if the call is rejected.
#[derive(Debug)]
pub struct TokenUse<P> {
    pub used: UsedTokens,
    pub data: ReferenceData<P>,
}

impl<P> Default for TokenUse<P> {
    fn default() -> Self {
        Self { used: UsedTokens::default(), data: ReferenceData::default() }
    }
}

/// The references of a call, and the conditions that its headers test.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallReferences<'a> {
    pub references: &'a [ReferenceUse<'a>],
    /// Header expressions that read the body as it is sent, and whose outcome depends on it. They test
    /// all data of the call.
    pub body_conditions: &'a [String],
}

/// Loads the data and wraps it in `P`. An unknown token has no data, and the evaluation of its
/// expression fails. Conditions on data that the caller may not read are counted here, before the
/// evaluation.
///
/// # Errors
/// The call names more tokens than the quota allows, no rule allows the caller to use a token, a
/// budget is exhausted, or the store is unavailable.
pub async fn use_tokens<P: From<Plaintext>>(
    vault: &Vault,
    caller: &Caller,
    right: UseRight,
    call: CallReferences<'_>,
    renderers: DetokenizeRenderers,
    encrypted: Option<Arc<DecryptedCallData<P>>>,
) -> Result<TokenUse<P>, Error> {
    let names_encrypted = |it: &ReferenceUse<'_>| {
        encrypted.is_some() && DecryptedCallData::<P>::is_named_by(it.reference)
    };
    let is_token = |it: &&ReferenceUse<'_>| !names_encrypted(it);
    let references: Vec<_> = call.references.iter().filter(is_token).copied().collect();
    let encrypted_count = encrypted.as_ref().map_or(0, |it| it.parts.len());
    let count = count_tokens(&references).saturating_add(encrypted_count);
    let limit = caller.tenant().quotas.proxy_token_limit;
    check_request_quota(count, limit, "proxy_token_limit")?;
    let (mut data, mut loaded) = (ReferenceData::default(), LoadedEntities::default());
    if !references.is_empty() {
        let access = DataAccess::Use(right);
        let found = load_references(vault, caller, access, &references, renderers).await?;
        (data, loaded) = (found.data, found.entities);
    }
    let encrypted_conditions = call.references.iter().filter(|it| names_encrypted(it));
    let encrypted_conditions: Vec<_> =
        encrypted_conditions.flat_map(|it| it.conditions).map(String::as_str).collect();
    let parts = encrypted.as_ref().map(|it| Arc::clone(&it.parts));
    data.set_encrypted(encrypted);
    let used = UsedTokens { loaded, encrypted: parts };
    vault.check_rejected_evaluations(caller, &used.hidden_data()).await?;
    let mut conditions = used.find_conditions(&references, &encrypted_conditions);
    for text in call.body_conditions {
        let hidden = used.hidden_data();
        conditions.extend(hidden.into_iter().map(|data| TestedCondition { data, text }));
    }
    vault.count_conditions(caller, &conditions).await?;
    Ok(TokenUse { used, data })
}

/// Counts the conditions of a call on the configuration of its proxy, which the caller may not read.
///
/// # Errors
/// The budget of the configuration is exhausted, or the counters cannot be read or recorded.
pub async fn count_configuration_conditions(
    vault: &Vault,
    caller: &Caller,
    configuration: EvaluatedData,
    conditions: &[String],
) -> Result<(), Error> {
    vault.check_rejected_evaluations(caller, &[configuration]).await?;
    let conditions = conditions.iter();
    let conditions: Vec<_> =
        conditions.map(|text| TestedCondition { data: configuration, text }).collect();
    vault.count_conditions(caller, &conditions).await
}

/// Counts a rejected call for the data that the caller may not read: the rejection may depend on it.
/// Call this before the client gets the error.
///
/// # Errors
/// The budget of some data is exhausted, or the counts cannot be read or recorded.
pub async fn count_rejected_evaluation(
    vault: &Vault,
    caller: &Caller,
    hidden: &[EvaluatedData],
) -> Result<(), Error> {
    vault.count_rejected_evaluation(caller, hidden).await
}

/// The number of distinct tokens and intents.
fn count_tokens(references: &[ReferenceUse<'_>]) -> usize {
    let is_intent = |it: &ReferenceUse<'_>| it.reference.kind == ReferenceKind::TokenIntent;
    let mut tokens: Vec<_> =
        references.iter().map(|it| (is_intent(it), it.reference.id.as_str())).collect();
    tokens.sort_unstable();
    tokens.dedup();
    tokens.len()
}

impl UsedTokens {
    /// Whether the call uses no token, intent or encrypted data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.loaded.tokens.is_empty() && self.loaded.intents.is_empty() && self.encrypted.is_none()
    }

    /// Whether the caller could read all of this data in clear. If not, an error that depends on
    /// the data must not say which expression failed.
    #[must_use]
    pub fn are_readable_by(&self, caller: &Caller) -> bool {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let reveals = |it: Option<Transform>| it == Some(Transform::Reveal);
        tokens.iter().all(|it| reveals(caller.transform(Permission::TokenRead, &it.record)))
            && intents.iter().map(|it| &it.record.containers).all(|containers| {
                reveals(caller.transform(Permission::TokenRead, containers))
                    && caller.transform(Permission::TokenIntentRead, containers).is_some()
            })
            && self
                .encrypted_parts()
                .all(|it| reveals(caller.transform(Permission::TokenRead, &it.containers)))
    }

    /// The data that the caller may not read, each once.
    #[must_use]
    pub fn hidden_data(&self) -> Vec<EvaluatedData> {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let tokens = tokens.iter().filter_map(|it| it.hidden_data);
        let intents = intents.iter().filter_map(|it| it.hidden_data);
        let encrypted = self.encrypted_parts().filter_map(|it| it.hidden_data);
        let mut hidden: Vec<_> = tokens.chain(intents).chain(encrypted).collect();
        hidden.sort_unstable();
        hidden.dedup();
        hidden
    }

    /// Where the data that the caller may not read is stored.
    #[must_use]
    pub fn hidden_places(&self) -> Vec<DataPlace> {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let tokens = tokens.iter().filter(|it| it.hidden_data.is_some());
        let tokens = tokens.map(|it| DataPlace {
            containers: it.record.containers.clone(),
            id: Some(it.record.id.clone()),
        });
        let intents = intents.iter().filter(|it| it.hidden_data.is_some());
        let intents = intents.map(|it| &it.record.containers);
        let encrypted = self.encrypted_parts().filter(|it| it.hidden_data.is_some());
        let encrypted = encrypted.map(|it| &it.containers);
        tokens.chain(intents.chain(encrypted).map(|it| it.clone().into())).collect()
    }

    /// The conditions of expressions on data that the caller may not read.
    fn find_conditions<'a>(
        &self,
        references: &[ReferenceUse<'a>],
        encrypted_conditions: &[&'a str],
    ) -> Vec<TestedCondition<'a>> {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let mut conditions = Vec::new();
        for ReferenceUse { reference, conditions: texts, .. } in references {
            let data = match reference.kind {
                ReferenceKind::TokenIntent => intents
                    .iter()
                    .find(|it| Some(it.record.id) == TokenIntentId::parse(&reference.id))
                    .and_then(|it| it.hidden_data),
                ReferenceKind::Data | ReferenceKind::Token => tokens
                    .iter()
                    .find(|it| it.record.id.as_str() == reference.id)
                    .and_then(|it| it.hidden_data),
            };
            let Some(data) = data.filter(|_| !texts.is_empty()) else { continue };
            conditions.extend(texts.iter().map(|text| TestedCondition { data, text }));
        }
        for data in self.encrypted_parts().filter_map(|it| it.hidden_data) {
            let texts = encrypted_conditions.iter();
            conditions.extend(texts.map(|text| TestedCondition { data, text }));
        }
        conditions
    }

    fn encrypted_parts(&self) -> impl Iterator<Item = &DecryptedPart> {
        self.encrypted.iter().flat_map(|it| it.iter())
    }

    pub(super) fn entries(&self, purpose: UsePurpose) -> Vec<ReadLogEntry> {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let mut entries = Vec::with_capacity(tokens.len().saturating_add(intents.len()).max(1));
        entries.extend(tokens.iter().map(|it| ReadLogEntry {
            created_at: Some(it.record.created_at),
            operation: Some(Operation::UseToken),
            ..ReadLogEntry::new(it.record.id.as_str(), purpose.outcome(it.cvc_expires_at))
        }));
        entries.extend(intents.iter().map(|it| ReadLogEntry {
            operation: Some(Operation::UseTokenIntent),
            ..ReadLogEntry::new(it.record.id.to_string(), purpose.outcome(it.cvc_expires_at))
        }));
        entries.extend(self.encrypted_parts().map(|it| ReadLogEntry {
            operation: Some(Operation::UseClientKey),
            ..ReadLogEntry::new(
                it.key.map(|it| it.to_string()).unwrap_or_default(),
                purpose.outcome(it.cvc_expires_at),
            )
        }));
        entries
    }

    pub(super) fn token_ids(&self) -> Vec<String> {
        self.loaded.tokens.iter().map(|it| it.record.id.as_str().to_owned()).collect()
    }

    pub(super) fn targets(&self, caller: &Caller) -> Vec<CallTarget> {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let tokens = tokens.iter();
        let tokens =
            tokens.map(|it| CallTarget::new(caller, &it.record.containers, Some(&it.record.id)));
        let intents = intents.iter().map(|it| CallTarget::new(caller, &it.record.containers, None));
        let encrypted = self.encrypted_parts();
        let encrypted = encrypted.map(|it| CallTarget::new(caller, &it.containers, None));
        tokens.chain(intents).chain(encrypted).collect()
    }

    /// The end of the retention of the CVC that expires first.
    pub(super) fn cvc_expires_at(&self) -> Option<Timestamp> {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let tokens = tokens.iter().filter_map(|it| it.cvc_expires_at);
        let intents = intents.iter().filter_map(|it| it.cvc_expires_at);
        let encrypted = self.encrypted_parts().filter_map(|it| it.cvc_expires_at);
        tokens.chain(intents).chain(encrypted).min()
    }
}

/// The purpose for which tokens were loaded.
#[derive(Debug, Clone, Copy)]
pub(super) enum UsePurpose {
    Call,
    /// The call was not sent, but its failure may depend on the data.
    RejectedCall,
}

impl UsePurpose {
    fn outcome(self, cvc_expires_at: Option<Timestamp>) -> &'static str {
        match (self, cvc_expires_at) {
            (Self::Call, None) => "used_in_call",
            (Self::Call, Some(_)) => "used_in_call_with_cvc",
            (Self::RejectedCall, None) => "used_in_rejected_call",
            (Self::RejectedCall, Some(_)) => "used_in_rejected_call_with_cvc",
        }
    }
}
