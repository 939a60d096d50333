//! A server on a loopback port with its own database, and a client for it.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    ops::{Deref, DerefMut},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use scrip_api::{
    app::{App, body_memory::BodyMemory},
    limiter::Limiter,
};
use scrip_core::{
    Vault,
    operations::tenants::create_tenant::{create_tenant, initialize_vault_keys},
    policy::{
        AccessPolicy, AccessRule, Directory, DisplayName, PolicyPermit, Tenant, TenantSettings,
    },
    store::open_directory,
    types::{ApplicationKind, Permission, Permissions, TenantKind, Transform},
};
use scrip_seal::RootKey;
use scrip_server::{
    clock::{SystemClock, ticks},
    listen::serve_plain,
    node::{Node, NodeSettings},
};
use scrip_testing::{
    clock::OffsetClock,
    policy::{access_without_rules, permissions_for_kind},
    requests::http_client::{BlockingClient, ClientRequest},
    vault::{create_key, new_vault, root_key},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, runtime::Runtime};

use crate::{
    harness::engine::TestEngine, openapi::contract,
    threeds_sessions::scripted_servers::ScriptedDirectoryServers,
};

pub(crate) use scrip_testing::policy::access_rule as grant;

pub(crate) struct TestServer {
    pub(crate) runtime: Runtime,
    pub(crate) app: Arc<App>,
    pub(crate) node: Arc<Node>,
    pub(crate) root: Arc<RootKey>,
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<OffsetClock>,
    pub(crate) directory_servers: Arc<ScriptedDirectoryServers>,
    pub(crate) engine: Arc<TestEngine>,
    client: BlockingClient,
}

/// The parts of a server that a test may change before it starts: the application state and the
/// other parts of the node.
pub(crate) struct ServerSetup {
    app: App,
    pub(crate) node: NodeSettings,
}

impl ServerSetup {
    fn new(vault: Vault, directory: Directory, root: &Arc<RootKey>) -> Self {
        let app = App::new(vault, directory, Arc::<RootKey>::clone(root), ticks);
        Self { app, node: NodeSettings::default() }
    }

    fn node(self) -> Arc<Node> {
        Arc::new(Node::new(Arc::new(self.app), self.node))
    }
}

impl Deref for ServerSetup {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl DerefMut for ServerSetup {
    fn deref_mut(&mut self) -> &mut App {
        &mut self.app
    }
}

/// One server for all tests that do not change state that other tests depend on.
pub(crate) static SERVER: LazyLock<TestServer> = LazyLock::new(TestServer::start);
pub(crate) static ACME: LazyLock<TenantApiKeys> = LazyLock::new(|| SERVER.create_default_tenant());

/// A tenant and the keys of its applications. The `private` key reveals everything, `public` is the
/// key for browsers.
pub(crate) struct TenantApiKeys {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) private: String,
    pub(crate) public: String,
    pub(crate) management: String,
}

impl TestServer {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| ())
    }

    /// Starts a server with a tenant of its own.
    pub(crate) fn start_with_tenant() -> (Self, TenantApiKeys) {
        let server = Self::start();
        let keys = server.create_default_tenant();
        (server, keys)
    }

    pub(crate) fn start_with(configure: impl FnOnce(&mut ServerSetup)) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let engine = Arc::new(runtime.block_on(TestEngine::new()));
        let clock = Arc::new(OffsetClock::new(SystemClock));
        let root = Arc::new(root_key());
        let directory_servers = Arc::new(ScriptedDirectoryServers::default());
        let store = runtime.block_on(engine.open());
        let vault = Vault {
            directory_servers: Arc::<ScriptedDirectoryServers>::clone(&directory_servers),
            ..new_vault(store, Arc::<OffsetClock>::clone(&clock))
        };
        let (node, listener) = runtime.block_on(async {
            initialize_vault_keys(&vault, &*root).await.unwrap();
            let directory = open_directory(&*vault.store, &*root, None).await.unwrap();
            let mut setup = ServerSetup::new(vault, directory, &root);
            // Tests send more requests than the rate limits allow. Tests of the rate limits set a
            // limiter.
            setup.limiter = Limiter::disabled();
            // All test clients have one address.
            setup.memory.bodies = BodyMemory::new(1 << 30, 1);
            configure(&mut setup);
            (setup.node(), TcpListener::bind("127.0.0.1:0").await.unwrap())
        });
        let (app, address) = (Arc::clone(&node.app), listener.local_addr().unwrap());
        runtime.spawn(serve_plain(Arc::clone(&node), listener, std::future::pending()));
        let client = BlockingClient::default();
        Self { runtime, app, node, root, address, clock, directory_servers, engine, client }
    }

    /// Starts another node on the same store.
    pub(crate) fn start_second_node(&self, configure: impl FnOnce(&mut ServerSetup)) -> Self {
        let runtime = Runtime::new().unwrap();
        let (vault, root) = (self.app.vault.clone(), Arc::clone(&self.root));
        let (node, listener) = runtime.block_on(async {
            let directory = open_directory(&*vault.store, &*root, None).await.unwrap();
            let mut setup = ServerSetup::new(vault, directory, &root);
            setup.limiter = Limiter::disabled();
            configure(&mut setup);
            (setup.node(), TcpListener::bind("127.0.0.1:0").await.unwrap())
        });
        let (app, address) = (Arc::clone(&node.app), listener.local_addr().unwrap());
        runtime.spawn(serve_plain(Arc::clone(&node), listener, std::future::pending()));
        let (clock, directory_servers) =
            (Arc::clone(&self.clock), Arc::clone(&self.directory_servers));
        let (engine, client) = (Arc::clone(&self.engine), self.client.clone());
        Self { runtime, app, node, root, address, clock, directory_servers, engine, client }
    }

    pub(crate) fn create_default_tenant(&self) -> TenantApiKeys {
        self.create_test_tenant(TenantSettings::default())
    }

    pub(crate) fn create_test_tenant(&self, settings: TenantSettings) -> TenantApiKeys {
        self.create_tenant_of_kind(TenantKind::Test, settings)
    }

    pub(crate) fn create_tenant_of_kind(
        &self,
        kind: TenantKind,
        settings: TenantSettings,
    ) -> TenantApiKeys {
        let tenant = self.create_tenant_without_applications(kind, settings);
        let private_permissions = permissions_for_kind(ApplicationKind::Private);
        let private = self.key_with_rule(&tenant, "/", Transform::Reveal, &private_permissions);
        let public_permissions = permissions_for_kind(ApplicationKind::Public);
        let public =
            self.key_with_permissions(&tenant, ApplicationKind::Public, &public_permissions);
        let management_permissions = permissions_for_kind(ApplicationKind::Management);
        let management = self.key_with_permissions(
            &tenant,
            ApplicationKind::Management,
            &management_permissions,
        );
        TenantApiKeys { tenant, private, public, management }
    }

    fn create_tenant_without_applications(
        &self,
        kind: TenantKind,
        settings: TenantSettings,
    ) -> Arc<Tenant> {
        let (vault, name) = (&self.app.vault, DisplayName::parse("test").unwrap());
        self.runtime.block_on(async {
            let creation = create_tenant(vault, &*self.root, name, kind, settings);
            let id = creation.await.unwrap();
            self.app.reload().await.unwrap();
            Arc::clone(self.app.directory.load().as_ref().unwrap().tenant(id).unwrap())
        })
    }

    /// Counts the rows of a table that belong to this tenant.
    pub(crate) fn count_rows(&self, tenant: &Tenant, table: &str) -> i64 {
        self.count_rows_where(tenant, table, "TRUE")
    }

    pub(crate) fn count_rows_where(&self, tenant: &Tenant, table: &str, condition: &str) -> i64 {
        let tenant = self.engine.sql_id(tenant.id.0);
        let sql = format!("SELECT count(*) FROM {table} WHERE tenant = {tenant} AND {condition}");
        self.engine.query_count(&sql)
    }

    pub(crate) fn key_with_rules(&self, tenant: &Arc<Tenant>, rules: Vec<AccessRule>) -> String {
        let access = AccessPolicy { permissions: Permissions::default(), rules };
        self.key_with_access(tenant, ApplicationKind::Private, access)
    }

    /// Creates a private key with a single rule.
    pub(crate) fn key_with_rule(
        &self,
        tenant: &Arc<Tenant>,
        container: &str,
        transform: Transform,
        permissions: &[Permission],
    ) -> String {
        self.key_with_rules(tenant, vec![grant(container, transform, permissions)])
    }

    pub(crate) fn key_with_permissions(
        &self,
        tenant: &Arc<Tenant>,
        kind: ApplicationKind,
        permissions: &[Permission],
    ) -> String {
        self.key_with_access(tenant, kind, access_without_rules(permissions))
    }

    pub(crate) fn key_with_access(
        &self,
        tenant: &Arc<Tenant>,
        kind: ApplicationKind,
        access: AccessPolicy,
    ) -> String {
        let (vault, pepper) = (&self.app.vault, self.app.pepper().unwrap());
        let permit = PolicyPermit::for_operator(Arc::clone(tenant));
        self.runtime.block_on(async {
            let created = create_key(vault, &pepper, permit, kind, access).await;
            self.app.reload().await.unwrap();
            created.key
        })
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> TestRequest {
        let request = self.client.request(method, format!("http://{}{path}", self.address));
        let path = path.split('?').next().unwrap_or_default();
        TestRequest { method: method.to_owned(), path: path.to_owned(), request }
    }

    pub(crate) fn create_token(&self, key: &str, body: &Value) -> TestResponse {
        self.request("POST", "/tokens").key(key).json(body).send()
    }

    /// Creates a token, which must succeed, and returns the response.
    pub(crate) fn create_token_ok(&self, key: &str, body: &Value) -> Value {
        let response = self.create_token(key, body);
        assert_eq!(response.status, 201, "{}", response.text);
        response.json()
    }

    /// Creates a token, which must succeed, and returns its id.
    pub(crate) fn create_token_id(&self, key: &str, body: &Value) -> String {
        text_field(&self.create_token_ok(key, body), "id")
    }

    pub(crate) fn get_token(&self, key: &str, id: &str) -> TestResponse {
        self.request("GET", &format!("/tokens/{id}")).key(key).send()
    }

    pub(crate) fn patch_token(&self, key: &str, id: &str, body: &Value) -> TestResponse {
        self.request("PATCH", &format!("/tokens/{id}")).key(key).merge_patch(body).send()
    }

    pub(crate) fn get_path(&self, key: &str, path: &str) -> TestResponse {
        self.request("GET", path).key(key).send()
    }

    pub(crate) fn post(&self, key: &str, path: &str, body: &Value) -> TestResponse {
        self.request("POST", path).key(key).json(body).send()
    }

    /// Posts without a body.
    #[track_caller]
    pub(crate) fn post_empty(&self, key: &str, path: &str) -> TestResponse {
        self.request("POST", path).key(key).send()
    }

    /// Posts with an idempotency key.
    #[track_caller]
    pub(crate) fn post_once(
        &self,
        key: &str,
        path: &str,
        idempotency_key: &str,
        body: &Value,
    ) -> TestResponse {
        self.request("POST", path).key(key).idempotency_key(idempotency_key).json(body).send()
    }

    pub(crate) fn patch(&self, key: &str, path: &str, body: &Value) -> TestResponse {
        self.request("PATCH", path).key(key).merge_patch(body).send()
    }

    pub(crate) fn put(&self, key: &str, path: &str, body: &Value) -> TestResponse {
        self.request("PUT", path).key(key).json(body).send()
    }

    pub(crate) fn delete(&self, key: &str, path: &str) -> TestResponse {
        self.request("DELETE", path).key(key).send()
    }

    /// Sends raw bytes. Returns the response until the server closes the connection sends
    /// nothing more for a second.
    pub(crate) fn send_raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        // The first byte may take long on a busy machine.
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut response = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut chunk) {
            response.extend_from_slice(&chunk[..count]);
            stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        }
        String::from_utf8(response).unwrap()
    }
}

pub(crate) struct TestRequest {
    method: String,
    /// The path without a query.
    path: String,
    request: ClientRequest,
}

impl TestRequest {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("BT-API-KEY", key)
    }

    pub(crate) fn idempotency_key(self, idempotency_key: &str) -> Self {
        self.header("BT-IDEMPOTENCY-KEY", idempotency_key)
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.body("application/json", &body.to_string())
    }

    pub(crate) fn merge_patch(self, body: &Value) -> Self {
        self.body("application/merge-patch+json", &body.to_string())
    }

    pub(crate) fn body(self, content_type: &str, body: &str) -> Self {
        let mut request = self.header("Content-Type", content_type);
        request.request = request.request.body(body.to_owned());
        request
    }

    /// Sends the request. The response must match the OpenAPI document.
    #[track_caller]
    pub(crate) fn send(self) -> TestResponse {
        send_request(self.request, &self.method, &self.path)
    }

    /// Sends the request and checks the response against another route: an idempotency key replays
    /// the response of the route where it was first used.
    #[track_caller]
    pub(crate) fn send_for(self, method: &str, path: &str) -> TestResponse {
        send_request(self.request, method, path)
    }
}

#[track_caller]
fn send_request(request: ClientRequest, method: &str, path: &str) -> TestResponse {
    let response = request.send();
    let headers = response.headers.iter();
    let headers = headers.map(|(name, it)| (name.to_string(), it.to_str().unwrap().to_owned()));
    let response =
        TestResponse { status: response.status, headers: headers.collect(), text: response.text() };
    contract::check_response(method, path, &response);
    response
}

#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) text: String,
}

impl TestResponse {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect(&self.text)
    }

    /// Checks the status and returns the body.
    #[track_caller]
    pub(crate) fn expect_status(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// Expects a 400 with this attribute in its list of errors.
    #[track_caller]
    pub(crate) fn expect_invalid(&self, attribute: &str) {
        self.expect_problem(400, attribute);
        assert!(self.json()["errors"].get(attribute).is_some(), "{attribute}: {}", self.text);
    }

    /// Returns the body without its trace id, for comparison with other problems.
    #[track_caller]
    pub(crate) fn without_trace(&self) -> Value {
        let mut body = self.json();
        assert!(body.as_object_mut().unwrap().remove("instance").is_some());
        body
    }

    /// Expects a problem with this status that contains this text.
    #[track_caller]
    pub(crate) fn expect_problem(&self, status: u16, text: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let body = self.json();
        assert_eq!(body["status"], status);
        assert_eq!(body["instance"], self.headers["bt-trace-id"]);
        let is_named =
            body["errors"].get(text).is_some() || body["detail"].as_str().unwrap().contains(text);
        assert!(is_named, "{text} is not named in {}", self.text);
    }
}

/// Returns a text member of a body, such as an id. The member must exist.
#[track_caller]
pub(crate) fn text_field(body: &Value, name: &str) -> String {
    body[name].as_str().expect(name).to_owned()
}

/// Returns a text member of each element of a list.
#[track_caller]
pub(crate) fn text_fields(list: &Value, name: &str) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|it| text_field(it, name)).collect()
}

/// Returns a card number that no other test uses.
pub(crate) fn unique_card_number() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let payload = format!("411111{:09}", NEXT.fetch_add(1, Ordering::Relaxed));
    let luhn_sum: u32 = payload
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let digit = u32::from(digit - b'0');
            if index % 2 == 0 { digit * 2 / 10 + digit * 2 % 10 } else { digit }
        })
        .sum();
    format!("{payload}{}", (10 - luhn_sum % 10) % 10)
}

pub(crate) fn card_body(number: &str) -> Value {
    let data =
        json!({"number": number, "expiration_month": 7, "expiration_year": 2031, "cvc": "123"});
    json!({"type": "card", "data": data})
}
