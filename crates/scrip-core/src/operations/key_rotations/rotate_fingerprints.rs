//! Rotate Fingerprints, by the operator and without a server: new keys of fingerprints and search
//! indexes for a tenant, and new digests in all of its rows.
//!
//! The new key is stored first. Every row is consistent by itself, with digests of the old or the new
//! key, so a run that was interrupted is repeated from the first row; rows with new digests stay.

use std::{net::Ipv4Addr, sync::Arc};

use scrip_seal::{KeySource, Sealed, TenantKeys};

use crate::{
    Error, Vault,
    disclosure::with_expression_digests,
    keys::{RotatedTable, RowKey, SealedRow, SealedRows},
    operations::key_rotations::{KeyChange, KeyChangeWrite, change_keys, key_change_record},
    policy::{
        AccessPolicy, Caller, PolicyPermit, PolicyRecords, Principal, RequestOrigin, Tenant,
        TenantRecord,
    },
    store::DigestChanges,
    token::{TokenBody, TokenIntentRecord, TokenRecord, intent::IntentBody},
    types::{ApplicationKind, Operation, id::ApplicationId},
    writes::evaluation::{Evaluation, EvaluationResult, FailureMode, MaskOrigin},
};

/// The tables with fingerprints.
pub const FINGERPRINT_TABLES: [RotatedTable; 2] =
    [RotatedTable::Tokens, RotatedTable::TokenIntents];

/// The result of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestStep {
    pub changed: u64,
    /// Rows that cannot be opened or evaluated. They keep their digests.
    pub unopened: u64,
    /// Where the next step continues; `None` at the end of the table.
    pub last: Option<RowKey>,
}

const CHANGED: Error = Error::Conflict { reason: "the keys of the tenant changed; try again" };

/// Stores the new keys of fingerprints. From then on, no server opens the vault until
/// [`finish_fingerprint_rotation`]. Does nothing if a rotation was begun.
pub async fn start_fingerprint_rotation(
    vault: &Vault,
    permit: PolicyPermit,
    source: &dyn KeySource,
) -> Result<(), Error> {
    let tenant = permit.tenant();
    if tenant.keys.is_renewing_fingerprints() {
        return Ok(());
    }
    let before = load_policy(vault, tenant).await?.tenant.record.keys.permanent;
    let id = tenant.id.to_string();
    let after = TenantKeys::begin_fingerprint_renewal(source, &id, &before)?;
    replace_permanent_key(vault, permit, Operation::StartKeyRotation, before, after).await
}

/// Destroys the old keys of fingerprints, after all rows have new digests.
pub async fn finish_fingerprint_rotation(
    vault: &Vault,
    permit: PolicyPermit,
    source: &dyn KeySource,
) -> Result<(), Error> {
    let tenant = permit.tenant();
    let before = load_policy(vault, tenant).await?.tenant.record.keys.permanent;
    let id = tenant.id.to_string();
    let after = TenantKeys::finish_fingerprint_renewal(source, &id, &before)?;
    replace_permanent_key(vault, permit, Operation::FinishKeyRotation, before, after).await
}

async fn load_policy(vault: &Vault, tenant: &Tenant) -> Result<PolicyRecords, Error> {
    let records = vault.store.load_directory().await?;
    let is_tenant = |it: &PolicyRecords| it.tenant.record.id == tenant.id;
    records.tenants.into_iter().find(is_tenant).ok_or(Error::NotFound)
}

async fn replace_permanent_key(
    vault: &Vault,
    permit: PolicyPermit,
    operation: Operation,
    before: Sealed,
    after: Sealed,
) -> Result<(), Error> {
    let change = move |record: &TenantRecord| {
        if record.keys.permanent != before {
            return Err(CHANGED);
        }
        let mut tenant = record.clone();
        tenant.keys.permanent = after;
        Ok(KeyChange { tenant, destroyed_versions: Vec::new() })
    };
    let audit = key_change_record(vault, &permit, operation, None);
    // Overwrites the old key.
    change_keys(vault, permit, audit, KeyChangeWrite::Destroy(None), change).await
}

/// The tenant with its new keys of fingerprints, for [`rotate_digests`].
pub async fn load_renewed_tenant(
    vault: &Vault,
    tenant: &Tenant,
    source: &dyn KeySource,
) -> Result<Arc<Tenant>, Error> {
    let mut policy = load_policy(vault, tenant).await?;
    let id = tenant.id.to_string();
    let keys = TenantKeys::unwrap_renewed(source, &id, &policy.tenant.record.keys)?;
    // A token that has a fingerprint keeps one, also if new tokens of the tenant get none.
    policy.tenant.record.settings.fingerprint_tokens = true;
    Ok(Arc::new(Tenant::new(Arc::new(keys), Arc::clone(&tenant.audit_key), policy)))
}

/// Computes the digests of the next rows again and stores them, in one transaction.
pub async fn rotate_digests(
    vault: &Vault,
    renewed: &Arc<Tenant>,
    table: RotatedTable,
    after: Option<RowKey>,
    rows_max: usize,
) -> Result<DigestStep, Error> {
    let listed = vault.store.list_sealed_rows(renewed.id, table, after, rows_max);
    let SealedRows { rows, undecoded: mut unopened, last } = listed.await?;
    let tenant = renewed.id;
    let mut changes = DigestChanges { tenant, tokens: Vec::new(), intents: Vec::new() };
    for row in rows {
        let changed = match row {
            SealedRow::Token(record) => renew_token(vault, renewed, &record).map(|it| {
                changes.tokens.extend(it.map(|after| [*record, after]));
            }),
            SealedRow::TokenIntent(record) => renew_intent(vault, renewed, &record).map(|it| {
                changes.intents.extend(it.map(|after| [*record, after]));
            }),
            SealedRow::ThreeDsSession(_) | SealedRow::Delivery(_) => Ok(()),
        };
        if changed.is_err() {
            unopened = unopened.saturating_add(1);
        }
    }
    let changed = changes.tokens.len().saturating_add(changes.intents.len());
    if changed > 0 {
        vault.store.replace_digests(changes).await?;
    }
    Ok(DigestStep { changed: u64::try_from(changed).unwrap_or(u64::MAX), unopened, last })
}

/// A caller without rights: expressions are evaluated for the tenant.
fn evaluator(tenant: &Arc<Tenant>, application: ApplicationId) -> Caller {
    let access = AccessPolicy::default();
    let principal =
        Principal::new(Arc::clone(tenant), application, ApplicationKind::Private, access);
    let origin = RequestOrigin { trace: "".into(), address: Ipv4Addr::LOCALHOST.into() };
    Caller::new(Arc::new(principal), origin)
}

/// `None` if the row has the new digests.
fn renew_token(
    vault: &Vault,
    tenant: &Arc<Tenant>,
    record: &TokenRecord,
) -> Result<Option<TokenRecord>, Error> {
    let caller = &evaluator(tenant, record.created_by);
    let body = TokenBody::open_in_step(caller.work(), tenant, record, Ok)?;
    let token_type = record.token_type;
    let failure_mode = FailureMode::Hide;
    let evaluation = Evaluation {
        mask_origin: MaskOrigin::Stored,
        ..Evaluation::new(vault, caller, token_type, &body, failure_mode)
    };
    let evaluated = evaluation.evaluate()?;
    // A marked token has entries over its data only after a write with a reveal right.
    let has_data_indexes =
        record.indexes.len() > evaluated.indexes.len().saturating_sub(evaluated.data_indexes);
    let EvaluationResult { fingerprint, indexes, .. } =
        evaluated.with_data_indexes(!body.is_marked || has_data_indexes);
    let mut renewed = record.clone();
    // A token without a fingerprint never gets one: its budget was exhausted.
    renewed.fingerprint = record.fingerprint.and(fingerprint);
    renewed.indexes = indexes;
    renewed.expressions = with_expression_digests(record.expressions, caller, token_type, &body);
    if renewed == *record {
        return Ok(None);
    }
    renewed.body = body.seal(tenant, &renewed)?;
    Ok(Some(renewed))
}

/// `None` if the row has the new fingerprint.
fn renew_intent(
    vault: &Vault,
    tenant: &Arc<Tenant>,
    record: &TokenIntentRecord,
) -> Result<Option<TokenIntentRecord>, Error> {
    let caller = &evaluator(tenant, record.created_by);
    let IntentBody { data, authentication, is_marked, is_typed } =
        IntentBody::open(caller.work(), tenant, record)?;
    let body = TokenBody { data, search_indexes: Some(Vec::new()), ..TokenBody::default() };
    let (token_type, failure_mode) = (record.token_type, FailureMode::Hide);
    let evaluation = Evaluation::new(vault, caller, token_type, &body, failure_mode);
    let EvaluationResult { fingerprint, .. } = evaluation.evaluate()?;
    let mut renewed = record.clone();
    renewed.fingerprint = record.fingerprint.and(fingerprint);
    if renewed == *record {
        return Ok(None);
    }
    let body = IntentBody { data: body.data, authentication, is_marked, is_typed };
    renewed.body = body.seal(tenant, &renewed)?;
    Ok(Some(renewed))
}
