//! Loads the data of the tokens and intents that a proxied call names.

use std::{borrow::Cow, sync::Arc};

use crate::{
    Error, Timestamp, Vault,
    audit::{Operation, ReadLogEntry},
    idempotency::proxy_call::CallTarget,
    operations::{
        check_request_quota,
        proxy_calls::decrypt_call_data::{DecryptedCallData, DecryptedPart},
        reference_data::{
            DataAccess, DetokenizeRenderers, LoadedEntities, ReferenceData, ReferenceUse,
            load_references,
        },
    },
    policy::{AccessTarget, Caller, Permission, Transform, UseRight},
    token::Plaintext,
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

/// Loads the data and wraps it in `P`. An unknown token has no data, and the evaluation of its expression fails.
///
/// # Errors
/// The call names more tokens than the quota allows, no rule allows the caller to use a token, or
/// the store is unavailable.
pub async fn use_tokens<P: From<Plaintext>>(
    vault: &Vault,
    caller: &Caller,
    right: UseRight,
    references: &[ReferenceUse<'_>],
    renderers: DetokenizeRenderers,
    encrypted: Option<Arc<DecryptedCallData<P>>>,
) -> Result<TokenUse<P>, Error> {
    let is_token = |it: &&ReferenceUse<'_>| {
        encrypted.is_none() || !DecryptedCallData::<P>::is_named_by(it.reference)
    };
    let references: Vec<_> = references.iter().filter(is_token).copied().collect();
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
    let parts = encrypted.as_ref().map(|it| Arc::clone(&it.parts));
    data.set_encrypted(encrypted);
    let used = UsedTokens { loaded, encrypted: parts };
    vault.check_rejected_evaluations(caller, &as_texts(&used.hidden_ids(caller))).await?;
    Ok(TokenUse { used, data })
}

/// Counts a rejected call for the tokens whose data the caller may not read: the rejection may depend
/// on the data. Call this before the client gets the error.
///
/// # Errors
/// The budget of a token is exhausted, or the counts cannot be read or recorded.
pub async fn count_rejected_evaluation(
    vault: &Vault,
    caller: &Caller,
    used: &UsedTokens,
) -> Result<(), Error> {
    vault.count_rejected_evaluation(caller, &as_texts(&used.hidden_ids(caller))).await
}

fn as_texts<'a>(ids: &'a [Cow<'a, str>]) -> Vec<&'a str> {
    ids.iter().map(|it| &**it).collect()
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

    /// The ids of the tokens and intents whose data the caller may not read.
    fn hidden_ids(&self, caller: &Caller) -> Vec<Cow<'_, str>> {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let is_hidden = |containers: AccessTarget<'_>| {
            caller.transform(Permission::TokenRead, containers) != Some(Transform::Reveal)
        };
        let tokens = tokens.iter().map(|it| &it.record).filter(|it| is_hidden((*it).into()));
        let intents = intents.iter().map(|it| &it.record);
        let intents = intents.filter(|it| is_hidden((&it.containers).into()));
        tokens
            .map(|it| Cow::Borrowed(it.id.as_str()))
            .chain(intents.map(|it| Cow::Owned(it.id.to_string())))
            .collect()
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
