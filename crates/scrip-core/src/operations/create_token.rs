//! Create Token.

use std::sync::Arc;

use scrip_seal::Sealed;

use crate::{
    Vault,
    answer::{Remember, remembered},
    audit::{AuditRecord, Operation},
    body::Body,
    caller::{Caller, Permit},
    container::Containers,
    cvc::{Cvc, seal_cvc, take_cvc},
    error::{Error, FieldError},
    expressions::{IdSource, evaluate, token_id},
    id::TokenId,
    operations::{check_expiry, deduplicate, update_token::update_existing},
    permission::{Permission, Transform},
    plain::Plain,
    reveal::{Audience, reveal_found, show},
    store::{Deduplicate, InsertToken, Inserted, Render, StoredToken, TokenRecord},
    tenant::DeduplicationBehavior::{self, ReadExisting, UpdateExisting},
    time::Timestamp,
    token::{NewToken, TokenPatch, TokenSource, Written},
    token_type::TokenType,
};

/// # Errors
/// The request breaks a rule, no rule lets the caller do it, or the id is taken.
pub async fn create_token(
    vault: &Vault,
    caller: &Caller,
    mut new: NewToken,
    remember: Option<Remember<Written>>,
) -> Result<Written, Error> {
    let now = vault.clock.now();
    let (token_type, mut data) = source(&mut new)?;
    token_type.check(data.expose_mut()).map_err(Error::Invalid)?;
    check_expiry(new.expires_at, now)?;
    let containers = new.containers.take();
    let containers = containers.unwrap_or_else(|| Containers::from(token_type.default_container()));
    let permit = caller.permit(Permission::TokenCreate, &containers)?;

    let cvc = take_cvc(token_type, &mut data);
    let behavior = caller.tenant().settings.token_deduplication_behavior;
    let patch = match behavior {
        ReadExisting => TokenPatch::default(),
        UpdateExisting => existing_patch(&new, token_type, &data, cvc.as_ref()),
    };
    let body = Body {
        data,
        mask: new.mask.take().and_then(|it| token_type.own_mask(it)),
        metadata: new.metadata.take(),
        search_indexes: new.search_indexes.take(),
        fingerprint_expression: new.fingerprint_expression.take(),
    };
    let evaluated = evaluate(caller.tenant(), token_type, &body)?;
    let fingerprinted = evaluated.fingerprint.is_some();
    let draft = Draft {
        record: TokenRecord {
            id: TokenId::random(vault.chance),
            token_type,
            fingerprint: evaluated.fingerprint,
            containers,
            created_by: caller.application(),
            created_at: now,
            modified: None,
            expires_at: new.expires_at,
            revision: first_revision(vault.chance),
            indexes: evaluated.indexes,
            body: Sealed::from_stored(Vec::new()),
        },
        deduplicate: deduplicate(caller, new.deduplicate, fingerprinted),
        behavior,
        body,
        cvc,
    };
    let inserted = match &new.id {
        None => draft.insert(vault, &permit, remember.as_ref(), None).await?,
        Some(source) => draft.insert_named(vault, &permit, remember.as_ref(), source).await?,
    };
    let Draft { body, cvc, .. } = draft;
    match inserted {
        (creation, Inserted::New) => creation.written(vault, &permit, (body, cvc)),
        (_, Inserted::IdTaken) => Err(Error::Conflict { reason: "a token with this id exists" }),
        (creation, Inserted::Existing(found)) => match creation.becomes(caller, &found) {
            ReadExisting => found_written(&permit, &found, creation.audience(vault)),
            UpdateExisting => {
                let patch = (patch, permit.transform());
                update_existing(vault, caller, &found.record.id, patch, remember).await
            }
        },
    }
}

/// How often an alias is drawn before the token gets an id like any other.
const ALIAS_DRAWS: usize = 8;

/// A token that waits for an id under which it can be inserted.
struct Draft {
    record: TokenRecord,
    deduplicate: Deduplicate,
    behavior: DeduplicationBehavior,
    body: Body,
    cvc: Option<Cvc>,
}

impl Draft {
    /// Under the id that was asked for. An alias that is taken is drawn again, and in the end given
    /// up: a short one has only so many values.
    async fn insert_named(
        &self,
        vault: &Vault,
        permit: &Permit,
        remember: Option<&Remember<Written>>,
        source: &str,
    ) -> Result<(Creation, Inserted), Error> {
        let token_type = self.record.token_type;
        for _ in 0..ALIAS_DRAWS {
            let drawn = token_id(source, token_type, &self.body, vault.chance)?;
            let (IdSource::Given(id) | IdSource::Computed(id) | IdSource::Alias(id)) = &drawn;
            let (creation, inserted) =
                self.insert(vault, permit, remember, Some(id.clone())).await?;
            if !matches!((&drawn, &inserted), (IdSource::Alias(_), Inserted::IdTaken)) {
                return Ok((creation, inserted));
            }
        }
        self.insert(vault, permit, remember, None).await
    }

    async fn insert(
        &self,
        vault: &Vault,
        permit: &Permit,
        remember: Option<&Remember<Written>>,
        id: Option<TokenId>,
    ) -> Result<(Creation, Inserted), Error> {
        let (caller, now) = (permit.caller(), self.record.created_at);
        let mut record = self.record.clone();
        record.id = id.unwrap_or(record.id);
        record.body = self.body.seal(caller.tenant(), &record)?;
        let cvc = self.cvc.as_ref().map(|it| seal_cvc(vault, caller, it, &record.id, now));
        let token = StoredToken { record, cvc };
        let creation = Creation { token, behavior: self.behavior, now };
        let render =
            remember.map(|it| creation.render(vault, permit, &self.body, it)).transpose()?;
        let insert = InsertToken {
            token: creation.token.clone(),
            deduplicate: self.deduplicate,
            audit: AuditRecord::new(Operation::CreateToken, caller, now),
            render,
        };
        let inserted = vault.store.insert_token(permit.again()?, insert).await?;
        Ok((creation, inserted))
    }
}

/// By chance, so that whoever read a token that was since deleted does not take a new one under the
/// same id for it.
fn first_revision(chance: fn(&mut [u8])) -> i64 {
    let mut bytes = [0; 8];
    chance(&mut bytes);
    // Positive, with room to count.
    i64::from_be_bytes(bytes).unsigned_abs().checked_shr(2).unwrap_or(0).cast_signed()
}

/// What is known of a token before the store says whether it is new.
struct Creation {
    token: StoredToken,
    behavior: DeduplicationBehavior,
    now: Timestamp,
}

impl Creation {
    fn audience<'a>(&self, vault: &'a Vault) -> Audience<'a> {
        Audience::Caller { vault, now: self.now }
    }

    /// The code is at hand, and need not be opened again.
    fn written(
        mut self,
        vault: &Vault,
        permit: &Permit,
        (body, cvc): (Body, Option<Cvc>),
    ) -> Result<Written, Error> {
        self.token.cvc = None;
        let mut token = show(permit, &self.token, body, self.audience(vault))?;
        if let Some(detail) = &mut token.detail
            && permit.transform() == Transform::Reveal
        {
            detail.shown.cvc = cvc;
        }
        Ok(Written { token, deduplicated: None })
    }

    /// Updating needs the permission to update, there; without it the existing token is read.
    fn becomes(&self, caller: &Caller, found: &StoredToken) -> DeduplicationBehavior {
        let may_update = caller.transform(Permission::TokenUpdate, &found.record).is_some();
        match self.behavior {
            UpdateExisting if may_update => UpdateExisting,
            UpdateExisting | ReadExisting => ReadExisting,
        }
    }

    /// The answer to remember, made inside the transaction.
    fn render(
        &self,
        vault: &Vault,
        permit: &Permit,
        body: &Body,
        remember: &Remember<Written>,
    ) -> Result<Render<Inserted>, Error> {
        let (permit, bins) = (permit.again()?, Arc::clone(&vault.bins));
        let creation = Self { token: self.token.clone(), ..*self };
        let (body, render, digest) = (body.duplicate(), remember.render, remember.claim.digest);
        Ok(Box::new(move |inserted| {
            let audience = Audience::Memory { bins: &bins };
            let written = match inserted {
                Inserted::New => {
                    let token = show(&permit, &creation.token, body, audience).ok()?;
                    Written { token, deduplicated: None }
                }
                Inserted::Existing(found) => match creation.becomes(permit.caller(), found) {
                    ReadExisting => found_written(&permit, found, audience).ok()?,
                    // The update that follows has an answer of its own.
                    UpdateExisting => return None,
                },
                Inserted::IdTaken => return None,
            };
            remembered(&permit, digest, &written, render, creation.now)
        }))
    }
}

fn found_written(
    permit: &Permit,
    found: &StoredToken,
    audience: Audience<'_>,
) -> Result<Written, Error> {
    let token = reveal_found(permit, found, audience)?;
    Ok(Written { token, deduplicated: Some(ReadExisting) })
}

fn source(new: &mut NewToken) -> Result<(TokenType, Plain), Error> {
    match std::mem::replace(&mut new.source, TokenSource::Intent(String::new())) {
        TokenSource::Data { token_type, data } => Ok((token_type, data)),
        TokenSource::Intent(_) => {
            Err(FieldError::new("token_intent_id", "token intents are not available yet").into())
        }
    }
}

/// What the request would change of a token that is already there.
fn existing_patch(
    new: &NewToken,
    token_type: TokenType,
    data: &Plain,
    cvc: Option<&Cvc>,
) -> TokenPatch {
    let mut data = data.duplicate();
    if let (Some(cvc), Some(object)) = (cvc, data.expose_mut().as_object_mut()) {
        object.insert("cvc".to_owned(), cvc.expose().into());
    }
    // Open data with the fingerprint of the whole is the same data; merging it would drop nulls.
    let same = token_type == TokenType::Token && new.fingerprint_expression.is_none();
    TokenPatch {
        data: (!same).then_some(data),
        mask: new.mask.clone(),
        metadata: new.metadata.as_ref().map(|it| serde_json::json!(it)),
        containers: None,
        search_indexes: new.search_indexes.clone().map(Some),
        fingerprint_expression: new.fingerprint_expression.clone().map(Some),
        deduplicate: Some(false),
        expires_at: new.expires_at.map(Some),
    }
}
