//! Loads the data of the tokens and intents that a proxied call names.

use std::sync::Arc;

use scrip_expression::{FilteredPath, ReferenceKind};

use crate::{
    Error, Timestamp, Vault,
    card::TokenType,
    equality::EvaluatedEntity,
    idempotency::proxy_call::CallTarget,
    operations::{
        check_request_quota,
        reference_data::{
            DataAccess, DecryptedCallData, DecryptedPart, DetokenizeRenderers, HiddenData,
            LoadedEntities, ReferenceData, ReferenceUse, load_references,
        },
    },
    policy::{Caller, DestinationChoice, UseRight},
    read_log::ReadLogEntry,
    token::DataPlace,
    types::{Operation, Permission, Plaintext, Transform, error::Denial, id::TokenIntentId},
};

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

/// The references of a call, and what else reads their data.
#[derive(Debug, Clone, Copy)]
pub struct CallReferences<'a> {
    pub references: &'a [ReferenceUse<'a>],
    /// Whether a header computes with the body as it is sent.
    pub has_computed_header: bool,
    pub destinations: DestinationChoice,
}

/// Loads the data and wraps it in `P`. An unknown token has no data, and the evaluation of its
/// expression fails.
///
/// Errors: the call names more tokens than the quota allows, no rule allows the caller to use a
/// token, an expression computes with data that the caller may not read, a budget is exhausted, or
/// the store is unavailable.
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
        let access = DataAccess::Use { right, destinations: call.destinations };
        let found = load_references(vault, caller, access, &references, renderers).await?;
        (data, loaded) = (found.data, found.entities);
    }
    let encrypted_filters = call.references.iter().filter(|it| names_encrypted(it));
    let encrypted_filters: Vec<_> = encrypted_filters.flat_map(|it| it.filtered).collect();
    let parts = encrypted.as_ref().map(|it| Arc::clone(&it.parts));
    data.set_encrypted(encrypted);
    let used = UsedTokens { loaded, encrypted: parts };
    used.check_filters(call, &encrypted_filters)?;
    vault.check_rejected_evaluations(caller, &used.hidden_data()).await?;
    Ok(TokenUse { used, data })
}

/// Checks the budget of a configuration that the caller may not read.
/// Errors: the budget is exhausted, or the counters cannot be read.
pub async fn check_configuration_budget(
    vault: &Vault,
    caller: &Caller,
    configuration: EvaluatedEntity,
) -> Result<(), Error> {
    vault.check_rejected_evaluations(caller, &[configuration]).await
}

/// Counts a rejected call for the data that the caller may not read: the rejection may depend on it.
/// Call this before the client gets the error.
///
/// Errors: the budget of some data is exhausted, or the counts cannot be read or recorded.
pub async fn count_rejected_evaluation(
    vault: &Vault,
    caller: &Caller,
    hidden: &[EvaluatedEntity],
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
    pub fn is_empty(&self) -> bool {
        self.loaded.tokens.is_empty() && self.loaded.intents.is_empty() && self.encrypted.is_none()
    }

    /// Whether the caller could read all of this data in clear. If not, an error that depends on
    /// the data must not say which expression failed.
    pub fn are_readable_by(&self, caller: &Caller) -> bool {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let reveals = |it: Option<Transform>| it == Some(Transform::Reveal);
        let is_withheld =
            tokens.iter().map(|it| it.is_withheld).chain(intents.iter().map(|it| it.is_withheld));
        !is_withheld.into_iter().any(|it| it)
            && tokens.iter().all(|it| reveals(caller.transform(Permission::TokenRead, &it.record)))
            && intents.iter().map(|it| &it.record.containers).all(|containers| {
                reveals(caller.transform(Permission::TokenRead, containers))
                    && caller.transform(Permission::TokenIntentRead, containers).is_some()
            })
            && self
                .encrypted_parts()
                .all(|it| reveals(caller.transform(Permission::TokenRead, &it.containers)))
    }

    /// The data that the caller may not read, each once.
    pub fn hidden_data(&self) -> Vec<EvaluatedEntity> {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let tokens = tokens.iter().filter_map(|it| it.hidden_data);
        let intents = intents.iter().filter_map(|it| it.hidden_data);
        let encrypted = self.encrypted_parts().filter_map(|it| it.hidden_data);
        let stored = tokens.chain(intents).map(|it| it.entity);
        let mut hidden: Vec<_> = stored.chain(encrypted).collect();
        hidden.sort_unstable();
        hidden.dedup();
        hidden
    }

    /// Whether the call uses data that the caller may not read, and could not send to a destination of
    /// its own. Nothing that can fail depends on such data.
    pub fn are_restricted(&self) -> bool {
        let LoadedEntities { tokens, intents } = &self.loaded;
        tokens.iter().any(|it| is_restricted(it.hidden_data))
            || intents.iter().any(|it| is_restricted(it.hidden_data))
            || self.encrypted_parts().any(DecryptedPart::is_restricted)
    }

    /// Where the data that the caller may not read is stored.
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

    /// Checks that expressions only select data that the caller may not read, except attributes that
    /// every mask shows.
    fn check_filters(
        &self,
        call: CallReferences<'_>,
        encrypted_filters: &[&FilteredPath],
    ) -> Result<(), Error> {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let mut is_any_hidden = false;
        for token in tokens.iter() {
            let Some(hidden) = find_restriction(token.hidden_data) else { continue };
            is_any_hidden = true;
            let (id, token_type) = (token.record.id.as_str(), token.record.token_type);
            let names = |it: &&ReferenceUse<'_>| {
                it.reference.kind != ReferenceKind::TokenIntent && it.reference.id == id
            };
            check_selection(token_type, hidden, call.references.iter().filter(names))?;
        }
        for intent in intents.iter() {
            let Some(hidden) = find_restriction(intent.hidden_data) else { continue };
            is_any_hidden = true;
            let id = Some(intent.record.id);
            let names = |it: &&ReferenceUse<'_>| {
                it.reference.kind == ReferenceKind::TokenIntent
                    && TokenIntentId::parse(&it.reference.id) == id
            };
            let token_type = intent.record.token_type;
            check_selection(token_type, hidden, call.references.iter().filter(names))?;
        }
        let mut parts = self.encrypted_parts();
        if parts.any(DecryptedPart::is_restricted) {
            is_any_hidden = true;
            if !encrypted_filters.is_empty() {
                return Err(Error::Forbidden(Denial::FilterOnHiddenData));
            }
        }
        if is_any_hidden && call.has_computed_header {
            return Err(Error::Forbidden(Denial::HeaderOnHiddenData));
        }
        Ok(())
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

    /// When the stored answer must end, because it can repeat a CVC.
    pub(super) fn answer_ends_at(&self) -> Option<Timestamp> {
        let LoadedEntities { tokens, intents } = &self.loaded;
        let tokens = tokens.iter().filter_map(|it| it.answer_ends_at);
        let intents = intents.iter().filter_map(|it| it.answer_ends_at);
        let encrypted = self.encrypted_parts().filter_map(|it| it.answer_ends_at);
        tokens.chain(intents).chain(encrypted).min()
    }
}

fn is_restricted(hidden: Option<HiddenData>) -> bool {
    find_restriction(hidden).is_some()
}

/// The data, if the caller may not read it, and could not send it to a destination of its own.
fn find_restriction(hidden: Option<HiddenData>) -> Option<HiddenData> {
    hidden.filter(|it| !it.is_sent_anywhere)
}

/// Checks the filters of the references to one token or intent. Attributes that every mask shows are
/// free, unless the caller sees no mask of this data.
fn check_selection<'a>(
    token_type: TokenType,
    hidden: HiddenData,
    references: impl Iterator<Item = &'a ReferenceUse<'a>>,
) -> Result<(), Error> {
    for ReferenceUse { reference, filtered, .. } in references {
        for FilteredPath { path, filter } in *filtered {
            let path_in_data = match (reference.kind, path.as_slice()) {
                (ReferenceKind::Data, path) => Some(path),
                (ReferenceKind::Token | ReferenceKind::TokenIntent, [first, rest @ ..]) => {
                    Some(rest).filter(|_| first == "data")
                }
                (ReferenceKind::Token | ReferenceKind::TokenIntent, []) => None,
            };
            let is_shown = match path_in_data {
                // This filter reads the expiration date only.
                Some([]) => token_type.is_card() && *filter == "card_exp",
                Some([name]) => token_type.unmasked_properties().contains(&name.as_str()),
                Some(_) | None => false,
            };
            if !(is_shown && hidden.has_mask) {
                return Err(Error::Forbidden(Denial::FilterOnHiddenData));
            }
        }
    }
    Ok(())
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
