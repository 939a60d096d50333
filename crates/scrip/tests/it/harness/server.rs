//! A server on a loopback port with a database of its own, and a client for it.

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
    operations::tenants::{
        create_tenant::{create_tenant, found_vault},
        update_tenant::set_tenant_quotas,
    },
    policy::{
        AccessPolicy, AccessRule, ApplicationKind, Directory, Mandate, Name, Permission,
        Permissions, Quotas, Settings, Tenant, TenantKind, Transform,
    },
};
use scrip_seal::RootKey;
use scrip_server::{
    listen::serve,
    node::{Node, NodeSettings},
    process::clock::{SystemClock, ticks},
};
use scrip_testing::{
    clock::MovedClock,
    policy::{permissions_of, plain},
    vault::{create_key, root_key, vault_with},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, runtime::Runtime};

use crate::{harness::engine::Engine, openapi::contract, sessions_3ds::scripted_servers::Scripted};

pub(crate) use scrip_testing::policy::rule as grant;

pub(crate) struct Server {
    pub(crate) runtime: Runtime,
    pub(crate) app: Arc<App>,
    pub(crate) node: Arc<Node>,
    pub(crate) root: Arc<RootKey>,
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<MovedClock>,
    pub(crate) scripted: Arc<Scripted>,
    pub(crate) engine: Arc<Engine>,
    agent: ureq::Agent,
}

/// What a test may change before its server starts: the state of requests, and what the node has
/// besides.
pub(crate) struct Setup {
    app: App,
    pub(crate) node: NodeSettings,
}

impl Setup {
    fn new(vault: Vault, directory: Directory, root: &Arc<RootKey>) -> Self {
        let app = App::new(vault, directory, Arc::<RootKey>::clone(root), ticks);
        Self { app, node: NodeSettings::default() }
    }

    fn node(self) -> Arc<Node> {
        Arc::new(Node::new(Arc::new(self.app), self.node))
    }
}

impl Deref for Setup {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl DerefMut for Setup {
    fn deref_mut(&mut self) -> &mut App {
        &mut self.app
    }
}

/// One server for every test that does not change what others see.
pub(crate) static SHARED: LazyLock<Server> = LazyLock::new(Server::start);
pub(crate) static ACME: LazyLock<Keys> = LazyLock::new(|| SHARED.tenant(Settings::default()));

/// A tenant and the keys of its applications: `private` sees everything, `public` is a browser's.
pub(crate) struct Keys {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) private: String,
    pub(crate) public: String,
    pub(crate) management: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(adjust: impl FnOnce(&mut Setup)) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let engine = Arc::new(runtime.block_on(Engine::new()));
        let clock = Arc::new(MovedClock::of(SystemClock));
        let root = Arc::new(root_key());
        let scripted = Arc::new(Scripted::default());
        let store = runtime.block_on(engine.open());
        let vault = Vault {
            directory_servers: Arc::<Scripted>::clone(&scripted),
            ..vault_with(store, Arc::<MovedClock>::clone(&clock))
        };
        let (node, listener) = runtime.block_on(async {
            found_vault(&vault, &*root).await.unwrap();
            let directory = Directory::load(&*vault.store, &*root, None).await.unwrap();
            let mut setup = Setup::new(vault, directory, &root);
            // Tests ask more often than anybody may, but for those about just that.
            setup.limiter = Limiter::off();
            // All of them come from one address.
            setup.body_memory = BodyMemory::new(1 << 30, 1);
            adjust(&mut setup);
            (setup.node(), TcpListener::bind("127.0.0.1:0").await.unwrap())
        });
        let (app, address) = (Arc::clone(&node.app), listener.local_addr().unwrap());
        runtime.spawn(serve(Arc::clone(&node), listener, std::future::pending()));
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent = config.into();
        Self { runtime, app, node, root, address, clock, scripted, engine, agent }
    }

    /// Another node on the same store.
    pub(crate) fn beside(&self, adjust: impl FnOnce(&mut Setup)) -> Self {
        let runtime = Runtime::new().unwrap();
        let (vault, root) = (self.app.vault.clone(), Arc::clone(&self.root));
        let (node, listener) = runtime.block_on(async {
            let directory = Directory::load(&*vault.store, &*root, None).await.unwrap();
            let mut setup = Setup::new(vault, directory, &root);
            setup.limiter = Limiter::off();
            adjust(&mut setup);
            (setup.node(), TcpListener::bind("127.0.0.1:0").await.unwrap())
        });
        let (app, address) = (Arc::clone(&node.app), listener.local_addr().unwrap());
        runtime.spawn(serve(Arc::clone(&node), listener, std::future::pending()));
        let (clock, scripted) = (Arc::clone(&self.clock), Arc::clone(&self.scripted));
        let (engine, agent) = (Arc::clone(&self.engine), self.agent.clone());
        Self { runtime, app, node, root, address, clock, scripted, engine, agent }
    }

    pub(crate) fn tenant(&self, settings: Settings) -> Keys {
        self.tenant_of(TenantKind::Test, settings)
    }

    pub(crate) fn tenant_of(&self, kind: TenantKind, settings: Settings) -> Keys {
        let tenant = self.bare_tenant(kind, settings);
        let all = permissions_of(ApplicationKind::Private);
        let private = self.rules(&tenant, vec![grant("/", Transform::Reveal, &all)]);
        let browser = permissions_of(ApplicationKind::Public);
        let public = self.permissions(&tenant, ApplicationKind::Public, &browser);
        let manager = permissions_of(ApplicationKind::Management);
        let management = self.permissions(&tenant, ApplicationKind::Management, &manager);
        Keys { tenant, private, public, management }
    }

    fn bare_tenant(&self, kind: TenantKind, settings: Settings) -> Arc<Tenant> {
        let (vault, name) = (&self.app.vault, Name::parse("test").unwrap());
        self.runtime.block_on(async {
            let tenant = create_tenant(vault, &*self.root, name, kind, settings);
            let id = tenant.await.unwrap();
            self.app.reload().await.unwrap();
            Arc::clone(self.app.directory.load().as_ref().unwrap().tenant(id).unwrap())
        })
    }

    /// As many tokens in one request as a quota can allow.
    pub(crate) fn allow_large_requests(&self, tenant: &Arc<Tenant>) {
        let edit = |quotas| Quotas { tokenize_limit: 1000, detokenize_limit: 1000, ..quotas };
        let mandate = Mandate::of_operator(Arc::clone(tenant));
        self.runtime.block_on(async {
            set_tenant_quotas(&self.app.vault, mandate, Box::new(edit)).await.unwrap();
            self.app.reload().await.unwrap();
        });
    }

    /// How many rows of a table are this tenant's.
    pub(crate) fn rows(&self, tenant: &Tenant, table: &str) -> i64 {
        self.rows_where(tenant, table, "TRUE")
    }

    pub(crate) fn rows_where(&self, tenant: &Tenant, table: &str, condition: &str) -> i64 {
        let tenant = self.engine.id(tenant.id.0);
        let sql = format!("SELECT count(*) FROM {table} WHERE tenant = {tenant} AND {condition}");
        self.engine.count(&sql)
    }

    pub(crate) fn rules(&self, tenant: &Arc<Tenant>, rules: Vec<AccessRule>) -> String {
        let access = AccessPolicy { permissions: Permissions::default(), rules };
        self.application(tenant, ApplicationKind::Private, access)
    }

    pub(crate) fn permissions(
        &self,
        tenant: &Arc<Tenant>,
        kind: ApplicationKind,
        permissions: &[Permission],
    ) -> String {
        self.application(tenant, kind, plain(permissions))
    }

    pub(crate) fn application(
        &self,
        tenant: &Arc<Tenant>,
        kind: ApplicationKind,
        access: AccessPolicy,
    ) -> String {
        let (vault, pepper) = (&self.app.vault, self.app.pepper().unwrap());
        let mandate = Mandate::of_operator(Arc::clone(tenant));
        self.runtime.block_on(async {
            let created = create_key(vault, &pepper, mandate, kind, access).await;
            self.app.reload().await.unwrap();
            created.key
        })
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> Ask<'_> {
        let url = format!("http://{}{path}", self.address);
        let request = ureq::http::Request::builder().method(method).uri(url);
        Ask { server: self, request, body: String::new() }
    }

    pub(crate) fn create(&self, key: &str, body: &Value) -> Reply {
        self.ask("POST", "/tokens").key(key).json(body).send()
    }

    /// A create that must succeed; its answer.
    pub(crate) fn created(&self, key: &str, body: &Value) -> Value {
        let reply = self.create(key, body);
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()
    }

    pub(crate) fn get(&self, key: &str, id: &str) -> Reply {
        self.ask("GET", &format!("/tokens/{id}")).key(key).send()
    }

    pub(crate) fn patch(&self, key: &str, id: &str, body: &Value) -> Reply {
        self.ask("PATCH", &format!("/tokens/{id}")).key(key).patch(body).send()
    }

    pub(crate) fn fetch(&self, key: &str, path: &str) -> Reply {
        self.ask("GET", path).key(key).send()
    }

    pub(crate) fn post(&self, key: &str, path: &str, body: &Value) -> Reply {
        self.ask("POST", path).key(key).json(body).send()
    }

    pub(crate) fn put(&self, key: &str, path: &str, body: &Value) -> Reply {
        self.ask("PUT", path).key(key).json(body).send()
    }

    pub(crate) fn remove(&self, key: &str, path: &str) -> Reply {
        self.ask("DELETE", path).key(key).send()
    }

    /// Bytes as they are, and what comes back until the server closes or a second is over.
    pub(crate) fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut chunk) {
            answer.extend_from_slice(&chunk[..count]);
        }
        String::from_utf8(answer).unwrap()
    }
}

pub(crate) struct Ask<'a> {
    server: &'a Server,
    request: ureq::http::request::Builder,
    body: String,
}

impl Ask<'_> {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("BT-API-KEY", key)
    }

    pub(crate) fn once(self, idempotency_key: &str) -> Self {
        self.header("BT-IDEMPOTENCY-KEY", idempotency_key)
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.text("application/json", &body.to_string())
    }

    pub(crate) fn patch(self, body: &Value) -> Self {
        self.text("application/merge-patch+json", &body.to_string())
    }

    pub(crate) fn text(self, content_type: &str, body: &str) -> Self {
        let mut asked = self.header("Content-Type", content_type);
        body.clone_into(&mut asked.body);
        asked
    }

    /// Whatever it is, it must be an answer that the document foretells.
    #[track_caller]
    pub(crate) fn send(self) -> Reply {
        let (method, path) = (self.request.method_ref(), self.request.uri_ref());
        let method = method.map(ToString::to_string).unwrap_or_default();
        let path = path.map(|it| it.path().to_owned()).unwrap_or_default();
        self.send_for(&method, &path)
    }

    /// An idempotency key brings back the answer of the route where it was first used.
    #[track_caller]
    pub(crate) fn send_for(self, method: &str, path: &str) -> Reply {
        let request = self.request.body(self.body).unwrap();
        let response = self.server.agent.run(request).unwrap();
        let status = response.status().as_u16();
        let text = |value: &ureq::http::HeaderValue| value.to_str().unwrap().to_owned();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        let text = response.into_body().read_to_string().unwrap();
        let reply = Reply { status, headers, text };
        contract::check(method, path, &reply);
        reply
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) text: String,
}

impl Reply {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect(&self.text)
    }

    /// An answer with this status; its body.
    #[track_caller]
    pub(crate) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// A 400 whose list of errors has this attribute.
    #[track_caller]
    pub(crate) fn invalid(&self, attribute: &str) {
        self.refused(400, attribute);
        assert!(self.json()["errors"].get(attribute).is_some(), "{attribute}: {}", self.text);
    }

    /// What can be compared with the body of another problem.
    #[track_caller]
    pub(crate) fn without_trace(&self) -> Value {
        let mut body = self.json();
        assert!(body.as_object_mut().unwrap().remove("instance").is_some());
        body
    }

    /// A problem with this status that names this attribute.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, attribute: &str) {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let body = self.json();
        assert_eq!(body["status"], status);
        assert_eq!(body["instance"], self.headers["bt-trace-id"]);
        let named = body["errors"].get(attribute).is_some()
            || body["detail"].as_str().unwrap().contains(attribute);
        assert!(named, "{attribute} is not named in {}", self.text);
    }
}

/// A text of a body that has to be there, such as an id.
#[track_caller]
pub(crate) fn text(body: &Value, name: &str) -> String {
    body[name].as_str().expect(name).to_owned()
}

/// A card number that no other test has.
pub(crate) fn new_number() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let payload = format!("411111{:09}", NEXT.fetch_add(1, Ordering::Relaxed));
    let sum: u32 = payload
        .bytes()
        .rev()
        .enumerate()
        .map(|(at, digit)| {
            let digit = u32::from(digit - b'0');
            if at % 2 == 0 { digit * 2 / 10 + digit * 2 % 10 } else { digit }
        })
        .sum();
    format!("{payload}{}", (10 - sum % 10) % 10)
}

pub(crate) fn card(number: &str) -> Value {
    let data =
        json!({"number": number, "expiration_month": 7, "expiration_year": 2031, "cvc": "123"});
    json!({"type": "card", "data": data})
}
