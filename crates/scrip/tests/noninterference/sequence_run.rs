//! Runs a sequence on both vaults and compares every response to a caller without a reveal right.

use std::{
    collections::HashMap,
    fmt,
    net::Ipv4Addr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{body::Body, extract::Request, http::HeaderMap};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::future::join_all;
use http_body_util::BodyExt;
use scrip_core::{
    store::Store,
    types::{DisclosureRules, id::WebhookId},
};
use scrip_testing::{
    MemoryStore,
    contract::{Contract, Exchange, document},
    requests::client_encryption::encrypt_json,
};
use serde_json::{Value, json};

use crate::{
    destination::Destination,
    in_process_vault::{
        HarnessStorage, InProcessVault, TenantKeysByActor, TenantPlan, tenant_plans,
    },
    observation::{Observation, RandomValueNames, ReceivedDigits},
    random,
    secrets::{Secrets, VaultSide},
    step::{Actor, Sequence, Step},
};

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
    /// The tenants.
    pub(crate) plans: Vec<TenantPlan>,
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
        let destination = Destination::start().await;
        let (left, right) = ((VaultSide::Left, &destination), (VaultSide::Right, &destination));
        let mut pairs = Vec::new();
        for plan in plans.chunks(1) {
            let left = InProcessVault::new(new_storage(), plan, rules, left.0, left.1).await;
            let right = InProcessVault::new(new_storage(), plan, rules, right.0, right.1).await;
            pairs.push(VaultPair { left, right });
        }
        Self { pairs, plans }
    }

    pub(crate) async fn on_engine(left: Arc<dyn Store>, right: Arc<dyn Store>) -> Self {
        let (plans, rules) = (tenant_plans(), DisclosureRules::default());
        let destination = Destination::start().await;
        let [left, right] = [(left, VaultSide::Left), (right, VaultSide::Right)]
            .map(|(store, side)| (HarnessStorage::Engine(store), (side, &destination)));
        let left = InProcessVault::new(left.0, &plans, rules, left.1.0, left.1.1).await;
        let right = InProcessVault::new(right.0, &plans, rules, right.1.0, right.1.1).await;
        Self { pairs: vec![VaultPair { left, right }], plans }
    }

    pub(crate) async fn run(&self, sequence: &Sequence) -> Option<ResponseDifference> {
        self.run_observed(sequence, &mut |_, _| ()).await
    }

    /// Whether every sequence starts from the same state.
    pub(crate) fn restore_snapshots(&self) -> bool {
        self.pairs.iter().all(|it| it.left.restores_snapshot() && it.right.restores_snapshot())
    }

    /// Runs a sequence. `observe_step` gets every step and the status of its response.
    pub(crate) async fn run_observed(
        &self,
        sequence: &Sequence,
        observe_step: &mut impl FnMut(&Step, u16),
    ) -> Option<ResponseDifference> {
        let pair = self.pairs.get(sequence.tenant).unwrap_or(&self.pairs[0]);
        pair.left.start_sequence().await;
        pair.right.start_sequence().await;
        let mut left = SequenceRun::new(&pair.left, VaultSide::Left, sequence);
        let mut right = SequenceRun::new(&pair.right, VaultSide::Right, sequence);
        let mut difference = None;
        for step in &sequence.steps {
            let (left, right) = (left.run_step(step).await, right.run_step(step).await);
            observe_step(step, left.status);
            if step.actor.is_observed() && left != right {
                difference = Some(ResponseDifference { step: step.serial, left, right });
                break;
            }
        }
        let is_webhook = |it: &&Step| it.method == "POST" && it.path == "/webhooks";
        for step in sequence.steps.iter().filter(is_webhook) {
            let (left, right) = (left.read_events(step).await, right.read_events(step).await);
            if difference.is_none() && left != right {
                difference = Some(ResponseDifference { step: step.serial, left, right });
            }
        }
        left.clean_up(sequence).await;
        right.clean_up(sequence).await;
        difference
    }
}

/// The lists of policy that sequences add to.
const POLICY_PATHS: [&str; 4] = ["/proxies", "/webhooks", "/keys", "/applications"];

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
    /// Data that a browser encrypted, by the step that created the key.
    encrypted: HashMap<usize, String>,
    /// The routes that used each idempotency key.
    routes: Mutex<HashMap<Vec<u8>, Vec<RequestRoute>>>,
}

impl<'a> SequenceRun<'a> {
    fn new(vault: &'a InProcessVault, side: VaultSide, sequence: &'a Sequence) -> Self {
        let Sequence { seed, tenant, ref secrets, .. } = *sequence;
        let tenant = vault.tenants.get(tenant).unwrap_or(&vault.tenants[0]);
        let (names, responses, session_key, encrypted, routes) = Default::default();
        Self {
            vault,
            side,
            seed,
            tenant,
            secrets,
            names,
            responses,
            session_key,
            encrypted,
            routes,
        }
    }

    async fn run_step(&mut self, step: &Step) -> Observation {
        self.vault.clock.advance(Duration::from_secs(step.pause_seconds));
        if step.actor == Actor::Session && self.session_key.is_none() {
            self.create_session().await;
        }
        random::restart(self.seed ^ u64::try_from(step.serial).unwrap().wrapping_mul(0x9e37_79b9));
        let mut request = Request::builder()
            .method(step.method)
            .uri(self.fill_placeholders(&step.path))
            .header("bt-trace-id", format!("step-{}", step.serial))
            .header("content-type", step.content_type);
        if step.actor != Actor::Keyless {
            request = request.header("bt-api-key", self.key(step.actor));
        }
        if let Some(key) = &step.idempotency_key {
            request = request.header("bt-idempotency-key", key);
        }
        for (name, value) in &step.headers {
            request = request.header(*name, self.fill_placeholders(value));
        }
        let body = step
            .body
            .as_ref()
            .map(|it| self.fill_placeholders(it))
            .map_or_else(Body::empty, Body::from);
        let (status, headers, body) = self.send(request.body(body).unwrap()).await;
        let received = self.vault.destination.take_received();
        let digits = match step.uses_hidden_tokens {
            true => ReceivedDigits::Hidden,
            false => ReceivedDigits::Compared,
        };
        let is_administrator = step.actor == Actor::Administrator;
        let visible_body =
            if is_administrator { self.hide_configuration(&body) } else { body.clone() };
        let observation = self.names.observe(status, &headers, &visible_body, &received, digits);
        self.responses.insert(step.serial, body);
        observation
    }

    /// The events of a webhook that the sequence created.
    async fn read_events(&mut self, step: &Step) -> Observation {
        let id = self.responses.get(&step.serial).and_then(|it| it["id"].as_str());
        let events = match id.and_then(WebhookId::parse) {
            Some(id) => self.vault.take_events(self.tenant.id, id).await,
            None => Vec::new(),
        };
        self.names.observe(0, &HeaderMap::new(), &Value::Null, &events, ReceivedDigits::Compared)
    }

    /// An administrator may read the configuration of a proxy.
    fn hide_configuration(&self, body: &Value) -> Value {
        let secret = self.secrets.configurations[0].value_in(self.side);
        serde_json::from_str(&body.to_string().replace(secret, "configuration")).unwrap()
    }

    async fn send(&self, request: Request) -> (u16, HeaderMap, Value) {
        let has_host = request.headers().contains_key("host");
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
        // The document does not describe the host of a proxy.
        if !has_host {
            self.check_contract(idempotency_key.as_deref(), route, build_exchange);
        }
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

    /// Deletes what the sequence created if the engine cannot restore an earlier state.
    async fn clean_up(&self, sequence: &Sequence) {
        if self.vault.restores_snapshot() {
            return;
        }
        let build_request = |actor, method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path);
            request.header("bt-api-key", self.key(actor)).body(Body::empty()).unwrap()
        };
        let list = build_request(Actor::Backend, "GET", "/v2/tokens?size=100");
        let (_, _, page) = self.send(list).await;
        // Concurrently, because the engine commits a group of deletions at the cost of one.
        let deletions = page["data"].as_array().into_iter().flatten().map(|token| {
            let path = format!("/tokens/{}", token["id"].as_str().unwrap_or_default());
            self.send(build_request(Actor::Backend, "DELETE", &path))
        });
        for (status, _, body) in join_all(deletions).await {
            assert_eq!(status, 204, "{body}");
        }
        for step in &sequence.steps {
            let is_policy = POLICY_PATHS.contains(&&*step.path) && step.method == "POST";
            let response = self.responses.get(&step.serial).filter(|_| is_policy);
            let id = response.and_then(|it| it.get("id").or_else(|| it.get("key_id"))?.as_str());
            if let Some(id) = id {
                let path = format!("{}/{id}", step.path);
                self.send(build_request(Actor::Administrator, "DELETE", &path)).await;
            }
        }
    }

    /// Creates an access session with plain permissions. Later steps use only its key.
    async fn create_session(&mut self) {
        // No step has these random values.
        random::restart(!self.seed);
        let request = Request::post("/sessions").header("bt-api-key", self.key(Actor::Public));
        let (status, _, session) = self.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(status, 201, "the access session must be created: {session}");
        let permissions =
            ["token:create", "token:update", "token:read", "token:search", "proxy:invoke"];
        let grant = json!({"nonce": session["nonce"], "permissions": permissions});
        let request = Request::post("/sessions/authorize")
            .header("bt-api-key", self.key(Actor::Masked))
            .header("content-type", "application/json");
        let (status, _, body) = self.send(request.body(grant.to_string().into()).unwrap()).await;
        assert_eq!(status, 204, "the access session must be authorized: {body}");
        self.session_key = session["session_key"].as_str().map(str::to_owned);
    }

    fn key(&self, actor: Actor) -> String {
        let key = self.tenant.key(actor);
        key.or(self.session_key.as_deref()).unwrap_or_default().to_owned()
    }

    /// Replaces the placeholders of a text by the values of this vault.
    fn fill_placeholders(&mut self, template: &str) -> String {
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

    /// The hidden card, as a browser encrypted it for the key of an earlier step. Every use in the
    /// sequence is the same text.
    fn encrypted_card(&mut self, step: usize) -> String {
        if let Some(encrypted) = self.encrypted.get(&step) {
            return encrypted.clone();
        }
        let key = self.responses.get(&step).filter(|it| it["public_key_pem"].is_string());
        let Some(key) = key else { return "unknown-key".to_owned() };
        let number = self.secrets.cards[0].value_in(self.side);
        let cvc = self.secrets.codes[0].value_in(self.side);
        let card = json!({
            "number": number, "expiration_month": 1, "expiration_year": 2038, "cvc": cvc,
        });
        let encrypted = encrypt_json(key, &card);
        self.encrypted.insert(step, encrypted.clone());
        encrypted
    }

    fn placeholder_value(&mut self, name: &str, index: usize) -> String {
        let secret = self.secrets.values_by_placeholder().into_iter().find(|it| it.0 == name);
        if let Some((_, pairs)) = secret {
            return pairs[index].value_in(self.side).to_owned();
        }
        match name {
            "destination" => return format!("http://{}", self.vault.destination.address),
            "application" => return self.tenant.applications[index].to_string(),
            "host" => return self.tenant.host.clone(),
            "public_key" => return self.tenant.key(Actor::Public).unwrap_or_default().to_owned(),
            "encrypted" => return self.encrypted_card(index),
            "encrypted_header" => {
                let content = json!({"type": "card", "encrypted": self.encrypted_card(index)});
                return STANDARD.encode(content.to_string());
            }
            _ => {}
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
