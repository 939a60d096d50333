//! How every operation is called: a row for each, on things that are there to be touched.

use std::collections::BTreeSet;

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::{
    audit::Operation,
    policy::{ApplicationKind, Permission, TenantSettings},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    harness::server::{TenantApiKeys, TestResponse, TestServer},
    threeds_sessions::requests,
};

/// The body of each operation; nothing where there is none.
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
];

/// What is reached in more ways than one, and in how many.
const OPERATIONS_WITH_SEVERAL_ROUTES: &[(Operation, usize)] =
    &[(Operation::ListConnectionFormulas, 4)];

/// A tenant with one of everything.
pub(crate) struct TenantHarness<'a> {
    pub(crate) server: &'a TestServer,
    pub(crate) keys: TenantApiKeys,
    pub(crate) token: String,
    pub(crate) intent: String,
    pub(crate) application: String,
    pub(crate) api_key: String,
    pub(crate) nonce: String,
    /// What is lent when a session is authorized.
    pub(crate) delegated_permission: &'static str,
    pub(crate) sessions: ThreeDsSessions,
}

/// 3-D Secure sessions, one for each that an operation can touch.
pub(crate) struct ThreeDsSessions {
    /// Of their card.
    pub(crate) intent: String,
    /// Of a browser, not yet authenticated.
    pub(crate) new: String,
    /// Of an app, by who created it.
    pub(crate) public_app: String,
    pub(crate) private_app: String,
    /// A challenge that is over.
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

    /// None of these is anybody's.
    pub(crate) fn unknown() -> Self {
        let ids = [(); 5].map(|()| Uuid::new_v4().to_string());
        let [intent, new, of_public, of_private, challenged] = ids;
        Self { intent, new, public_app: of_public, private_app: of_private, challenged }
    }
}

impl<'a> TenantHarness<'a> {
    pub(crate) fn new(server: &'a TestServer) -> Self {
        let keys = server.create_test_tenant(TenantSettings::default());
        let token = format!("covered-{}", Uuid::new_v4());
        let body = json!({"id": token, "type": "token", "data": 1, "containers": ["/covered/"],
            "search_indexes": ["{{ data }}"]});
        server.create_token_ok(&keys.private, &body);
        let body = json!({"name": "covered", "type": "private", "permissions": ["token:read"]});
        let created =
            server.request("POST", "/applications").key(&keys.management).json(&body).send();
        let created = created.json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (application, api_key) = (text(&created["id"]), text(&created["keys"][0]["id"]));
        let session = server.request("POST", "/sessions").key(&keys.public).send().json();
        let nonce = text(&session["nonce"]);
        let body = json!({"type": "token", "data": 1, "containers": ["/covered/"]});
        let intent = server.post(&keys.private, "/token-intents", &body).expect_status(201);
        let intent = text(&intent["id"]);
        let sessions = ThreeDsSessions::new(server, &keys);
        let delegated = "token:read";
        Self {
            server,
            keys,
            token,
            intent,
            application,
            api_key,
            nonce,
            delegated_permission: delegated,
            sessions,
        }
    }

    /// With an app's session of this key, if it may create one: nobody else may change that.
    pub(crate) fn with_app_session_of(mut self, key: &str) -> Self {
        let body = json!({"token_intent_id": self.sessions.intent, "device": "app"});
        let created = self.server.post(key, requests::SESSIONS, &body);
        if created.status == 201 {
            self.sessions.private_app = crate::harness::server::text_field(&created.json(), "id");
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

    /// Whatever is needed to call it: what the path and the body want is this world's.
    pub(crate) fn call_route(&self, route: &Route, key: Option<&str>) -> TestResponse {
        let owner = match route.path.split('/').nth(1) {
            Some("tokens") => &self.token,
            Some("token-intents") => &self.intent,
            Some("3ds") => self.threeds_session(route.operation, key),
            _ => &self.application,
        };
        let path = route.path.replace("{id}", owner).replace("{key_id}", &self.api_key);
        let mut ask = self.server.request(route.method_name(), &path);
        if let Some(key) = key {
            ask = ask.key(key);
        }
        let (_, body) = ROWS.iter().find(|it| it.0 == route.operation).expect("has a row");
        match body(self) {
            Some(body) if route.method_name() == "PATCH" => ask.merge_patch(&body).send(),
            Some(body) => ask.json(&body).send(),
            None => ask.send(),
        }
    }

    /// The key of an application of this kind that holds whatever its kind can hold.
    pub(crate) fn full_key(&self, kind: ApplicationKind) -> &str {
        match kind {
            ApplicationKind::Public => &self.keys.public,
            ApplicationKind::Private => &self.keys.private,
            ApplicationKind::Management => &self.keys.management,
        }
    }

    /// A session that was lent this much of what the private application has; nothing: not
    /// authorized.
    pub(crate) fn create_access_session(&self, delegated: &[Permission]) -> String {
        let created = self.server.request("POST", "/sessions").key(&self.keys.public).send().json();
        if !delegated.is_empty() {
            let names: Vec<_> = delegated.iter().map(|it| it.as_str()).collect();
            let body = json!({"nonce": created["nonce"], "permissions": names});
            let ask = self.server.request("POST", "/sessions/authorize").key(&self.keys.private);
            let reply = ask.json(&body).send();
            assert_eq!(reply.status, 204, "{}", reply.text);
        }
        created["session_key"].as_str().unwrap().to_owned()
    }

    /// What there is of this tenant, and how much of it.
    pub(crate) fn tenant_state(&self) -> Vec<String> {
        let get = |path: &str, key: &str| {
            let reply = self.server.request("GET", path).key(key).send();
            assert_eq!(reply.status, 200, "{path}: {}", reply.text);
            reply.text
        };
        let count =
            |table: &str| format!("{} {table}", self.server.count_rows(&self.keys.tenant, table));
        vec![
            get(&format!("/tokens/{}", self.token), &self.keys.private),
            get(&format!("/token-intents/{}", self.intent), &self.keys.private),
            get(&format!("/applications/{}", self.application), &self.keys.management),
            get("/tenants/self", &self.keys.management),
            count("tokens"),
            count("token_intents"),
            count("applications"),
            count("api_keys"),
            count("access_sessions"),
            get(&format!("/3ds/sessions/{}", self.sessions.new), &self.keys.private),
            get(&format!("/3ds/sessions/{}", self.sessions.private_app), &self.keys.private),
            count("sessions"),
            count("session_events"),
        ]
    }
}

#[test]
fn test_calls_cover_every_route() {
    let routed: BTreeSet<_> = ROUTES.iter().map(|it| it.operation.as_str()).collect();
    let called: BTreeSet<_> = ROWS.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(routed, called);
    for (operation, _) in ROWS {
        let aliased = OPERATIONS_WITH_SEVERAL_ROUTES.iter().find(|it| it.0 == *operation);
        let found = ROUTES.iter().filter(|it| it.operation == *operation).count();
        assert_eq!(found, aliased.map_or(1, |it| it.1), "the routes of {}", operation.as_str());
    }
    assert_eq!(called.len(), ROWS.len(), "an operation has one row");
}
