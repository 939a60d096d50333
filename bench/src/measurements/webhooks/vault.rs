//! A vault with webhooks, and creates at a fixed rate.

use std::{
    convert::Infallible,
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use scrip_testing::postgres::cluster::Cluster;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    harness::{
        clock::now,
        load::{self, LoadDuration, LoadPlan},
        management::send_json,
        process::BenchServer,
        results::{MeasurementResult, print_result},
        script::{CreateScript, CreateVariant},
        webhook_receiver::WebhookReceiver,
    },
    measurements::{
        rounds::BenchPlan,
        webhooks::setup::{Engine, RATE},
    },
};

pub(super) const CONNECTIONS: usize = 64;
/// Longer than the lease of a delivery, after which the vault sends it again.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(45);
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// Whether the node delivers the events that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliverySwitch {
    On,
    Off,
}

/// Creates at the fixed rate.
#[derive(Debug)]
pub(super) struct CreateTurn {
    pub(super) creates: MeasurementResult,
    /// The largest number of creates without a delivery, among them those in progress.
    pub(super) backlog_max: u64,
    pub(super) deliveries_per_second: f64,
}

/// Each measurement has its own vault: the rows of another one would change its cost.
pub(super) struct WebhookVault<'a> {
    pub(super) server: BenchServer,
    pub(super) plan: &'a BenchPlan,
    serial: Arc<AtomicU64>,
    /// After the node, which would fail without it.
    _cluster: Option<Cluster>,
}

pub(super) struct CreatedWebhook {
    id: String,
    attributes: Value,
}

impl<'a> WebhookVault<'a> {
    pub(super) fn start(
        plan: &'a BenchPlan,
        engine: Engine,
        name: &str,
        switch: DeliverySwitch,
    ) -> anyhow::Result<Self> {
        let data = plan.folder.join(name);
        fs::create_dir(&data)?;
        let cluster = (engine == Engine::Postgres)
            .then(|| Cluster::start(&["shared_buffers=256MB", "max_wal_size=4GB"]));
        let url = cluster.as_ref().map(Cluster::url);
        let mut settings = Vec::new();
        settings.extend(url.as_deref().map(|it| ("SCRIP_STORAGE_URL", it)));
        if switch == DeliverySwitch::Off {
            settings.push(("SCRIP_WEBHOOKS_DELIVER", "false"));
        }
        let server = BenchServer::start_scrip_with_settings(&plan.scrip, &data, &settings)?;
        Ok(Self { server, plan, serial: Arc::default(), _cluster: cluster })
    }

    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.server.stop()
    }

    pub(super) async fn create_webhook(
        &self,
        receiver: &WebhookReceiver,
        event: &str,
    ) -> anyhow::Result<CreatedWebhook> {
        let attributes = json!({ "name": "bench", "url": receiver.url, "events": [event] });
        let created = send_json(&self.server, "POST /webhooks", &attributes).await?;
        let id = created.get("id").and_then(Value::as_str).context("a webhook has no id")?;
        Ok(CreatedWebhook { id: id.to_owned(), attributes })
    }

    pub(super) async fn set_status(
        &self,
        webhook: &CreatedWebhook,
        status: &str,
    ) -> anyhow::Result<()> {
        let mut attributes = webhook.attributes.clone();
        if let Some(attributes) = attributes.as_object_mut() {
            attributes.insert("status".to_owned(), status.into());
        }
        let request_line = format!("PUT /webhooks/{}", webhook.id);
        send_json(&self.server, &request_line, &attributes).await.map(drop)
    }

    pub(super) async fn delete_webhook(&self, webhook: &CreatedWebhook) -> anyhow::Result<()> {
        let request_line = format!("DELETE /webhooks/{}", webhook.id);
        send_json(&self.server, &request_line, &Value::Null).await.map(drop)
    }

    /// Creates tokens at the fixed rate. With a receiver, ends after all their events have arrived.
    pub(super) async fn create_at_rate(
        &self,
        name: &'static str,
        receiver: Option<&WebhookReceiver>,
    ) -> anyhow::Result<CreateTurn> {
        let connections = u32::try_from(CONNECTIONS)?;
        let interval = Duration::from_secs(1).saturating_mul(connections).checked_div(RATE);
        let until = LoadDuration::Time(self.plan.durations.0, self.plan.durations.1);
        let load = LoadPlan { interval, ..self.load_plan(name, until) };
        let start = now();
        let (creates, backlog) = self.run_creates(load, receiver).await?;
        let elapsed = start.elapsed().as_secs_f64();
        let delivered = u32::try_from(backlog.created.saturating_sub(backlog.remaining))?;
        if let Some(receiver) = receiver {
            let arrived = receiver.wait_for(backlog.received_total, SILENCE_MAX).await;
            let missing = backlog.received_total.saturating_sub(arrived);
            ensure!(missing == 0, "{missing} events did not arrive");
        }
        Ok(CreateTurn {
            creates,
            backlog_max: backlog.max,
            deliveries_per_second: f64::from(delivered) / elapsed,
        })
    }

    /// Runs creates and watches the backlog of the receiver.
    pub(super) async fn run_creates(
        &self,
        load: LoadPlan,
        receiver: Option<&WebhookReceiver>,
    ) -> anyhow::Result<(MeasurementResult, Backlog)> {
        let build_script =
            |_| CreateScript::new(&self.server.api_key, CreateVariant::Plain, &self.serial);
        let scripts = (0..CONNECTIONS).map(build_script).collect::<anyhow::Result<Vec<_>>>()?;
        let serial_before = self.serial.load(Ordering::Relaxed);
        let received_before = receiver.map_or(0, WebhookReceiver::received);
        let count_created = || self.serial.load(Ordering::Relaxed).saturating_sub(serial_before);
        let count_remaining = || {
            let received = receiver.map_or(0, WebhookReceiver::received);
            count_created().saturating_sub(received.saturating_sub(received_before))
        };
        let max = AtomicU64::new(0);
        let (result, _) = tokio::select! {
            outcome = load::run(load, scripts) => outcome?,
            never = watch_backlog(count_remaining, &max) => match never {},
        };
        print_result(&result)?;
        let (created, remaining) = (count_created(), count_remaining());
        let received_total = received_before.saturating_add(created);
        let max = max.into_inner();
        Ok((result, Backlog { created, remaining, received_total, max }))
    }

    pub(super) fn load_plan(&self, name: &'static str, until: LoadDuration) -> LoadPlan {
        let (address, server) = (self.server.address, self.server.pid());
        LoadPlan { name, address, server, upstream: None, status: 201, until, interval: None }
    }
}

/// Creates of a run, and the events of these that have not arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backlog {
    pub(super) created: u64,
    /// At the end of the creates.
    pub(super) remaining: u64,
    /// The number of events at the receiver when all have arrived.
    pub(super) received_total: u64,
    max: u64,
}

async fn watch_backlog(count: impl Fn() -> u64, max: &AtomicU64) -> Infallible {
    loop {
        max.fetch_max(count(), Ordering::Relaxed);
        sleep(SAMPLE_INTERVAL).await;
    }
}
