//! The request of every operation: one row per operation, on entities that exist.

use std::collections::BTreeSet;

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::types::{ApplicationKind, Operation, Permission};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    access::proxies::CERTIFICATE,
    harness::server::{TenantApiKeys, TestResponse, TestServer, text_field},
    threeds_sessions::requests,
};

/// Builds the body of an operation, `None` for an operation without a body.
type BuildBody = fn(&TenantHarness<'_>) -> Option<Value>;

#[rustfmt::skip]
const ROWS: &[(Operation, BuildBody)] = &[
    (Operation::CreateToken, |_| Some(json!({"type": "token", "data": 1, "containers": ["/covered/"]}))),
    (Operation::GetToken, |_| None),
    (Operation::UpdateToken, |_| Some(json!({"metadata": {"touched": "yes"}}))),
    (Operation::DeleteToken, |_| None),
    (Operation::ListTokens, |_| None),
    (Operation::ListTokensV1, |_| None),
    (Operation::SearchTokens, |_| Some(json!({"query": "data:1"}))),
    (Operation::SearchTokensV1, |_| Some(json!({"query": "data:1"}))),
    (Operation::Tokenize, |_| Some(json!({"a": {"type": "token", "data": 1, "containers": ["/covered/"]}}))),
    (Operation::Detokenize, |it| Some(json!({"a": format!("{{{{ {} }}}}", it.token)}))),
    (Operation::CreateTokenIntent, |_| Some(json!({"type": "token", "data": 1, "containers": ["/covered/"]}))),
    (Operation::GetTokenIntent, |_| None),
    (Operation::DeleteTokenIntent, |_| None),
    (Operation::GetTenant, |_| None),
    (Operation::UpdateTenant, |_| Some(json!({"name": "touched"}))),
    (Operation::DeleteTenant, |_| None),
    (Operation::GetTenantQuotas, |_| None),
    (Operation::GetTenantUsage, |_| None),
    (Operation::CreateApplication, |_| Some(json!({"name": "new", "type": "public", "permissions": ["token:create"]}))),
    (Operation::ListApplications, |_| None),
    (Operation::GetApplicationByKey, |_| None),
    (Operation::GetApplication, |_| None),
    (Operation::UpdateApplication, |_| Some(json!({"name": "touched", "permissions": ["token:read"]}))),
    (Operation::DeleteApplication, |_| None),
    (Operation::RegenerateApplicationKey, |_| None),
    (Operation::CreateApiKey, |_| None),
    (Operation::ListApiKeys, |_| None),
    (Operation::GetApiKey, |_| None),
    (Operation::DeleteApiKey, |_| None),
    (Operation::ListPermissions, |_| None),
    (Operation::CreateProxy, |_| Some(json!({"name": "new", "destination_url": "https://psp.example"}))),
    (Operation::ListProxies, |_| None),
    (Operation::GetProxy, |_| None),
    (Operation::UpdateProxy, |_| Some(json!({"name": "touched", "destination_url": "https://psp.example/v1"}))),
    (Operation::PatchProxy, |_| Some(json!({"name": "touched"}))),
    (Operation::DeleteProxy, |_| None),
    (Operation::SetProxyClientCertificate, |_| Some(CERTIFICATE.clone())),
    (Operation::DeleteProxyClientCertificate, |_| None),
    (Operation::CreateClientKey, |_| Some(json!({"expires_at": null}))),
    (Operation::ListClientKeys, |_| None),
    (Operation::GetClientKey, |_| None),
    (Operation::DeleteClientKey, |_| None),
    (Operation::CreateWebhook, |_| Some(json!({"name": "new", "url": "https://shop.example", "events": ["token.created"]}))),
    (Operation::ListWebhooks, |_| None),
    (Operation::ListWebhookEventTypes, |_| None),
    (Operation::GetWebhook, |_| None),
    (Operation::UpdateWebhook, |_| Some(json!({"name": "touched", "url": "https://shop.example", "events": ["token.created"]}))),
    (Operation::DeleteWebhook, |_| None),
    (Operation::RotateWebhookSecret, |_| None),
    (Operation::ListWebhookDeliveries, |_| None),
    (Operation::TestWebhook, |_| None),
    (Operation::ReplayWebhookDeliveries, |_| Some(json!({"from": "2026-11-01T00:00:00+00:00"}))),
    (Operation::CreateAccessSession, |_| None),
    (Operation::AuthorizeAccessSession, |it| Some(json!({"nonce": it.nonce, "permissions": [it.delegated_permission]}))),
    (Operation::CreateThreeDsSession, |it| Some(json!({"token_intent_id": it.sessions.intent}))),
    (Operation::GetThreeDsSession, |_| None),
    (Operation::UpdateThreeDsSession, |_| Some(json!({"device_info": requests::app_info()}))),
    (Operation::AuthenticateThreeDsSession, |_| Some(requests::payment("Frictionless"))),
    (Operation::GetChallengeResult, |_| None),
    (Operation::ListLogs, |_| None),
    (Operation::ListLogEntityTypes, |_| None),
    (Operation::ListConnectionFormulas, |_| None),
    (Operation::GetCardDetails, |_| None),
    (Operation::GetClientPublicKey, |_| None),
];

/// The operations with more than one route, and the numbers of their routes.
const OPERATIONS_WITH_SEVERAL_ROUTES: &[(Operation, usize)] =
    &[(Operation::ListConnectionFormulas, 4)];

/// A tenant with one entity of every type.
pub(crate) struct TenantHarness<'a> {
    pub(crate) server: &'a TestServer,
    pub(crate) keys: TenantApiKeys,
    pub(crate) token: String,
    pub(crate) intent: String,
    pub(crate) application: String,
    pub(crate) api_key: String,
    pub(crate) nonce: String,
    /// A proxy with a client certificate.
    pub(crate) proxy: String,
    pub(crate) webhook: String,
    pub(crate) client_key: String,
    /// The permission that is delegated when an access session is authorized.
    pub(crate) delegated_permission: &'static str,
    pub(crate) sessions: ThreeDsSessions,
    /// The idempotency key of every call.
    pub(crate) idempotency_key: Option<&'static str>,
}

/// 3-D Secure sessions, one for each state that an operation needs.
pub(crate) struct ThreeDsSessions {
    /// The token intent with the card of these sessions.
    pub(crate) intent: String,
    /// A browser session, not yet authenticated.
    pub(crate) new: String,
    /// App sessions, by the key that created them.
    pub(crate) public_app: String,
    pub(crate) private_app: String,
    /// A session with a completed challenge.
    pub(crate) challenged: String,
}

impl ThreeDsSessions {
    fn new(server: &TestServer, keys: &TenantApiKeys) -> Self {
        let intent = server.create_card_intent(keys);
        let challenged =
            server.start_challenge(keys, server.create_browser_session_for(keys, &intent));
        server.send_result(&challenged, "Y");
        Self {
            new: server.create_browser_session_for(keys, &intent),
            public_app: server.create_app_session(&keys.public, &intent),
            private_app: server.create_app_session(&keys.private, &intent),
            challenged,
            intent,
        }
    }

    /// Returns random ids that belong to no session.
    pub(crate) fn unknown() -> Self {
        let ids = [(); 5].map(|()| Uuid::new_v4().to_string());
        let [intent, new, by_public, by_private, challenged] = ids;
        Self { intent, new, public_app: by_public, private_app: by_private, challenged }
    }
}

impl<'a> TenantHarness<'a> {
    pub(crate) fn new(server: &'a TestServer) -> Self {
        let keys = server.create_default_tenant();
        let token = format!("covered-{}", Uuid::new_v4());
        let body = json!({"id": token, "type": "token", "data": 1, "containers": ["/covered/"],
            "search_indexes": ["{{ data }}"]});
        server.create_token_ok(&keys.private, &body);
        let manage = |path: &str, body: Value| server.create_entity(&keys.management, path, &body);
        let body = json!({"name": "covered", "type": "private", "permissions": ["token:read"]});
        let created = manage("/applications", body);
        let (application, api_key) =
            (text_field(&created, "id"), text_field(&created["keys"][0], "id"));
        let session = server.post_empty(&keys.public, "/sessions").json();
        let nonce = text_field(&session, "nonce");
        let body = json!({"type": "token", "data": 1, "containers": ["/covered/"]});
        let intent = server.create_intent_id(&keys.private, &body);
        let body = json!({"name": "covered", "destination_url": "https://psp.example/v1"});
        let proxy = text_field(&manage("/proxies", body), "id");
        let path = format!("/proxies/{proxy}/client-certificate");
        server.put(&keys.management, &path, &CERTIFICATE).expect_status(200);
        let body =
            json!({"name": "covered", "url": "https://shop.example", "events": ["token.created"]});
        let webhook = text_field(&manage("/webhooks", body), "id");
        let client_key = text_field(&server.create_client_key(&keys.management), "key_id");
        let sessions = ThreeDsSessions::new(server, &keys);
        Self {
            server,
            keys,
            token,
            intent,
            application,
            api_key,
            nonce,
            proxy,
            webhook,
            client_key,
            delegated_permission: "token:read",
            sessions,
            idempotency_key: None,
        }
    }

    /// Replaces the app session by one created with this key, if the key may create one. Only the
    /// key that created an app session may update it.
    pub(crate) fn with_app_session_of(mut self, key: &str) -> Self {
        let body = json!({"token_intent_id": self.sessions.intent, "device": "app"});
        let created = self.server.post(key, requests::SESSIONS, &body);
        if created.status == 201 {
            self.sessions.private_app = text_field(&created.json(), "id");
        }
        self
    }

    fn threeds_session(&self, operation: Operation, key: Option<&str>) -> &String {
        if operation == Operation::GetChallengeResult {
            return &self.sessions.challenged;
        }
        if operation != Operation::UpdateThreeDsSession {
            return &self.sessions.new;
        }
        let by_public = key == Some(&self.keys.public);
        if by_public { &self.sessions.public_app } else { &self.sessions.private_app }
    }

    /// Calls the route with the path parameters and the body of this tenant.
    pub(crate) fn call_route(&self, route: &Route, key: Option<&str>) -> TestResponse {
        let is_card_details = route.operation == Operation::GetCardDetails;
        let query = if is_card_details { "?bin=424242" } else { "" };
        let (_, body) =
            ROWS.iter().find(|it| it.0 == route.operation).expect("every operation has a row");
        self.call_with_body(route, key, query, body(self))
    }

    /// Calls a route with this query and this body, on entities of the tenant.
    pub(crate) fn call_with_body(
        &self,
        route: &Route,
        key: Option<&str>,
        query: &str,
        body: Option<Value>,
    ) -> TestResponse {
        let owner = match route.path.split('/').nth(1) {
            Some("tokens") => &self.token,
            Some("token-intents") => &self.intent,
            Some("proxies") => &self.proxy,
            Some("webhooks") => &self.webhook,
            Some("keys") => &self.client_key,
            Some("3ds") => self.threeds_session(route.operation, key),
            _ => &self.application,
        };
        let path = route.path.replace("{id}", owner).replace("{key_id}", &self.api_key) + query;
        let mut request = self.server.request(route.method_name(), &path);
        if let Some(key) = key {
            request = request.key(key);
        }
        if let Some(idempotency_key) = self.idempotency_key {
            request = request.idempotency_key(idempotency_key);
        }
        match body {
            Some(body) if route.method_name() == "PATCH" => request.merge_patch(&body).send(),
            Some(body) => request.json(&body).send(),
            None => request.send(),
        }
    }

    /// Creates the key of an application of this kind with every permission that the kind can have.
    pub(crate) fn full_key(&self, kind: ApplicationKind) -> &str {
        match kind {
            ApplicationKind::Public => &self.keys.public,
            ApplicationKind::Private => &self.keys.private,
            ApplicationKind::Management => &self.keys.management,
        }
    }

    /// Creates an access session with these permissions delegated by the private application. With
    /// an empty list, the session is not authorized.
    pub(crate) fn create_access_session(&self, permissions: &[Permission]) -> String {
        let TenantApiKeys { public, private, .. } = &self.keys;
        if permissions.is_empty() {
            let created = self.server.post_empty(public, "/sessions").expect_status(201);
            return text_field(&created, "session_key");
        }
        let names: Vec<_> = permissions.iter().map(|it| it.as_str()).collect();
        self.server.create_access_session(public, private, &json!({"permissions": names}))
    }

    /// Returns the entities of this tenant and the numbers of its rows.
    pub(crate) fn tenant_state(&self) -> Vec<String> {
        let get_json = |path: &str, key: &str| {
            let response = self.server.get_path(key, path);
            assert_eq!(response.status, 200, "{path}: {}", response.text);
            response.text
        };
        let count =
            |table: &str| format!("{} {table}", self.server.count_rows(&self.keys.tenant, table));
        vec![
            get_json(&format!("/tokens/{}", self.token), &self.keys.private),
            get_json(&format!("/token-intents/{}", self.intent), &self.keys.private),
            get_json(&format!("/applications/{}", self.application), &self.keys.management),
            get_json("/tenants/self", &self.keys.management),
            count("tokens"),
            count("token_intents"),
            count("applications"),
            count("api_keys"),
            count("access_sessions"),
            get_json(&format!("/proxies/{}", self.proxy), &self.keys.management),
            count("proxies"),
            get_json(&format!("/webhooks/{}", self.webhook), &self.keys.management),
            count("webhooks"),
            get_json(&format!("/keys/{}", self.client_key), &self.keys.management),
            count("client_keys"),
            get_json(&format!("/3ds/sessions/{}", self.sessions.new), &self.keys.private),
            get_json(&format!("/3ds/sessions/{}", self.sessions.private_app), &self.keys.private),
            count("threeds_sessions"),
            count("deliveries"),
        ]
    }
}

#[test]
fn test_calls_cover_every_route() {
    let routed_operations: BTreeSet<_> = ROUTES.iter().map(|it| it.operation.as_str()).collect();
    let called_operations: BTreeSet<_> = ROWS.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(routed_operations, called_operations);
    for (operation, _) in ROWS {
        let exception = OPERATIONS_WITH_SEVERAL_ROUTES.iter().find(|it| it.0 == *operation);
        let route_count = ROUTES.iter().filter(|it| it.operation == *operation).count();
        let expected = exception.map_or(1, |it| it.1);
        assert_eq!(route_count, expected, "wrong number of routes of {}", operation.as_str());
    }
    assert_eq!(called_operations.len(), ROWS.len(), "an operation has more than one row");
}
