//! Deliveries to real receivers on the loopback address.

mod bounds;
mod failures;
mod isolation;
mod outcomes;
mod shutdown;

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use scrip_api::app::proxy_egress::{DestinationRoots, LazyEgressClient};
use scrip_egress::{AllowList, EgressSettings, LookupFuture, Resolve, TrustedRoots};
use scrip_testing::{
    destination::{
        DestinationHost, DestinationRequest, DestinationServer, behavior::DestinationBehavior,
    },
    process::harness::becomes_true,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::webhook_body;
use crate::harness::server::{ServerSetup, TenantApiKeys, TestServer, text_field};

/// A server, receivers that it may reach, and a tenant.
struct DelivererHarness {
    server: TestServer,
    receivers: DestinationServer,
    resolver: Arc<ReceiverResolver>,
    keys: TenantApiKeys,
    /// The time before the last advance of the clock.
    advanced_at: AtomicI64,
}

/// Resolves all names to the loopback address, unless a test decides otherwise.
#[derive(Debug, Default)]
struct ReceiverResolver(Mutex<HashMap<String, IpAddr>>);

impl Resolve for ReceiverResolver {
    fn lookup<'a>(&'a self, name: &'a str) -> LookupFuture<'a> {
        let address = self.0.lock().unwrap().get(name).copied();
        Box::pin(async move { Ok(vec![address.unwrap_or(Ipv4Addr::LOCALHOST.into())]) })
    }
}

struct TestWebhook {
    id: String,
    secret: String,
}

/// A stored delivery.
#[derive(Debug, Clone)]
struct DeliveryRow {
    state: String,
    attempts: u32,
    status: u16,
    error: String,
    last_attempt_at: i64,
    next_at: i64,
    /// From the event to the answer.
    latency_ms: i64,
}

impl DelivererHarness {
    fn start() -> Self {
        Self::start_with(|_, _| ())
    }

    /// Starts a server with a webhook whose receiver responds so.
    fn start_with_receiver(
        behaviors: &[DestinationBehavior],
    ) -> (Self, DestinationHost, TestWebhook) {
        let harness = Self::start();
        let (host, webhook) = harness.create_receiver(behaviors);
        (harness, host, webhook)
    }

    /// Creates a webhook whose receiver responds so.
    fn create_receiver(&self, behaviors: &[DestinationBehavior]) -> (DestinationHost, TestWebhook) {
        let host = self.receivers.host(behaviors);
        let webhook = self.create_webhook(&host.url("/"));
        (host, webhook)
    }

    fn start_with(configure: impl FnOnce(&mut ServerSetup, &mut EgressSettings)) -> Self {
        let receivers = DestinationServer::start();
        let resolver = Arc::new(ReceiverResolver::default());
        let mut egress = egress_settings(&receivers, &resolver);
        let server = TestServer::start_with(|setup| {
            configure(setup, &mut egress);
            setup.egress.webhooks = LazyEgressClient::new(egress, DestinationRoots::Given);
        });
        let keys = server.create_default_tenant();
        Self { server, receivers, resolver, keys, advanced_at: AtomicI64::new(0) }
    }

    /// Another node on the same store.
    fn start_second_node(&self) -> TestServer {
        let egress = egress_settings(&self.receivers, &self.resolver);
        self.server.start_second_node(|setup| {
            setup.egress.webhooks = LazyEgressClient::new(egress, DestinationRoots::Given);
        })
    }

    fn create_webhook(&self, url: &str) -> TestWebhook {
        self.create_webhook_of(&self.keys, url)
    }

    fn create_webhook_of(&self, keys: &TenantApiKeys, url: &str) -> TestWebhook {
        let body = webhook_body(&json!({"url": url}));
        let created = self.server.post(&keys.management, "/webhooks", &body).expect_status(201);
        TestWebhook { id: text_field(&created, "id"), secret: text_field(&created, "secret") }
    }

    /// Creates tokens: each raises one event.
    fn raise(&self, count: usize) {
        self.raise_of(&self.keys, count);
    }

    fn raise_of(&self, keys: &TenantApiKeys, count: usize) {
        for _ in 0..count {
            let body = json!({"type": "token", "data": "value"});
            self.server.create_token_ok(&keys.private, &body);
        }
    }

    fn status_of(&self, webhook: &TestWebhook) -> String {
        let path = format!("/webhooks/{}", webhook.id);
        let found = self.server.get_path(&self.keys.management, &path).expect_status(200);
        text_field(&found, "status")
    }

    /// The deliveries of a webhook, oldest first.
    fn rows(&self, webhook: &TestWebhook) -> Vec<DeliveryRow> {
        let id = self.server.engine.sql_id(webhook.id.parse::<Uuid>().unwrap());
        let rows = self.server.engine.select(&format!(
            "SELECT state, attempts, coalesce(last_status, 0), coalesce(last_error, ''), \
             coalesce(last_attempt_at, 0), next_at, coalesce(last_attempt_at - occurred_at, 0) \
             FROM deliveries WHERE webhook = {id} ORDER BY event"
        ));
        let parse = |row: &Vec<String>| DeliveryRow {
            state: row[0].clone(),
            attempts: row[1].parse().unwrap(),
            status: row[2].parse().unwrap(),
            error: row[3].clone(),
            last_attempt_at: row[4].parse().unwrap(),
            next_at: row[5].parse().unwrap(),
            latency_ms: row[6].parse().unwrap(),
        };
        rows.iter().map(parse).collect()
    }

    #[track_caller]
    fn single_row(&self, webhook: &TestWebhook) -> DeliveryRow {
        let mut rows = self.rows(webhook);
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.remove(0)
    }

    /// Waits until all deliveries of a webhook meet the condition.
    #[track_caller]
    fn wait_for_rows(&self, webhook: &TestWebhook, is_done: impl Fn(&DeliveryRow) -> bool) {
        let all_done = || {
            let rows = self.rows(webhook);
            !rows.is_empty() && rows.iter().all(&is_done)
        };
        assert!(becomes_true(all_done), "{:?}", self.rows(webhook));
    }

    /// Waits until the only delivery has the result of this attempt, since the last advance of the
    /// clock.
    #[track_caller]
    fn wait_for_attempt(&self, webhook: &TestWebhook, attempts: u32) -> DeliveryRow {
        let advanced_at = self.advanced_at.load(Ordering::SeqCst);
        self.wait_for_rows(webhook, |it| {
            it.attempts == attempts && it.last_attempt_at > advanced_at
        });
        self.single_row(webhook)
    }

    fn advance(&self, duration: Duration) {
        self.advanced_at.store(self.now_ms(), Ordering::SeqCst);
        self.server.clock.advance(duration);
    }

    fn now_ms(&self) -> i64 {
        self.server.app.vault.clock.now().unix_ms
    }
}

fn egress_settings(
    receivers: &DestinationServer,
    resolver: &Arc<ReceiverResolver>,
) -> EgressSettings {
    let roots = TrustedRoots::from_pem(&receivers.authority.root_pem()).unwrap();
    let mut egress = EgressSettings::new(roots);
    egress.allow_list = AllowList::parse(["*", "127.0.0.1/32"]).unwrap();
    egress.allowed_ports = vec![443, receivers.address.port()];
    egress.resolver = Arc::<ReceiverResolver>::clone(resolver);
    egress
}

fn respond(status: u16) -> DestinationBehavior {
    DestinationBehavior::text(status, "")
}

fn parse_body(request: &DestinationRequest) -> Value {
    serde_json::from_str(request.text()).unwrap()
}
