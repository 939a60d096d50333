//! What is written down of every operation: who, what, when, from where. Never a value.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use crate::{
    caller::{Actor, Caller, Mandate},
    time::Timestamp,
};

macro_rules! operations {
    ($($name:ident $text:literal;)*) => {
        /// One name for an operation everywhere: its file, its tests, its metrics and its record.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Operation { $($name),* }

        impl Operation {
            /// All of them, in the order of [`Operation::index`].
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its place among all, for tables that have a row for each.
            #[must_use]
            #[expect(clippy::as_conversions, reason = "a unit variant is its own place")]
            pub fn index(self) -> usize {
                self as usize
            }

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

operations! {
    CreateToken "create_token";
    GetToken "get_token";
    UpdateToken "update_token";
    DeleteToken "delete_token";
    ExpireToken "expire_token";
    ExpireTokenIntent "expire_token_intent";
    ListTokens "list_tokens";
    ListTokensV1 "list_tokens_v1";
    SearchTokens "search_tokens";
    SearchTokensV1 "search_tokens_v1";
    Tokenize "tokenize";
    Detokenize "detokenize";
    CreateTokenIntent "create_token_intent";
    GetTokenIntent "get_token_intent";
    DeleteTokenIntent "delete_token_intent";
    CreateTenant "create_tenant";
    GetTenant "get_tenant";
    UpdateTenant "update_tenant";
    DeleteTenant "delete_tenant";
    GetTenantQuotas "get_tenant_quotas";
    SetTenantQuotas "set_tenant_quotas";
    CreateApplication "create_application";
    ListApplications "list_applications";
    GetApplication "get_application";
    GetApplicationByKey "get_application_by_key";
    UpdateApplication "update_application";
    DeleteApplication "delete_application";
    RegenerateApplicationKey "regenerate_application_key";
    CreateApiKey "create_api_key";
    ListApiKeys "list_api_keys";
    GetApiKey "get_api_key";
    DeleteApiKey "delete_api_key";
    ImportApiKey "import_api_key";
    ListPermissions "list_permissions";
    CreateAccessSession "create_access_session";
    AuthorizeAccessSession "authorize_access_session";
    ListConnectionFormulas "list_connection_formulas";
}

/// Committed in the transaction of what it records. The entity is what the transaction touched,
/// and the outcome what became of it; only there are both known.
#[derive(Debug, Clone)]
pub struct AuditRecord {
    pub operation: Operation,
    pub actor: Actor,
    pub trace: Arc<str>,
    pub address: IpAddr,
    pub at: Timestamp,
}

impl AuditRecord {
    #[must_use]
    pub fn new(operation: Operation, caller: &Caller, at: Timestamp) -> Self {
        let origin = caller.origin();
        Self {
            operation,
            actor: Actor::Application(caller.application()),
            trace: Arc::clone(&origin.trace),
            address: origin.address,
            at,
        }
    }

    #[must_use]
    pub fn of(operation: Operation, mandate: &Mandate, at: Timestamp) -> Self {
        match mandate.caller() {
            Some(caller) => Self::new(operation, caller, at),
            None => Self::of_operator(operation, at),
        }
    }

    /// From this machine, by no request.
    #[must_use]
    pub fn of_operator(operation: Operation, at: Timestamp) -> Self {
        let (trace, address) = ("operator".into(), Ipv4Addr::LOCALHOST.into());
        Self { operation, actor: Actor::Operator, trace, address, at }
    }

    /// What nobody asked for: its time was over.
    #[must_use]
    pub fn of_vault(operation: Operation, at: Timestamp) -> Self {
        let (trace, address) = ("vault".into(), Ipv4Addr::LOCALHOST.into());
        Self { operation, actor: Actor::Vault, trace, address, at }
    }
}
