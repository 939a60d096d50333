//! Runs a sequence on both vaults and compares every response to a caller without a reveal right.

use std::{
    collections::HashMap,
    fmt,
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{body::Body, extract::Request};
use futures_util::future::join_all;
use http_body_util::BodyExt;
use scrip_core::{store::Store, token::disclosure::DisclosureRules};
use scrip_testing::{
    MemoryStore,
    contract::{Contract, Exchange, document},
};
use serde_json::{Value, json};

use crate::{
    in_process_vault::{HarnessStorage, InProcessVault, TenantKeysByActor, tenant_plans},
    observation::{Observation, RandomValueNames},
    random,
    secrets::{Secrets, VaultSide},
    step::{Actor, Sequence, Step},
};

/// The guard rejects the port without a lookup of the name.
const UNREACHABLE_URL: &str = "https://destination.test:1/";

/// Two vaults that differ only in hidden data.
#[derive(Debug)]
struct VaultPair {
    left: InProcessVault,
    right: InProcessVault,
}

/// The pairs of vaults for all tenant plans.
#[derive(Debug)]
pub(crate) struct TwinVaults {
    /// One pair for each tenant, or one pair with all tenants.
    pairs: Vec<VaultPair>,
    /// The number of tenants.
    pub(crate) tenants: usize,
}

/// The first response that differs.
#[derive(Debug)]
pub(crate) struct ResponseDifference {
    pub(crate) step: usize,
    left: Observation,
    right: Observation,
}

impl fmt::Display for ResponseDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the responses to step #{} differ:", self.step)?;
        writeln!(f, "  left:  {}", self.left)?;
        write!(f, "  right: {}", self.right)
    }
}

impl TwinVaults {
    /// Creates one pair of vaults for each tenant. Each vault is small, because the in-memory model
    /// copies its whole state for every write.
    pub(crate) async fn in_memory(rules: DisclosureRules) -> Self {
        let plans = tenant_plans();
        let new_storage = || HarnessStorage::Memory(Arc::new(MemoryStore::default()));
        let mut pairs = Vec::new();
        for plan in plans.chunks(1) {
            let left = InProcessVault::new(new_storage(), plan, rules).await;
            let right = InProcessVault::new(new_storage(), plan, rules).await;
            pairs.push(VaultPair { left, right });
        }
        Self { pairs, tenants: plans.len() }
    }

    pub(crate) async fn on_engine(left: Arc<dyn Store>, right: Arc<dyn Store>) -> Self {
        let (plans, rules) = (tenant_plans(), DisclosureRules::default());
        let left = InProcessVault::new(HarnessStorage::Engine(left), &plans, rules).await;
        let right = InProcessVault::new(HarnessStorage::Engine(right), &plans, rules).await;
        Self { pairs: vec![VaultPair { left, right }], tenants: plans.len() }
    }

    pub(crate) async fn run(&self, sequence: &Sequence) -> Option<ResponseDifference> {
        let pair = self.pairs.get(sequence.tenant).unwrap_or(&self.pairs[0]);
        pair.left.start_sequence().await;
        pair.right.start_sequence().await;
        let mut left = SequenceRun::new(&pair.left, VaultSide::Left, sequence);
        let mut right = SequenceRun::new(&pair.right, VaultSide::Right, sequence);
        let mut difference = None;
        for step in &sequence.steps {
            let (left, right) = (left.run_step(step).await, right.run_step(step).await);
            if step.actor.is_observed() && left != right {
                difference = Some(ResponseDifference { step: step.serial, left, right });
                break;
            }
        }
        left.clean_up().await;
        right.clean_up().await;
        difference
    }
}

/// The method and the path of a request.
type RequestRoute = (String, String);

/// A sequence on one vault.
struct SequenceRun<'a> {
    vault: &'a InProcessVault,
    side: VaultSide,
    seed: u64,
    tenant: &'a TenantKeysByActor,
    secrets: &'a Secrets,
    names: RandomValueNames,
    responses: HashMap<usize, Value>,
    session_key: Option<String>,
    /// The routes that used each idempotency key.
    routes: Mutex<HashMap<Vec<u8>, Vec<RequestRoute>>>,
}

impl<'a> SequenceRun<'a> {
    fn new(vault: &'a InProcessVault, side: VaultSide, sequence: &'a Sequence) -> Self {
        let Sequence { seed, tenant, ref secrets, .. } = *sequence;
        let tenant = vault.tenants.get(tenant).unwrap_or(&vault.tenants[0]);
        let (names, responses, session_key, routes) = Default::default();
        Self { vault, side, seed, tenant, secrets, names, responses, session_key, routes }
    }

    async fn run_step(&mut self, step: &Step) -> Observation {
        self.vault.clock.advance(Duration::from_secs(step.pause_seconds));
        if step.actor == Actor::Session && self.session_key.is_none() {
            self.create_session().await;
        }
        random::restart(self.seed ^ u64::try_from(step.serial).unwrap().wrapping_mul(0x9e37_79b9));
        let key = self.key(step.actor);
        let mut request = Request::builder()
            .method(step.method)
            .uri(self.fill_placeholders(&step.path))
            .header("bt-api-key", key)
            .header("bt-trace-id", format!("step-{}", step.serial));
        if let Some(key) = &step.idempotency_key {
            request = request.header("bt-idempotency-key", key);
        }
        if step.path.starts_with("/proxy") {
            request = request.header("bt-proxy-url", UNREACHABLE_URL);
        }
        let content_type = if step.method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let body =
            step.body.as_ref().map_or_else(Body::empty, |it| self.fill_placeholders(it).into());
        let request = request.header("content-type", content_type).body(body).unwrap();
        let (status, headers, body) = self.send(request).await;
        let header = |name: &str| headers.get(name).map(|it| it.to_str().unwrap().to_owned());
        let observation = self.names.observe(status, header, &body);
        self.responses.insert(step.serial, body);
        observation
    }

    async fn send(&self, request: Request) -> (u16, axum::http::HeaderMap, Value) {
        let route = (request.method().to_string(), request.uri().path().to_owned());
        let idempotency_key =
            request.headers().get("bt-idempotency-key").map(|it| it.as_bytes().to_vec());
        let response = self.vault.server.respond(Ipv4Addr::LOCALHOST.into(), request).await;
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body_text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        let to_text_pair = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let status = head.status.as_u16();
        let headers: HashMap<_, _> = head.headers.iter().map(to_text_pair).collect();
        let body = String::from_utf8_lossy(&bytes).into_owned();
        let build_exchange = |(method, path): RequestRoute| Exchange {
            method,
            path,
            status,
            headers: headers.clone(),
            body: body.clone(),
        };
        self.check_contract(idempotency_key.as_deref(), route, build_exchange);
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| body_text());
        (head.status.as_u16(), head.headers, body)
    }

    /// Every response must match the OpenAPI document. An idempotency key can replay the response
    /// of another route that used it before.
    fn check_contract(
        &self,
        idempotency_key: Option<&[u8]>,
        route: RequestRoute,
        build_exchange: impl Fn(RequestRoute) -> Exchange,
    ) {
        let contract = Contract::new(document(), &[]);
        let mut routes = self.routes.lock().unwrap();
        let routes = routes.entry(idempotency_key.unwrap_or_default().to_vec()).or_default();
        let earlier_routes = if idempotency_key.is_some() { routes.clone() } else { Vec::new() };
        let result = contract.check(&build_exchange(route.clone()));
        let matches_route = |it: RequestRoute| contract.check(&build_exchange(it)).is_ok();
        if result.is_err() && !earlier_routes.into_iter().any(matches_route) {
            assert_eq!(result, Ok(()));
        }
        routes.push(route);
    }

    /// Deletes the tokens of the sequence if the engine cannot restore an earlier state.
    async fn clean_up(&self) {
        if self.vault.restores_snapshot() {
            return;
        }
        let build_request = |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path);
            let request = request.header("bt-api-key", self.key(Actor::Backend));
            request.body(Body::empty()).unwrap()
        };
        let (_, _, page) = self.send(build_request("GET", "/v2/tokens?size=100")).await;
        // Concurrently, because the engine commits a group of deletions at the cost of one.
        let deletions = page["data"].as_array().into_iter().flatten().map(|token| {
            let path = format!("/tokens/{}", token["id"].as_str().unwrap_or_default());
            self.send(build_request("DELETE", &path))
        });
        for (status, _, body) in join_all(deletions).await {
            assert_eq!(status, 204, "{body}");
        }
    }

    /// Creates an access session with plain permissions. Later steps use only its key.
    async fn create_session(&mut self) {
        random::restart(self.seed);
        let request = Request::post("/sessions").header("bt-api-key", self.key(Actor::Public));
        let (_, _, session) = self.send(request.body(Body::empty()).unwrap()).await;
        let permissions = ["token:create", "token:update", "token:read", "token:search"];
        let grant = json!({"nonce": session["nonce"], "permissions": permissions});
        let request = Request::post("/sessions/authorize")
            .header("bt-api-key", self.key(Actor::Masked))
            .header("content-type", "application/json");
        let (status, _, _) = self.send(request.body(grant.to_string().into()).unwrap()).await;
        assert_eq!(status, 204, "the access session must be authorized");
        self.session_key = session["session_key"].as_str().map(str::to_owned);
    }

    fn key(&self, actor: Actor) -> String {
        let key = self.tenant.key(actor);
        key.or(self.session_key.as_deref()).unwrap_or_default().to_owned()
    }

    /// Replaces the placeholders of a text by the values of this vault.
    fn fill_placeholders(&self, template: &str) -> String {
        let mut parts = template.split("<<");
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (placeholder, suffix) = part.split_once(">>").unwrap();
            let (name, index) = placeholder.split_once(':').unwrap();
            filled.push_str(&self.placeholder_value(name, index.parse().unwrap()));
            filled.push_str(suffix);
        }
        filled
    }

    fn placeholder_value(&self, name: &str, index: usize) -> String {
        let secret = self.secrets.values_by_placeholder().into_iter().find(|it| it.0 == name);
        if let Some((_, pairs)) = secret {
            return pairs[index].value_in(self.side).to_owned();
        }
        let response = self.responses.get(&index).unwrap_or(&Value::Null);
        let value = if name == "next" { &response["pagination"]["next"] } else { &response[name] };
        value.as_str().map_or_else(
            || "00000000-0000-4000-8000-000000000000".to_owned(),
            check_needs_no_encoding,
        )
    }
}

/// Checks that an id needs no percent-encoding in a path.
fn check_needs_no_encoding(text: &str) -> String {
    let needs_no_encoding = |it: char| it.is_ascii_alphanumeric() || "-_.~:".contains(it);
    assert!(text.chars().all(needs_no_encoding), "an id that needs encoding: {text}");
    text.to_owned()
}
