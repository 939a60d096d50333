//! Writes of tokens, one after the other. Whoever calls takes them back when one is refused.

use scrip_core::{
    audit::{AuditRecord, Operation},
    id::{TenantId, TokenId, TokenIntentId},
    store::{Changed, StoreError},
    token::{
        Batched, CvcChange, Deduplicate, InsertToken, Obstacle, Outcome, TokenBatch, TokenWrite,
        UpdateToken,
    },
};

use crate::memory::{Row, State};

/// What one write did, and to which token.
type Attempt = Result<(Outcome, TokenId), Obstacle>;

impl State {
    pub(super) fn write_tokens(
        &mut self,
        tenant: TenantId,
        batch: TokenBatch,
    ) -> Result<Batched, StoreError> {
        self.check_tenant(tenant)?;
        let (mut outcomes, mut ids, mut obstacles) = (Vec::new(), Vec::new(), Vec::new());
        for (at, write) in batch.writes.into_iter().enumerate() {
            let conversion = write.conversion();
            let attempt = match write {
                TokenWrite::Insert(insert) if insert.permit.tenant().id == tenant => {
                    self.insert(tenant, insert)
                }
                TokenWrite::Update(update) if update.permit.tenant().id == tenant => {
                    self.update(tenant, update)
                }
                TokenWrite::Insert(_) | TokenWrite::Update(_) => {
                    return Err(StoreError::Corrupt("a batch is of one tenant"));
                }
            };
            match attempt {
                Ok((outcome, id)) => {
                    if let Some(conversion) = conversion {
                        self.convert_card(&conversion.signed(&outcome));
                    }
                    outcomes.push(outcome);
                    ids.push(id);
                }
                Err(obstacle) => obstacles.push((at, obstacle)),
            }
        }
        if !obstacles.is_empty() {
            return Ok(Batched::Refused(obstacles));
        }
        let answer = batch.render.and_then(|it| it(&outcomes));
        self.remember(tenant, answer, &ids)?;
        Ok(Batched::Written(outcomes))
    }

    fn next_number(&mut self) -> i64 {
        let highest = self.tokens.iter().map(|it| it.number).max().unwrap_or(0);
        let number = self.last_number.unwrap_or(highest) + 1;
        self.last_number = self.last_number.map(|_| number);
        number
    }

    fn convert(
        &mut self,
        tenant: TenantId,
        intent: Option<TokenIntentId>,
        audit: &AuditRecord,
    ) -> bool {
        let audit = audit.also(Operation::ConvertTokenIntent);
        intent.is_none_or(|it| self.end_intent(tenant, it, &audit, "converted") == Changed::Done)
    }

    fn insert(&mut self, tenant: TenantId, insert: InsertToken) -> Attempt {
        let InsertToken { token, intent, deduplicate, audit, .. } = insert;
        if !self.convert(tenant, intent, &audit) {
            return Err(Obstacle::IntentGone);
        }
        let (now, id) = (audit.at, token.record.id.clone());
        let found = self.duplicate(tenant, &token.record, deduplicate, None, now);
        let (outcome, id) = match found {
            Some(found) if deduplicate == Deduplicate::Tell => {
                return Err(Obstacle::Duplicate(Box::new(found)));
            }
            Some(found) => {
                let id = found.record.id.clone();
                (Outcome::Existing(Box::new(found)), id)
            }
            None if self.live(tenant, &id, now).is_some() => return Err(Obstacle::IdTaken),
            None => {
                let expired = |it: &Row| it.tenant == tenant && it.token.record.id == id;
                if let Some(at) = self.tokens.iter().position(expired) {
                    self.expire(at, &audit.by_vault(Operation::ExpireToken));
                }
                let number = self.next_number();
                self.counted.made(tenant, &token.record);
                self.tokens.push(Row { number, tenant, token });
                (Outcome::New, id)
            }
        };
        let word = if outcome == Outcome::New { "created" } else { "deduplicated" };
        if let Outcome::Existing(found) = &outcome {
            self.counted.used(tenant, &found.record, now);
        }
        self.record(tenant, &audit, id.as_str(), word);
        Ok((outcome, id))
    }

    fn update(&mut self, tenant: TenantId, update: UpdateToken) -> Attempt {
        let UpdateToken { token, cvc, intent, deduplicate, unless_named, audit, .. } = update;
        if !self.convert(tenant, intent, &audit) {
            return Err(Obstacle::IntentGone);
        }
        let (own_id, updated) = (token.id.clone(), token.clone());
        let found = self.duplicate(tenant, &token, deduplicate, Some(&own_id), audit.at);
        let at = self.live(tenant, &own_id, audit.at);
        let is_named = unless_named.is_some_and(|now| self.names_token(tenant, &own_id, now));
        let row = at.and_then(|it| self.tokens.get_mut(it));
        let Some(row) = row.filter(|it| it.token.record.revision + 1 == token.revision) else {
            return Err(Obstacle::Stale);
        };
        let (outcome, id) = match found {
            _ if is_named => return Err(Obstacle::NamedBySession),
            Some(found) if deduplicate == Deduplicate::Tell => {
                return Err(Obstacle::Duplicate(Box::new(found)));
            }
            Some(found) => {
                let id = found.record.id.clone();
                (Outcome::Existing(Box::new(found)), id)
            }
            None => {
                row.token.record = token;
                match cvc {
                    CvcChange::Keep => (),
                    CvcChange::Remove => row.token.cvc = None,
                    CvcChange::Replace(cvc) => row.token.cvc = Some(cvc),
                }
                (Outcome::Updated, own_id.clone())
            }
        };
        match outcome {
            Outcome::New | Outcome::Updated => {
                self.counted.used(tenant, &updated, audit.at);
                self.record(tenant, &audit, own_id.as_str(), "updated")
            }
            Outcome::Existing(ref found) => {
                self.counted.used(tenant, &found.record, audit.at);
                self.record(tenant, &audit, own_id.as_str(), "deduplicated");
                self.record(tenant, &audit, id.as_str(), "deduplicated");
            }
        }
        Ok((outcome, id))
    }
}
