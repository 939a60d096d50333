//! Rotations of sealing keys, in a list.

use std::collections::BTreeMap;

use scrip_core::{
    change::ChangeOutcome,
    keys::{
        ResealedRow, RotatedTable, RowKey, SealedDelivery, SealedRow, SealedRows,
        key_rotation::{KeyRotation, VersionCount},
    },
    policy::{
        POLICY_ENTITIES, PolicyEntity, PolicyRecords, StoredRow,
        entity::{Column, RowValue},
    },
    store::{
        DigestChanges, KeyRotationStore, RotationLease, RotationMark, RotationStep, VersionPage,
    },
    types::{StoreFuture, id::TenantId},
};
use scrip_seal::Sealed;

use crate::memory::{
    MemoryStore,
    state::{MemoryKeyRotation, MemoryStoreState},
};

impl MemoryStoreState {
    /// The rows of a table in the order of their keys.
    fn sealed_rows(&self, tenant: TenantId, table: RotatedTable) -> Vec<SealedRow> {
        let mut rows: Vec<_> = match table {
            RotatedTable::Tokens => {
                let rows = self.tokens.iter().filter(|it| it.tenant == tenant);
                rows.map(|it| SealedRow::Token(Box::new(it.token.record.clone()))).collect()
            }
            RotatedTable::TokenIntents => {
                let rows = self.intents.iter().filter(|(it, _)| *it == tenant);
                rows.map(|(_, it)| SealedRow::TokenIntent(Box::new(it.record.clone()))).collect()
            }
            RotatedTable::ThreeDsSessions => {
                let rows = self.threeds_sessions.iter().filter(|it| it.tenant == tenant);
                rows.map(|it| SealedRow::ThreeDsSession(Box::new(it.clone()))).collect()
            }
            RotatedTable::Deliveries => {
                let rows = self.deliveries.iter().filter(|it| it.key.tenant == tenant);
                rows.map(|it| {
                    SealedRow::Delivery(Box::new(SealedDelivery {
                        key: it.key,
                        event: it.record.event,
                        event_type: it.record.event_type.clone(),
                        occurred_at: it.record.occurred_at,
                        body: it.body.clone(),
                    }))
                })
                .collect()
            }
        };
        rows.sort_by_key(|it| it.key().to_text());
        rows
    }

    fn replace_body(&mut self, tenant: TenantId, row: &ResealedRow) -> u64 {
        let key = row.key.to_text();
        let mut bodies: Vec<(String, &mut Sealed)> = match &row.key {
            RowKey::Token(_) => {
                let rows = self.tokens.iter_mut().filter(|it| it.tenant == tenant);
                rows.map(|it| (it.token.record.id.as_str().to_owned(), &mut it.token.record.body))
                    .collect()
            }
            RowKey::TokenIntent(_) => {
                let rows = self.intents.iter_mut().filter(|(it, _)| *it == tenant);
                rows.map(|(_, it)| (it.record.id.to_string(), &mut it.record.body)).collect()
            }
            RowKey::ThreeDsSession(_) => {
                let rows = self.threeds_sessions.iter_mut().filter(|it| it.tenant == tenant);
                rows.map(|it| (it.id.to_string(), &mut it.body)).collect()
            }
            RowKey::Delivery { .. } => {
                let rows = self.deliveries.iter_mut().filter(|it| it.key.tenant == tenant);
                rows.map(|it| (format!("{}/{}", it.key.webhook, it.record.event), &mut it.body))
                    .collect()
            }
        };
        let found = bodies.iter_mut().find(|(it, body)| *it == key && **body == row.old);
        found.map_or(0, |(_, body)| {
            body.clone_from(&row.new);
            1
        })
    }

    pub(super) fn is_at_end_of_pass(&mut self, tenant: TenantId, pass: u32) -> bool {
        self.find_running(tenant).is_some_and(|MemoryKeyRotation { rotation, .. }| {
            let progress = &rotation.progress;
            progress.pass == pass
                && progress.table.is_none()
                && rotation.promoted_at.is_some()
                && !rotation.is_paused
        })
    }

    fn find_running(&mut self, tenant: TenantId) -> Option<&mut MemoryKeyRotation> {
        self.key_rotations
            .iter_mut()
            .find(|it| it.rotation.tenant == tenant && it.rotation.finished_at.is_none())
    }
}

fn page(rows: Vec<SealedRow>, after: Option<&RowKey>, rows_max: usize) -> SealedRows {
    let after = after.map(RowKey::to_text);
    let is_after = |it: &SealedRow| after.as_ref().is_none_or(|after| it.key().to_text() > *after);
    let rows: Vec<_> = rows.into_iter().filter(is_after).take(rows_max).collect();
    let last = rows.last().filter(|_| rows.len() >= rows_max).map(SealedRow::key);
    SealedRows { rows, undecoded: 0, last }
}

fn count<'a>(column: &str, values: impl Iterator<Item = &'a Sealed>) -> Vec<VersionCount> {
    let mut counts = BTreeMap::<u32, u64>::new();
    for value in values {
        *counts.entry(value.key_version().unwrap_or_default()).or_default() += 1;
    }
    let to_count = |(version, rows)| VersionCount { column: column.to_owned(), version, rows };
    counts.into_iter().map(to_count).collect()
}

/// Counts the versions in the sealed columns of every entity.
fn count_policy(policy: &PolicyRecords) -> Vec<VersionCount> {
    let mut counts = Vec::new();
    for PolicyEntity { entity, .. } in POLICY_ENTITIES {
        let rows: Vec<_> = policy.rows().filter(|it| it.entity() == entity).collect();
        for column in entity.sealed_columns() {
            let sealed: Vec<_> = rows.iter().filter_map(|it| sealed_value(*it, column)).collect();
            counts.extend(count(&format!("{}.{}", entity.table, column.name), sealed.iter()));
        }
    }
    counts
}

fn sealed_value(row: &dyn StoredRow, column: &Column) -> Option<Sealed> {
    let mut columns = row.entity().columns.iter().zip(row.values());
    match columns.find(|(it, _)| *it == column)?.1 {
        RowValue::Bytes(bytes) => Some(Sealed::from_stored(bytes.into_owned())),
        RowValue::Null | RowValue::Id(_) | RowValue::Number(_) | RowValue::Text(_) => None,
    }
}

fn outcome(is_done: bool) -> ChangeOutcome {
    if is_done { ChangeOutcome::Done } else { ChangeOutcome::Stale }
}

impl KeyRotationStore for MemoryStore {
    fn list_key_rotations(&self) -> StoreFuture<'_, Vec<KeyRotation>> {
        self.with(|it| it.key_rotations.iter().map(|it| it.rotation.clone()).collect())
    }

    fn insert_key_rotation(&self, rotation: KeyRotation) -> StoreFuture<'_, ChangeOutcome> {
        self.with(move |state| {
            let (tenant, version) = (rotation.tenant, rotation.to_version);
            let newest = state.directory.tenants.iter().find(|it| it.tenant.record.id == tenant);
            let newest = newest.and_then(|it| it.tenant.record.keys.newest_version());
            let is_running =
                state.find_running(tenant).is_some_and(|it| it.rotation.to_version == version);
            if is_running || newest != Some(version) {
                return ChangeOutcome::Stale;
            }
            state.key_rotations.retain(|it| it.rotation.tenant != tenant);
            state.key_rotations.push(MemoryKeyRotation { rotation, lease: None });
            ChangeOutcome::Done
        })
    }

    fn mark_key_rotation(
        &self,
        tenant: TenantId,
        mark: RotationMark,
    ) -> StoreFuture<'_, ChangeOutcome> {
        self.with(move |state| {
            let Some(MemoryKeyRotation { rotation, .. }) = state.find_running(tenant) else {
                return ChangeOutcome::Stale;
            };
            match mark {
                RotationMark::Promoted(at) => {
                    let is_done = rotation.promoted_at.is_none();
                    rotation.promoted_at.get_or_insert(at);
                    outcome(is_done)
                }
                RotationMark::Finished(at) => {
                    rotation.finished_at = Some(at);
                    (rotation.progress.table, rotation.progress.after) = (None, None);
                    ChangeOutcome::Done
                }
                RotationMark::Paused => outcome(!std::mem::replace(&mut rotation.is_paused, true)),
                RotationMark::Resumed => outcome(std::mem::replace(&mut rotation.is_paused, false)),
            }
        })
    }

    fn claim_key_rotation(
        &self,
        tenant: TenantId,
        lease: RotationLease,
    ) -> StoreFuture<'_, ChangeOutcome> {
        self.with(move |state| {
            let found = state.find_running(tenant).filter(|it| !it.rotation.is_paused);
            let Some(found) = found else { return ChangeOutcome::Stale };
            let is_free =
                found.lease.is_none_or(|(node, until)| node == lease.node || until <= lease.now);
            if is_free {
                found.lease = Some((lease.node, lease.until));
            }
            outcome(is_free)
        })
    }

    fn advance_key_rotation(&self, step: RotationStep) -> StoreFuture<'_, ChangeOutcome> {
        let work = move |state: &mut MemoryStoreState| {
            let RotationStep { tenant, before, after, rows } = &step;
            let replaced: u64 = rows.iter().map(|it| state.replace_body(*tenant, it)).sum();
            let found = state.find_running(*tenant).map(|it| &mut it.rotation);
            let is_same = |it: &&mut KeyRotation| {
                let progress = &it.progress;
                !it.is_paused
                    && (progress.pass, progress.table, &progress.after)
                        == (before.pass, before.table, &before.after)
            };
            let Some(rotation) = found.filter(is_same) else { return Ok(ChangeOutcome::Stale) };
            let resealed = rotation.progress.resealed + replaced;
            rotation.progress = after.clone();
            rotation.progress.resealed = resealed;
            Ok(ChangeOutcome::Done)
        };
        self.attempt_if(work, |it| *it == ChangeOutcome::Done)
    }

    fn list_sealed_rows(
        &self,
        tenant: TenantId,
        table: RotatedTable,
        after: Option<RowKey>,
        rows_max: usize,
    ) -> StoreFuture<'_, SealedRows> {
        self.with(move |it| page(it.sealed_rows(tenant, table), after.as_ref(), rows_max))
    }

    fn replace_digests(&self, changes: DigestChanges) -> StoreFuture<'_, ()> {
        self.with(move |it| {
            let tenant = changes.tenant;
            for [before, after] in changes.tokens {
                let mut rows = it.tokens.iter_mut().filter(|it| it.tenant == tenant);
                if let Some(row) = rows.find(|it| it.token.record == before) {
                    row.token.record = after;
                }
            }
            for [before, after] in changes.intents {
                let mut rows = it.intents.iter_mut().filter(|(it, _)| *it == tenant);
                if let Some((_, row)) = rows.find(|(_, it)| it.record == before) {
                    row.record = after;
                }
            }
        })
    }

    fn count_key_versions(
        &self,
        tenant: TenantId,
        table: RotatedTable,
        after: Option<RowKey>,
        rows_max: usize,
    ) -> StoreFuture<'_, VersionPage> {
        self.with(move |it| {
            let page = page(it.sealed_rows(tenant, table), after.as_ref(), rows_max);
            let counts = count("", page.rows.iter().map(SealedRow::body));
            let counts = counts.into_iter().map(|it| (it.version, it.rows)).collect();
            VersionPage { counts, last: page.last }
        })
    }

    fn count_other_key_versions(&self, tenant: TenantId) -> StoreFuture<'_, Vec<VersionCount>> {
        self.with(move |state| {
            let policies = state.directory.tenants.iter();
            let policy = policies.filter(|it| it.tenant.record.id == tenant);
            let mut counts: Vec<_> = policy.flat_map(count_policy).collect();
            let responses = || state.idempotency_records.iter().filter(|it| it.tenant == tenant);
            let token_data = responses().flat_map(|it| &it.record.token_data);
            counts.extend(count("idempotency_records.head", responses().map(|it| &it.record.head)));
            counts.extend(count("response_token_data.sealed", token_data.map(|it| &it.sealed)));
            counts
        })
    }
}
