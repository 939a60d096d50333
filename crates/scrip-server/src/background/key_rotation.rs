//! Rotates the sealing keys of tenants: promotes a new version after every node has loaded it, seals
//! rows again in small transactions, and destroys the old version when no stored value needs it.
//!
//! Every step can be interrupted. The versions of a tenant's keys say how far its rotation is, and
//! the stored progress says where the rows continue.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use scrip_api::app::{App, in_flight::InFlightGuard};
use scrip_core::{
    Error, Timestamp,
    change::ChangeOutcome,
    keys::{
        RotatedTable,
        key_rotation::{KeyRotation, RotationPhase, VersionCount, sealing_key_created_at},
    },
    operations::key_rotations::{
        advance_audit_key::advance_audit_key,
        finish_key_rotation::finish_key_rotation,
        promote_sealing_key::promote_sealing_key,
        reseal_rows::{reseal_rows, start_next_pass},
        start_key_rotation::start_key_rotation,
    },
    policy::{Directory, PolicyPermit, Tenant},
    store::{RotationLease, RotationMark},
    types::id::{TenantId, random_uuid},
};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::{
    config::key_rotation::KeyRotationPace,
    node::Node,
    periodic_tasks::{FailureLog, PAUSE_BETWEEN_STEPS, delayed_interval, restart_after_panic},
};

const CHECK_EVERY: Duration = Duration::from_secs(1);
/// The ages of keys change slowly.
const CHECK_AGES_EVERY: Duration = Duration::from_secs(60);
/// An old vault key is logged again after this time.
const LOG_AGE_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Rows of one transaction.
const STEP: usize = 200;
/// After this time, another tenant has its turn.
const TURN: Duration = Duration::from_secs(1);
/// Longer than a turn, so that one node keeps a rotation while it works on it.
const LEASE: Duration = Duration::from_secs(30);
/// A count that found values of an old version is repeated after this time, later for each pass.
const RECOUNT_MIN: Duration = Duration::from_secs(1);
const RECOUNT_MAX: Duration = Duration::from_secs(60);
const PASS_PAUSE_MAX: Duration = Duration::from_secs(60 * 60);

pub(super) fn start(node: &Node) {
    let (app, pace) = (Arc::clone(&node.app), node.settings.key_rotation);
    restart_after_panic("rotate_keys", move || rotate_keys(Arc::clone(&app), pace));
}

async fn rotate_keys(app: Arc<App>, pace: KeyRotationPace) {
    app.wait_until_unsealed().await;
    let mut stop = app.tasks.deliveries.track();
    let mut worker = RotationWorker::new(Arc::clone(&app), pace, stop.clone());
    let mut ticks = delayed_interval(CHECK_EVERY);
    let mut failures = FailureLog::warning(
        "a step of a key rotation failed; retrying every second",
        "the steps of key rotations succeed again",
    );
    loop {
        tokio::select! {
            biased;
            () = stop.wait_for_stop() => break,
            _ = ticks.tick() => (),
        }
        // The keys of an outdated policy must not decide which version seals.
        let directory = app.directory.load_full().filter(|_| app.rejection_reason().is_none());
        let Some(directory) = directory else { continue };
        let result = worker.check(&directory).await;
        if result.is_err() {
            app.metrics.key_rotation.failures.increment();
        }
        failures.record(&result);
    }
    worker.release_leases().await;
    // The server waits until these are dropped.
    drop((worker, stop));
    std::future::pending::<()>().await;
}

struct RotationWorker {
    app: Arc<App>,
    pace: KeyRotationPace,
    node: Uuid,
    stop: InFlightGuard,
    /// The rotations that this node has.
    leases: HashSet<TenantId>,
    /// Counts that found values of old versions are repeated at these times.
    next_counts: HashMap<TenantId, Instant>,
    ages_checked: Option<Instant>,
    vault_age_logged: Option<Instant>,
}

impl RotationWorker {
    fn new(app: Arc<App>, pace: KeyRotationPace, stop: InFlightGuard) -> Self {
        let node = random_uuid(app.vault.fill_random);
        let (leases, next_counts) = Default::default();
        Self {
            app,
            pace,
            node,
            stop,
            leases,
            next_counts,
            ages_checked: None,
            vault_age_logged: None,
        }
    }

    /// Gives the rotations back, so that another node continues at once.
    async fn release_leases(&self) {
        let now = self.app.vault.clock.now();
        let lease = RotationLease { node: self.node, now, until: now };
        for tenant in &self.leases {
            // Without the release, the lease ends later.
            drop(self.app.vault.store.claim_key_rotation(*tenant, lease).await);
        }
    }

    /// Gives each running rotation its turn.
    async fn check(&mut self, directory: &Directory) -> Result<(), Error> {
        self.advance_audit_key(directory).await?;
        let tenants = directory.tenants();
        let is_running = |it: &&&Arc<Tenant>| RotationPhase::for_tenant(it) != RotationPhase::Idle;
        let running: Vec<_> = tenants.iter().filter(is_running).collect();
        self.app.metrics.key_rotation.running.set(running.len().try_into().unwrap_or(u64::MAX));
        let are_ages_due = self.ages_checked.is_none_or(|it| it.elapsed() >= CHECK_AGES_EVERY);
        if running.is_empty() && !are_ages_due {
            return Ok(());
        }
        let rotations = self.app.vault.store.list_key_rotations().await?;
        if are_ages_due {
            self.ages_checked = Some(Instant::now());
            self.check_vault_key(directory).await?;
            self.close_finished(directory, &rotations).await?;
            self.check_ages(&tenants, &rotations, running.is_empty()).await?;
        }
        let (mut failure, mut unopened) = (None, 0_u64);
        for tenant in running {
            let rotation = self.find_rotation(tenant, &rotations).await?;
            unopened = unopened.saturating_add(rotation.progress.unopened);
            // The failure of one tenant, such as an altered policy, does not stop the others.
            if let Err(error) = self.take_turn(tenant, rotation).await {
                failure = Some(error);
            }
        }
        self.app.metrics.key_rotation.unopened.set(unopened);
        failure.map_or(Ok(()), Err)
    }

    /// Continues the change of the audit key after a compromise of the vault key.
    async fn advance_audit_key(&self, directory: &Directory) -> Result<(), Error> {
        let Some(source) = self.app.key_source.get() else { return Ok(()) };
        let (vault, phase_time) = (&self.app.vault, self.pace.promote_after);
        match advance_audit_key(vault, directory, &**source, phase_time).await? {
            Some(phase) => {
                tracing::info!(?phase, "changing the audit key after a compromise");
                self.app.reload().await
            }
            None => Ok(()),
        }
    }

    /// Reports the age of the vault key. Only an operator rotates it.
    async fn check_vault_key(&mut self, directory: &Directory) -> Result<(), Error> {
        let unlocks = self.app.vault.store.load_unlocks().await?;
        let created_at = unlocks.key_created_at(directory.audit_key().history());
        let Some(created_at) = created_at else { return Ok(()) };
        let (metrics, now) = (&self.app.metrics.key_rotation, self.app.vault.clock.now());
        let age = now.unix_ms.saturating_sub(created_at.unix_ms) / 1000;
        metrics.vault_key_seconds.set(u64::try_from(age).unwrap_or_default());
        let is_overdue = self.pace.vault_max_age.is_some_and(|it| created_at < now.minus(it));
        metrics.is_vault_key_overdue.set(u64::from(is_overdue));
        let is_logged = self.vault_age_logged.is_some_and(|it| it.elapsed() < LOG_AGE_EVERY);
        if is_overdue && !is_logged {
            self.vault_age_logged = Some(Instant::now());
            tracing::warn!(
                %created_at,
                "the vault key is older than keys.vault_max_age_days; run: scrip keys rotate vault"
            );
        }
        Ok(())
    }

    /// The stored rotation of a tenant with several versions. It is stored again if it was lost: the
    /// process ended before it was stored, or the vault was imported.
    async fn find_rotation(
        &self,
        tenant: &Arc<Tenant>,
        rotations: &[KeyRotation],
    ) -> Result<KeyRotation, Error> {
        let version = tenant.keys.newest_version();
        let is_current = |it: &&KeyRotation| {
            it.tenant == tenant.id && it.to_version == version && it.finished_at.is_none()
        };
        if let Some(rotation) = rotations.iter().find(is_current) {
            return Ok(rotation.clone());
        }
        let rotation = KeyRotation::new(tenant.id, version, self.app.vault.clock.now());
        self.app.vault.store.insert_key_rotation(rotation.clone()).await?;
        Ok(rotation)
    }

    /// Marks rotations as finished if the process ended before it could do so.
    async fn close_finished(
        &self,
        directory: &Directory,
        rotations: &[KeyRotation],
    ) -> Result<(), Error> {
        let vault = &self.app.vault;
        for rotation in rotations.iter().filter(|it| it.finished_at.is_none()) {
            let is_done = |it: &&Arc<Tenant>| {
                RotationPhase::for_tenant(it) == RotationPhase::Idle
                    && it.keys.current_version() == rotation.to_version
            };
            if directory.tenant(rotation.tenant).filter(is_done).is_some() {
                let mark = RotationMark::Finished(vault.clock.now());
                vault.store.mark_key_rotation(rotation.tenant, mark).await?;
            }
        }
        Ok(())
    }

    /// Reports the ages of keys, and rotates the oldest key that is too old, one at a time.
    async fn check_ages(
        &self,
        tenants: &[&Arc<Tenant>],
        rotations: &[KeyRotation],
        is_idle: bool,
    ) -> Result<(), Error> {
        let (metrics, now) = (&self.app.metrics.key_rotation, self.app.vault.clock.now());
        let created_at = |it: &&Arc<Tenant>| sealing_key_created_at(it, rotations);
        let oldest = tenants.iter().min_by_key(|it| created_at(it));
        let age = oldest.map_or(0, |it| now.unix_ms.saturating_sub(created_at(it).unix_ms));
        metrics.oldest_key_seconds.set(u64::try_from(age / 1000).unwrap_or_default());
        let Some(max_age) = self.pace.max_age else { return Ok(()) };
        let cutoff = now.minus(max_age);
        let overdue = tenants.iter().filter(|it| created_at(it) < cutoff).count();
        metrics.overdue.set(overdue.try_into().unwrap_or(u64::MAX));
        let tenant =
            oldest.filter(|it| self.pace.is_automatic && is_idle && created_at(it) < cutoff);
        let Some((tenant, source)) = tenant.zip(self.app.key_source.get()) else { return Ok(()) };
        let permit = PolicyPermit::for_vault(Arc::clone(tenant));
        match start_key_rotation(&self.app.vault, permit, &**source).await {
            Ok(_) => tracing::info!(tenant = %tenant.id, "rotation of an old sealing key started"),
            // Another node was faster.
            Err(Error::Conflict { .. }) => (),
            Err(error) => return Err(error),
        }
        self.app.reload().await
    }

    async fn take_turn(
        &mut self,
        tenant: &Arc<Tenant>,
        mut rotation: KeyRotation,
    ) -> Result<(), Error> {
        if self.stop.must_stop() {
            return Ok(());
        }
        let app = Arc::clone(&self.app);
        let vault = &app.vault;
        let now = vault.clock.now();
        let lease = RotationLease { node: self.node, now, until: now.plus(LEASE) };
        if vault.store.claim_key_rotation(tenant.id, lease).await? == ChangeOutcome::Stale {
            self.leases.remove(&tenant.id);
            return Ok(());
        }
        self.leases.insert(tenant.id);
        match (RotationPhase::for_tenant(tenant), rotation.promoted_at) {
            (RotationPhase::Idle, _) => Ok(()),
            (RotationPhase::Added, _) => self.promote(tenant, &rotation, now).await,
            (RotationPhase::Promoted, None) => {
                vault.store.mark_key_rotation(tenant.id, RotationMark::Promoted(now)).await?;
                Ok(())
            }
            (RotationPhase::Promoted, Some(promoted_at)) => {
                if rotation.progress.table.is_some() {
                    return self.reseal(tenant, &mut rotation).await;
                }
                self.finish(tenant, &mut rotation, promoted_at, now).await
            }
        }
    }

    /// Promotes the new version when every node has loaded it. A node that cannot load it rejects all
    /// requests by then.
    async fn promote(
        &self,
        tenant: &Arc<Tenant>,
        rotation: &KeyRotation,
        now: Timestamp,
    ) -> Result<(), Error> {
        if now < rotation.started_at.plus(self.pace.promote_after) {
            return Ok(());
        }
        promote_sealing_key(&self.app.vault, tenant).await?;
        let mark = RotationMark::Promoted(now);
        self.app.vault.store.mark_key_rotation(tenant.id, mark).await?;
        let version = rotation.to_version;
        tracing::info!(tenant = %tenant.id, version, "new sealing key in use; encrypting rows again");
        self.app.reload().await
    }

    /// Seals rows again until the turn or the pass ends.
    async fn reseal(&self, tenant: &Arc<Tenant>, rotation: &mut KeyRotation) -> Result<(), Error> {
        let started = Instant::now();
        while rotation.progress.table.is_some()
            && started.elapsed() < TURN
            && !self.stop.must_stop()
        {
            let step = reseal_rows(&self.app.vault, tenant, rotation, STEP).await?;
            if step.is_stale {
                return Ok(());
            }
            self.app.metrics.key_rotation.resealed.add(step.resealed);
            sleep(self.pause_after(step.resealed)).await;
        }
        Ok(())
    }

    fn pause_after(&self, rows: u64) -> Duration {
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        let rows_per_second = u32::try_from(self.pace.rows_per_second).unwrap_or(u32::MAX).max(1);
        let pause = Duration::from_secs(1).saturating_mul(rows) / rows_per_second;
        pause.max(PAUSE_BETWEEN_STEPS)
    }

    /// Destroys the old versions when the time for cursors is over and no value needs them.
    async fn finish(
        &mut self,
        tenant: &Arc<Tenant>,
        rotation: &mut KeyRotation,
        promoted_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), Error> {
        let vault = &self.app.vault;
        let earliest = vault.store.cap_at_shared_clock(vault.clock.earliest()).await?.min(now);
        let is_waiting = self.next_counts.get(&tenant.id).is_some_and(|it| Instant::now() < *it);
        if earliest < promoted_at.plus(self.pace.destroy_after) || is_waiting {
            return Ok(());
        }
        let old_values = match finish_key_rotation(vault, tenant, rotation).await {
            // A value of an old version was written during the count, so there is another pass.
            Err(Error::Conflict { .. }) => return Ok(()),
            outcome => outcome?,
        };
        if old_values.is_empty() {
            self.next_counts.remove(&tenant.id);
            let (version, rows) = (rotation.to_version, rotation.progress.resealed);
            tracing::info!(
                tenant = %tenant.id, version, rows, "key rotation finished; the old key is destroyed"
            );
            return self.app.reload().await;
        }
        self.wait_for_values(tenant, rotation, &old_values).await
    }

    /// Waits until stored responses have expired. Rows that a pass should have sealed again get
    /// another pass.
    async fn wait_for_values(
        &mut self,
        tenant: &Arc<Tenant>,
        rotation: &mut KeyRotation,
        old_values: &[VersionCount],
    ) -> Result<(), Error> {
        let pause = self.pace.destroy_after.clamp(RECOUNT_MIN, RECOUNT_MAX);
        let pause = pause.saturating_mul(rotation.progress.pass).min(PASS_PAUSE_MAX);
        self.next_counts.insert(tenant.id, Instant::now() + pause);
        let is_rotated = |it: &VersionCount| {
            RotatedTable::ALL.iter().any(|table| it.column == format!("{}.body", table.as_str()))
        };
        if !old_values.iter().any(is_rotated) {
            return Ok(());
        }
        if rotation.progress.unopened > 0 {
            tracing::error!(
                tenant = %tenant.id,
                rows = rotation.progress.unopened,
                "rows cannot be decrypted, so the old sealing key is not destroyed: they were altered \
                 outside of the vault; see: scrip keys rotation status"
            );
        }
        start_next_pass(&self.app.vault, rotation).await
    }
}
