//! How every operation is called: a row for each, on things that are there to be touched.

use std::collections::BTreeSet;

use scrip_api::{route::Route, routes::ROUTES};
use scrip_core::{
    audit::Operation,
    policy::{ApplicationKind, Permission, Settings},
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    harness::server::{Keys, Reply, Server},
    sessions_3ds::requests,
};

/// The body of each operation; nothing where there is none.
type Body = fn(&TenantHarness<'_>) -> Option<Value>;

#[rustfmt::skip]
const ROWS: &[(Operation, Body)] = &[
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
    (Operation::AuthorizeAccessSession, |it| Some(json!({"nonce": it.nonce, "permissions": [it.lent]}))),
    (Operation::CreateSession, |it| Some(json!({"token_intent_id": it.sessions.intent}))),
    (Operation::GetSession, |_| None),
    (Operation::UpdateSession, |_| Some(json!({"device_info": requests::app()}))),
    (Operation::AuthenticateSession, |_| Some(requests::payment("Frictionless"))),
    (Operation::GetChallengeResult, |_| None),
    (Operation::ListLogs, |_| None),
    (Operation::ListLogEntityTypes, |_| None),
    (Operation::ListConnectionFormulas, |_| None),
];

/// What is reached in more ways than one, and in how many.
const ALIASED: &[(Operation, usize)] = &[(Operation::ListConnectionFormulas, 4)];

/// A tenant with one of everything.
pub(crate) struct TenantHarness<'a> {
    pub(crate) server: &'a Server,
    pub(crate) keys: Keys,
    pub(crate) token: String,
    pub(crate) intent: String,
    pub(crate) application: String,
    pub(crate) api_key: String,
    pub(crate) nonce: String,
    /// What is lent when a session is authorized.
    pub(crate) lent: &'static str,
    pub(crate) sessions: Sessions,
}

/// 3-D Secure sessions, one for each that an operation can touch.
pub(crate) struct Sessions {
    /// Of their card.
    pub(crate) intent: String,
    /// Of a browser, not yet authenticated.
    pub(crate) new: String,
    /// Of an app, by who created it.
    pub(crate) of_public: String,
    pub(crate) of_private: String,
    /// A challenge that is over.
    pub(crate) challenged: String,
}

impl Sessions {
    fn new(server: &Server, keys: &Keys) -> Self {
        let intent = server.card_intent(keys);
        let challenged = server.challenged(keys, server.browser_session_of(keys, &intent));
        server.tell_result(&challenged, "Y");
        Self {
            new: server.browser_session_of(keys, &intent),
            of_public: server.app_session(&keys.public, &intent),
            of_private: server.app_session(&keys.private, &intent),
            challenged,
            intent,
        }
    }

    /// None of these is anybody's.
    pub(crate) fn of_nobody() -> Self {
        let ids = [(); 5].map(|()| Uuid::new_v4().to_string());
        let [intent, new, of_public, of_private, challenged] = ids;
        Self { intent, new, of_public, of_private, challenged }
    }
}

impl<'a> TenantHarness<'a> {
    pub(crate) fn new(server: &'a Server) -> Self {
        let keys = server.tenant(Settings::default());
        let token = format!("covered-{}", Uuid::new_v4());
        let body = json!({"id": token, "type": "token", "data": 1, "containers": ["/covered/"],
            "search_indexes": ["{{ data }}"]});
        server.created(&keys.private, &body);
        let body = json!({"name": "covered", "type": "private", "permissions": ["token:read"]});
        let made = server.ask("POST", "/applications").key(&keys.management).json(&body).send();
        let made = made.json();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (application, api_key) = (text(&made["id"]), text(&made["keys"][0]["id"]));
        let session = server.ask("POST", "/sessions").key(&keys.public).send().json();
        let nonce = text(&session["nonce"]);
        let body = json!({"type": "token", "data": 1, "containers": ["/covered/"]});
        let intent = server.post(&keys.private, "/token-intents", &body).is(201);
        let intent = text(&intent["id"]);
        let sessions = Sessions::new(server, &keys);
        let lent = "token:read";
        Self { server, keys, token, intent, application, api_key, nonce, lent, sessions }
    }

    /// With an app's session of this key, if it may create one: nobody else may change that.
    pub(crate) fn with_session_of(mut self, key: &str) -> Self {
        let body = json!({"token_intent_id": self.sessions.intent, "device": "app"});
        let made = self.server.post(key, requests::SESSIONS, &body);
        if made.status == 201 {
            self.sessions.of_private = crate::harness::server::text(&made.json(), "id");
        }
        self
    }

    fn threeds_session(&self, operation: Operation, key: Option<&str>) -> &String {
        if operation == Operation::GetChallengeResult {
            return &self.sessions.challenged;
        }
        if operation != Operation::UpdateSession {
            return &self.sessions.new;
        }
        let by_public = key == Some(&self.keys.public);
        if by_public { &self.sessions.of_public } else { &self.sessions.of_private }
    }

    /// Whatever is needed to call it: what the path and the body want is this world's.
    pub(crate) fn call(&self, route: &Route, key: Option<&str>) -> Reply {
        let owner = match route.path.split('/').nth(1) {
            Some("tokens") => &self.token,
            Some("token-intents") => &self.intent,
            Some("3ds") => self.threeds_session(route.operation, key),
            _ => &self.application,
        };
        let path = route.path.replace("{id}", owner).replace("{key_id}", &self.api_key);
        let mut ask = self.server.ask(route.method_name(), &path);
        if let Some(key) = key {
            ask = ask.key(key);
        }
        let (_, body) = ROWS.iter().find(|it| it.0 == route.operation).expect("has a row");
        match body(self) {
            Some(body) if route.method_name() == "PATCH" => ask.patch(&body).send(),
            Some(body) => ask.json(&body).send(),
            None => ask.send(),
        }
    }

    /// The key of an application of this kind that holds whatever its kind can hold.
    pub(crate) fn full(&self, kind: ApplicationKind) -> &str {
        match kind {
            ApplicationKind::Public => &self.keys.public,
            ApplicationKind::Private => &self.keys.private,
            ApplicationKind::Management => &self.keys.management,
        }
    }

    /// A session that was lent this much of what the private application has; nothing: not
    /// authorized.
    pub(crate) fn session(&self, lent: &[Permission]) -> String {
        let made = self.server.ask("POST", "/sessions").key(&self.keys.public).send().json();
        if !lent.is_empty() {
            let names: Vec<_> = lent.iter().map(|it| it.as_str()).collect();
            let body = json!({"nonce": made["nonce"], "permissions": names});
            let ask = self.server.ask("POST", "/sessions/authorize").key(&self.keys.private);
            let reply = ask.json(&body).send();
            assert_eq!(reply.status, 204, "{}", reply.text);
        }
        made["session_key"].as_str().unwrap().to_owned()
    }

    /// What there is of this tenant, and how much of it.
    pub(crate) fn state(&self) -> Vec<String> {
        let get = |path: &str, key: &str| {
            let reply = self.server.ask("GET", path).key(key).send();
            assert_eq!(reply.status, 200, "{path}: {}", reply.text);
            reply.text
        };
        let count = |table: &str| format!("{} {table}", self.server.rows(&self.keys.tenant, table));
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
            get(&format!("/3ds/sessions/{}", self.sessions.of_private), &self.keys.private),
            count("sessions"),
            count("session_events"),
        ]
    }
}

#[test]
fn every_route_has_a_row_and_every_row_a_route() {
    let routed: BTreeSet<_> = ROUTES.iter().map(|it| it.operation.as_str()).collect();
    let called: BTreeSet<_> = ROWS.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(routed, called);
    for (operation, _) in ROWS {
        let aliased = ALIASED.iter().find(|it| it.0 == *operation);
        let found = ROUTES.iter().filter(|it| it.operation == *operation).count();
        assert_eq!(found, aliased.map_or(1, |it| it.1), "the routes of {}", operation.as_str());
    }
    assert_eq!(called.len(), ROWS.len(), "an operation has one row");
}
