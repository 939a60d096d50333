//! Token writes, one after another. The caller rolls them back if one is rejected.

use scrip_core::{
    audit::AuditRecord,
    change::ChangeOutcome,
    disclosure::Deduplicate,
    threeds::sign_conversion,
    token_batch::{
        BatchOutcome, CvcChange, InsertToken, TokenBatch, TokenWrite, UpdateToken, WriteConflict,
        WriteOutcome,
    },
    types::{
        Operation, StoreError,
        id::{TenantId, TokenId, TokenIntentId},
    },
};

use crate::memory::state::{MemoryStoreState, TokenRow};

/// The outcome of one write and its token.
type MemoryWriteAttempt = Result<(WriteOutcome, TokenId), WriteConflict>;

impl MemoryStoreState {
    pub(super) fn write_tokens(
        &mut self,
        tenant: TenantId,
        batch: TokenBatch,
    ) -> Result<BatchOutcome, StoreError> {
        self.check_tenant(tenant)?;
        let (mut outcomes, mut ids, mut conflicts) = (Vec::new(), Vec::new(), Vec::new());
        for (index, write) in batch.writes.into_iter().enumerate() {
            let attempt = match &write {
                TokenWrite::Insert(insert) if insert.permit.tenant().id == tenant => {
                    self.insert_token(tenant, insert)
                }
                TokenWrite::Update(update) if update.permit.tenant().id == tenant => {
                    self.update_token(tenant, update)
                }
                TokenWrite::Insert(_) | TokenWrite::Update(_) => {
                    return Err(StoreError::Corrupt("a batch has more than one tenant"));
                }
            };
            match attempt {
                Ok((outcome, id)) => {
                    if let Some(intent) = write.intent() {
                        self.convert_card(&sign_conversion(&write, intent, &outcome));
                    }
                    self.insert_deliveries(write.deliveries(&outcome));
                    outcomes.push(outcome);
                    ids.push(id);
                }
                Err(conflict) => conflicts.push((index, conflict)),
            }
        }
        if !conflicts.is_empty() {
            return Ok(BatchOutcome::Rejected(conflicts));
        }
        let record = batch.build_record.and_then(|it| it(&outcomes));
        self.insert_idempotency_record(tenant, record, &ids)?;
        Ok(BatchOutcome::Written(outcomes))
    }

    fn next_number(&mut self) -> i64 {
        let highest = self.tokens.iter().map(|it| it.number).max().unwrap_or(0);
        let number = self.last_number.unwrap_or(highest) + 1;
        self.last_number = self.last_number.map(|_| number);
        number
    }

    fn sign_conversion(
        &mut self,
        tenant: TenantId,
        intent: Option<TokenIntentId>,
        audit: &AuditRecord,
    ) -> bool {
        let audit = audit.with_operation(Operation::ConvertTokenIntent);
        intent.is_none_or(|it| {
            self.delete_intent(tenant, it, &audit, "converted") == ChangeOutcome::Done
        })
    }

    fn insert_token(&mut self, tenant: TenantId, insert: &InsertToken) -> MemoryWriteAttempt {
        let InsertToken { token, intent, deduplicate, audit, .. } = insert;
        let deduplicate = *deduplicate;
        if !self.sign_conversion(tenant, *intent, audit) {
            return Err(WriteConflict::IntentMissing);
        }
        let (now, id) = (audit.at, token.record.id.clone());
        let duplicate = self.find_duplicate(tenant, &token.record, deduplicate, None, now);
        let (outcome, id) = match duplicate {
            Some(duplicate) if matches!(deduplicate, Deduplicate::ReportExisting(_)) => {
                return Err(WriteConflict::Duplicate(Box::new(duplicate)));
            }
            Some(duplicate) => {
                let id = duplicate.record.id.clone();
                (WriteOutcome::Existing(Box::new(duplicate)), id)
            }
            None if self.find_live(tenant, &id, now).is_some() => {
                return Err(WriteConflict::IdTaken);
            }
            None => {
                let has_same_id = |it: &TokenRow| it.tenant == tenant && it.token.record.id == id;
                if let Some(index) = self.tokens.iter().position(has_same_id) {
                    self.expire(index, &audit.to_vault_record(Operation::ExpireToken));
                    self.insert_deliveries(insert.expiry_deliveries(&id));
                }
                let number = self.next_number();
                self.usage.count_created(tenant, &token.record);
                self.tokens.push(TokenRow { number, tenant, token: token.clone() });
                (WriteOutcome::New, id)
            }
        };
        let outcome_name = if outcome == WriteOutcome::New { "created" } else { "deduplicated" };
        if let WriteOutcome::Existing(duplicate) = &outcome {
            self.usage.count_used(tenant, &duplicate.record, now);
        }
        self.append_audit_record(tenant, audit, id.as_str(), outcome_name);
        Ok((outcome, id))
    }

    fn update_token(&mut self, tenant: TenantId, update: &UpdateToken) -> MemoryWriteAttempt {
        let UpdateToken {
            token,
            cvc,
            intent,
            deduplicate,
            reject_if_in_session_at: unless_used_at,
            audit,
            ..
        } = update;
        let deduplicate = *deduplicate;
        if !self.sign_conversion(tenant, *intent, audit) {
            return Err(WriteConflict::IntentMissing);
        }
        let (updated_id, updated) = (token.id.clone(), token.clone());
        let duplicate =
            self.find_duplicate(tenant, token, deduplicate, Some(&updated_id), audit.at);
        let index = self.find_live(tenant, &updated_id, audit.at);
        let is_used_by_session = unless_used_at
            .is_some_and(|now| self.is_token_used_by_session(tenant, &updated_id, now));
        let row = index.and_then(|it| self.tokens.get_mut(it));
        let Some(row) = row.filter(|it| it.token.record.revision + 1 == token.revision) else {
            return Err(WriteConflict::Stale);
        };
        let (outcome, id) = match duplicate {
            _ if is_used_by_session => return Err(WriteConflict::UsedBySession),
            Some(duplicate) if matches!(deduplicate, Deduplicate::ReportExisting(_)) => {
                return Err(WriteConflict::Duplicate(Box::new(duplicate)));
            }
            Some(duplicate) => {
                let id = duplicate.record.id.clone();
                (WriteOutcome::Existing(Box::new(duplicate)), id)
            }
            None => {
                row.token.record = token.clone();
                match cvc {
                    CvcChange::Keep => (),
                    CvcChange::Remove => row.token.cvc = None,
                    CvcChange::Replace(cvc) => row.token.cvc = Some(cvc.clone()),
                }
                (WriteOutcome::Updated, updated_id.clone())
            }
        };
        match outcome {
            WriteOutcome::New | WriteOutcome::Updated => {
                self.usage.count_used(tenant, &updated, audit.at);
                self.append_audit_record(tenant, audit, updated_id.as_str(), "updated")
            }
            WriteOutcome::Existing(ref duplicate) => {
                self.usage.count_used(tenant, &duplicate.record, audit.at);
                self.append_audit_record(tenant, audit, updated_id.as_str(), "deduplicated");
                self.append_audit_record(tenant, audit, id.as_str(), "deduplicated");
            }
        }
        Ok((outcome, id))
    }
}
