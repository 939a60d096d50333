//! A server under test, a destination that it may reach, and a client for proxied requests.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, LazyLock, Mutex},
};

use scrip_api::app::proxy_egress::{CallLimits, DestinationRoots, ProxyEgress};
use scrip_core::{
    policy::TenantSettings,
    types::{Permission, TenantKind, Transform},
};
use scrip_egress::{AllowList, EgressSettings, LookupFuture, Resolve, TrustedRoots};
use scrip_testing::{
    destination::{DESTINATION_DOMAIN, DestinationHost, DestinationServer},
    requests::{
        http_client::{BlockingClient, ClientRequest, ClientResponse},
        with_members,
    },
};
use serde_json::{Value, json};

use crate::harness::{
    entities::CreatedApplication,
    server::{ServerSetup, TenantApiKeys, TestServer, card_body, text_field, unique_card_number},
};

/// One server for all tests that do not change state that other tests depend on.
pub(crate) static PROXY: LazyLock<ProxyHarness> = LazyLock::new(ProxyHarness::start);

/// The header that is present exactly if the destination answered.
pub(crate) const DESTINATION_STATUS: &str = "bt-proxy-destination-status";

pub(crate) struct ProxyHarness {
    pub(crate) server: TestServer,
    pub(crate) destinations: DestinationServer,
    pub(crate) resolver: Arc<ScriptedResolver>,
    pub(crate) keys: TenantApiKeys,
    client: BlockingClient,
}

/// Resolves the names of the destination server to the loopback address, and other names as a test
/// decides.
#[derive(Debug, Default)]
pub(crate) struct ScriptedResolver {
    addresses: Mutex<HashMap<String, Vec<IpAddr>>>,
}

impl ScriptedResolver {
    pub(crate) fn set(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
        self.addresses.lock().unwrap().insert(name.to_owned(), addresses);
    }
}

impl Resolve for ScriptedResolver {
    fn lookup<'a>(&'a self, name: &'a str) -> LookupFuture<'a> {
        let addresses = self.addresses.lock().unwrap().get(name).cloned();
        let is_destination = name.ends_with(DESTINATION_DOMAIN);
        Box::pin(async move {
            match addresses {
                Some(addresses) => Ok(addresses),
                None if is_destination => Ok(vec![Ipv4Addr::LOCALHOST.into()]),
                None => Err(std::io::ErrorKind::NotFound.into()),
            }
        })
    }
}

impl ProxyHarness {
    pub(crate) fn start() -> Self {
        Self::start_with(|_, _| ())
    }

    /// Starts a server. The operator allows the loopback network and the port of the destination.
    pub(crate) fn start_with(
        configure: impl FnOnce(&mut ServerSetup, &mut EgressSettings),
    ) -> Self {
        Self::start_with_kind(TenantKind::Test, configure)
    }

    pub(crate) fn start_with_kind(
        kind: TenantKind,
        configure: impl FnOnce(&mut ServerSetup, &mut EgressSettings),
    ) -> Self {
        let destinations = DestinationServer::start();
        let resolver = Arc::new(ScriptedResolver::default());
        let mut egress = egress_settings(&destinations, &resolver);
        let server = TestServer::start_with(|setup| {
            configure(setup, &mut egress);
            let limits = CallLimits::default();
            setup.egress.proxied_calls = ProxyEgress::new(egress, DestinationRoots::Given, limits);
        });
        let keys = server.create_tenant_of_kind(kind, TenantSettings::default());
        Self { server, destinations, resolver, keys, client: BlockingClient::default() }
    }

    /// Starts another node on the same store.
    pub(crate) fn start_second_node(&self, configure: impl FnOnce(&mut ServerSetup)) -> TestServer {
        let egress = egress_settings(&self.destinations, &self.resolver);
        self.server.start_second_node(|setup| {
            configure(setup);
            let limits = CallLimits::default();
            setup.egress.proxied_calls = ProxyEgress::new(egress, DestinationRoots::Given, limits);
        })
    }

    /// A proxied request without an API key. `path` follows `/proxy`.
    pub(crate) fn request(&self, method: &str, path: &str) -> ProxyRequest {
        self.request_at(method, &format!("/proxy{path}"))
    }

    /// A request to any path of the server.
    pub(crate) fn request_at(&self, method: &str, path: &str) -> ProxyRequest {
        self.request_to(&self.server, method, path)
    }

    /// A request to any path of a node.
    pub(crate) fn request_to(&self, node: &TestServer, method: &str, path: &str) -> ProxyRequest {
        let url = format!("http://{}{path}", node.address);
        ProxyRequest { request: self.client.request(method, url) }
    }

    /// A POST request with the private key, through the ephemeral proxy.
    pub(crate) fn post(&self, url: &str) -> ProxyRequest {
        self.post_url_as(&self.keys.private, url)
    }

    /// A POST request with the private key, through a pre-configured proxy.
    pub(crate) fn post_to(&self, proxy: &CreatedProxy) -> ProxyRequest {
        self.post_as(&self.keys.private, proxy)
    }

    /// A POST request with this API key, through the ephemeral proxy.
    pub(crate) fn post_url_as(&self, api_key: &str, url: &str) -> ProxyRequest {
        self.request("POST", "").api_key(api_key).url(url)
    }

    /// A POST request with this API key, through a pre-configured proxy.
    pub(crate) fn post_as(&self, api_key: &str, proxy: &CreatedProxy) -> ProxyRequest {
        self.post_keyless(proxy).api_key(api_key)
    }

    /// A POST request without an API key, through a pre-configured proxy.
    pub(crate) fn post_keyless(&self, proxy: &CreatedProxy) -> ProxyRequest {
        self.request("POST", "").proxy_key(&proxy.key)
    }

    /// Creates a private application of the tenant with these permissions or rules.
    pub(crate) fn create_application(&self, rights: &Value) -> CreatedApplication {
        self.server.create_application(&self.keys.management, "private", rights)
    }

    /// Creates an access session of the tenant with these permissions or rules.
    pub(crate) fn create_access_session(&self, rights: &Value) -> String {
        self.server.create_access_session(&self.keys.public, &self.keys.private, rights)
    }

    /// Creates an access session that may use one card.
    pub(crate) fn create_card_session(&self, public: &str, card: &TestCard) -> String {
        let rules = json!([{"description": "one card", "priority": 1, "transform": "mask",
            "conditions": [{"attribute": "id", "operator": "equals", "value": card.id}],
            "permissions": ["token:use"]}]);
        self.server.create_access_session(public, &self.keys.private, &json!({"rules": rules}))
    }

    /// Creates a private key of the tenant with a single rule.
    pub(crate) fn key_with_rule(
        &self,
        container: &str,
        transform: Transform,
        permissions: &[Permission],
    ) -> String {
        self.server.key_with_rule(&self.keys.tenant, container, transform, permissions)
    }

    /// Creates a card token with a new number.
    pub(crate) fn create_card(&self) -> TestCard {
        self.create_card_of(&self.keys, json!({}))
    }

    /// Creates a card token with other attributes.
    pub(crate) fn create_card_of(&self, keys: &TenantApiKeys, attributes: Value) -> TestCard {
        let number = unique_card_number();
        let body = with_members(card_body(&number), &attributes);
        let id = self.server.create_token_id(&keys.private, &body);
        TestCard { id, number }
    }

    /// Creates a token with this data.
    pub(crate) fn create_token(&self, data: Value) -> String {
        let body = json!({"type": "token", "data": data});
        self.server.create_token_id(&self.keys.private, &body)
    }

    /// Creates a proxy with the management key of the tenant.
    #[track_caller]
    pub(crate) fn create_proxy(&self, url: &str, attributes: Value) -> CreatedProxy {
        self.create_proxy_of(&self.keys, url, attributes)
    }

    #[track_caller]
    pub(crate) fn create_proxy_of(
        &self,
        keys: &TenantApiKeys,
        url: &str,
        attributes: Value,
    ) -> CreatedProxy {
        let body = proxy_body(url, attributes);
        let created = self.server.post(&keys.management, "/proxies", &body).expect_status(201);
        CreatedProxy { id: text_field(&created, "id"), key: text_field(&created, "key") }
    }

    /// Creates a pre-configured proxy to a host of the destination server.
    #[track_caller]
    pub(crate) fn create_proxy_to(
        &self,
        host: &DestinationHost,
        attributes: Value,
    ) -> CreatedProxy {
        self.create_proxy(&host.url(""), attributes)
    }
}

/// The operator allows the loopback network and the port of the destination.
fn egress_settings(
    destinations: &DestinationServer,
    resolver: &Arc<ScriptedResolver>,
) -> EgressSettings {
    let roots = TrustedRoots::from_pem(&destinations.authority.root_pem()).unwrap();
    let mut egress = EgressSettings::new(roots);
    egress.allow_list = AllowList::parse(["*", "127.0.0.0/8"]).unwrap();
    egress.allowed_ports = vec![443, destinations.address.port()];
    egress.resolver = Arc::<ScriptedResolver>::clone(resolver);
    egress
}

/// The body of a request that creates or replaces a proxy.
pub(crate) fn proxy_body(url: &str, attributes: Value) -> Value {
    with_members(json!({"name": "a provider", "destination_url": url}), &attributes)
}

pub(crate) struct TestCard {
    pub(crate) id: String,
    pub(crate) number: String,
}

impl TestCard {
    /// The expression for the number.
    pub(crate) fn number_expression(&self) -> String {
        format!("{{{{ {} | json: '$.number' }}}}", self.id)
    }

    /// The expression for the CVC.
    pub(crate) fn cvc_expression(&self) -> String {
        format!("{{{{ {} | json: '$.cvc' }}}}", self.id)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct CreatedProxy {
    pub(crate) id: String,
    pub(crate) key: String,
}

/// A proxied request before it is sent.
#[must_use]
pub(crate) struct ProxyRequest {
    request: ClientRequest,
}

impl ProxyRequest {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    pub(crate) fn api_key(self, key: &str) -> Self {
        self.header("BT-API-KEY", key)
    }

    pub(crate) fn url(self, url: &str) -> Self {
        self.header("BT-PROXY-URL", url)
    }

    pub(crate) fn proxy_key(self, key: &str) -> Self {
        self.header("BT-PROXY-KEY", key)
    }

    pub(crate) fn idempotency_key(self, key: &str) -> Self {
        self.header("BT-IDEMPOTENCY-KEY", key)
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    pub(crate) fn body(self, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        self.header("Content-Type", content_type).bytes(body)
    }

    /// Sets the body without a content type.
    pub(crate) fn bytes(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.request = self.request.body(body.into());
        self
    }

    #[track_caller]
    pub(crate) fn send(self) -> ProxyResponse {
        ProxyResponse { response: self.request.send() }
    }
}

/// How far a failed request got, as its error says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatedDelivery {
    NotSent,
    MaybeSent,
    Answered,
}

impl StatedDelivery {
    fn as_str(self) -> &'static str {
        match self {
            Self::NotSent => "not_sent",
            Self::MaybeSent => "maybe_sent",
            Self::Answered => "answered",
        }
    }
}

#[derive(Debug)]
pub(crate) struct ProxyResponse {
    pub(crate) response: ClientResponse,
}

impl ProxyResponse {
    pub(crate) fn status(&self) -> u16 {
        self.response.status
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.response.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.header(name)
    }

    pub(crate) fn destination_status(&self) -> Option<u16> {
        self.header(DESTINATION_STATUS).map(|it| it.parse().unwrap())
    }

    /// Expects the answer of the destination with this status.
    #[track_caller]
    pub(crate) fn expect_answer(self, status: u16) -> Self {
        assert_eq!(self.status(), status, "{}", self.text());
        assert_eq!(self.destination_status(), Some(status), "{}", self.text());
        assert!(self.header("bt-trace-id").is_some());
        self
    }

    /// Expects an error of the vault for a request that was not sent. Returns the error.
    #[track_caller]
    pub(crate) fn expect_not_sent(&self, status: u16) -> Value {
        self.expect_error(status, StatedDelivery::NotSent)
    }

    /// Expects an error of the vault. The header of the destination's status must be present exactly
    /// if the destination answered. Returns the error.
    #[track_caller]
    pub(crate) fn expect_error(&self, status: u16, delivery: StatedDelivery) -> Value {
        assert_eq!(self.status(), status, "{}", self.text());
        let content_type = self.header("content-type").unwrap_or_default();
        assert!(content_type.starts_with("application/json"), "{content_type}");
        let body = self.response.json();
        let error = &body["proxy_error"];
        assert_eq!(error["status"], status, "{body}");
        assert!(error["title"].as_str().is_some_and(|it| !it.is_empty()), "{body}");
        assert!(error["detail"].is_string(), "{body}");
        assert_eq!(error["errors"]["proxy"], json!([delivery.as_str()]), "{body}");
        // Another call with the same idempotency key was answered, and not this one.
        let is_of_other_call =
            status == 409 && !error["detail"].as_str().unwrap().contains("not stored");
        let is_answered = delivery == StatedDelivery::Answered && !is_of_other_call;
        assert_eq!(self.destination_status().is_some(), is_answered, "{body}");
        assert!(self.header("bt-trace-id").is_some());
        error.clone()
    }
}
