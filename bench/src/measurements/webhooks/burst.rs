//! Creates at full rate, then the time until all their events are delivered.

use std::time::Duration;

use anyhow::ensure;

use crate::{
    harness::{
        clock::now,
        load::LoadDuration,
        process::{anonymous_mb, cpu_time},
        results::MeasurementResult,
        webhook_receiver::WebhookReceiver,
    },
    measurements::{
        rounds::BenchPlan,
        webhooks::{
            setup::{Engine, SUBSCRIBED_EVENT},
            vault::{DeliverySwitch, SILENCE_MAX, WebhookVault},
        },
    },
};

/// A vault keeps 100,000 deliveries of a webhook: a longer burst would drop events.
const BURST_MAX: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct BurstResult {
    pub(super) creates: MeasurementResult,
    pub(super) created: u64,
    /// Events that were not delivered at the end of the creates.
    pub(super) backlog: u64,
    pub(super) drain: Duration,
    /// Events that were delivered in that time.
    pub(super) drained: u32,
    /// Processor time of the server in that time, in microseconds per delivery.
    pub(super) cpu_us: f64,
    pub(super) repetitions: u64,
    /// Anonymous memory at the end of the creates, and at the end of the deliveries.
    pub(super) memory_mb: [f64; 2],
}

pub(super) async fn measure_burst(plan: &BenchPlan, engine: Engine) -> anyhow::Result<BurstResult> {
    let vault = WebhookVault::start(plan, engine, "burst", DeliverySwitch::On)?;
    let receiver = WebhookReceiver::start().await?;
    vault.create_webhook(&receiver, SUBSCRIBED_EVENT).await?;
    let duration = plan.durations.1.min(BURST_MAX);
    let load = vault.load_plan("burst", LoadDuration::Time(Duration::ZERO, duration));
    let (creates, backlog) = vault.run_creates(load, Some(&receiver)).await?;
    let pid = vault.server.pid();
    let (start, cpu_before, memory_before) = (now(), cpu_time(pid)?, anonymous_mb(pid)?);
    let received_before = receiver.received();
    let received = receiver.wait_for(backlog.received_total, SILENCE_MAX).await;
    let (drain, cpu) = (start.elapsed(), cpu_time(pid)?.saturating_sub(cpu_before));
    let missing = backlog.received_total.saturating_sub(received);
    ensure!(missing == 0, "{missing} of {} events did not arrive", backlog.created);
    let memory_mb = [memory_before, anonymous_mb(pid)?];
    let drained = u32::try_from(received.saturating_sub(received_before))?;
    let repetitions = receiver.repetitions();
    vault.stop()?;
    Ok(BurstResult {
        creates,
        created: backlog.created,
        backlog: backlog.remaining,
        drain,
        drained,
        cpu_us: cpu.as_secs_f64() * 1e6 / f64::from(drained.max(1)),
        repetitions,
        memory_mb,
    })
}
