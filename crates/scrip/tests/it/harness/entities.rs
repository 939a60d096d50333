//! Entities that tests create with requests, and settings that an operator changes.

use std::sync::Arc;

use scrip_core::{
    operations::tenants::update_tenant::set_tenant_quotas,
    policy::{PolicyPermit, Quotas, Tenant},
};
use scrip_testing::requests::with_members;
use serde_json::{Value, json};

use crate::harness::server::{TestServer, text_field};

/// An application that a test created with a request, so that the test can change it.
pub(crate) struct CreatedApplication {
    pub(crate) id: String,
    pub(crate) path: String,
    pub(crate) key: String,
}

impl TestServer {
    /// Posts an entity, which must be created, and returns the response.
    #[track_caller]
    pub(crate) fn create_entity(&self, key: &str, path: &str, body: &Value) -> Value {
        self.post(key, path, body).expect_status(201)
    }

    /// Creates an application with these permissions, rules or both.
    #[track_caller]
    pub(crate) fn create_application(
        &self,
        management: &str,
        kind: &str,
        rights: &Value,
    ) -> CreatedApplication {
        let body = with_members(json!({"name": "created", "type": kind}), rights);
        let created = self.create_entity(management, "/applications", &body);
        let id = text_field(&created, "id");
        let path = format!("/applications/{id}");
        CreatedApplication { id, path, key: text_field(&created, "key") }
    }

    /// Creates an access session with these permissions or rules, and returns its key.
    #[track_caller]
    pub(crate) fn create_access_session(
        &self,
        public: &str,
        private: &str,
        rights: &Value,
    ) -> String {
        let session = self.post_empty(public, "/sessions").expect_status(201);
        let body = with_members(json!({"nonce": session["nonce"]}), rights);
        self.post(private, "/sessions/authorize", &body).expect_status(204);
        text_field(&session, "session_key")
    }

    /// Creates a key for data that clients encrypt.
    #[track_caller]
    pub(crate) fn create_client_key(&self, management: &str) -> Value {
        self.create_entity(management, "/keys", &json!({}))
    }

    /// Creates a token intent and returns its id.
    #[track_caller]
    pub(crate) fn create_intent_id(&self, key: &str, body: &Value) -> String {
        text_field(&self.create_entity(key, "/token-intents", body), "id")
    }

    /// Changes the quotas of a tenant.
    pub(crate) fn set_quotas(
        &self,
        tenant: &Arc<Tenant>,
        edit: impl Fn(Quotas) -> Quotas + Send + Sync + 'static,
    ) {
        let permit = PolicyPermit::for_operator(Arc::clone(tenant));
        self.runtime.block_on(async {
            set_tenant_quotas(&self.app.vault, permit, Box::new(edit)).await.unwrap();
            self.app.reload().await.unwrap();
        });
    }

    /// Raises the quota for tokens per request to its maximum.
    pub(crate) fn allow_large_requests(&self, tenant: &Arc<Tenant>) {
        self.set_quotas(tenant, |it| Quotas { tokenize_limit: 200, detokenize_limit: 200, ..it });
    }
}
