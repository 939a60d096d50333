//! The names of the operations, and the types of the entities that they concern. Records, metrics
//! and rate limits use them.

macro_rules! operations {
    ($($name:ident $text:literal $(of $entity:ident)?;)*) => {
        /// The operations. File, tests, metrics and records of an operation use the same name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Operation { $($name),* }

        impl Operation {
            /// All operations, in the order of [`Operation::index`].
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The index in [`Operation::ALL`], for tables with a row for each operation.
            #[expect(clippy::as_conversions, reason = "a unit variant is its own index")]
            pub fn index(self) -> usize {
                self as usize
            }

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }

            /// `None` for an operation that concerns no entity of a tenant and is not recorded for
            /// a tenant.
            pub fn entity_type(self) -> Option<EntityType> {
                match self { $(Self::$name => [$(EntityType::$entity)?].first().copied(),)* }
            }
        }
    };
}

operations! {
    CreateToken "create_token" of Token;
    GetToken "get_token" of Token;
    UpdateToken "update_token" of Token;
    DeleteToken "delete_token" of Token;
    ExpireToken "expire_token" of Token;
    ListTokens "list_tokens" of Token;
    ListTokensV1 "list_tokens_v1" of Token;
    SearchTokens "search_tokens" of Token;
    SearchTokensV1 "search_tokens_v1" of Token;
    Tokenize "tokenize" of Token;
    Detokenize "detokenize" of Token;
    CreateTokenIntent "create_token_intent" of TokenIntent;
    GetTokenIntent "get_token_intent" of TokenIntent;
    DeleteTokenIntent "delete_token_intent" of TokenIntent;
    ExpireTokenIntent "expire_token_intent" of TokenIntent;
    // The effect of Create Token, Update Token, Tokenize and Detokenize on an intent. Separate
    // names, so that the operation of a record determines the type of its entity.
    ConvertTokenIntent "convert_token_intent" of TokenIntent;
    DetokenizeTokenIntent "detokenize_token_intent" of TokenIntent;
    // The effect of a 3DS session on its card, and of a proxied call on the tokens in it.
    UseToken "use_token" of Token;
    UseTokenIntent "use_token_intent" of TokenIntent;
    CreateTenant "create_tenant" of Tenant;
    GetTenant "get_tenant" of Tenant;
    UpdateTenant "update_tenant" of Tenant;
    DeleteTenant "delete_tenant" of Tenant;
    RestoreTenant "restore_tenant" of Tenant;
    RestorePolicy "restore_policy" of Tenant;
    GetTenantQuotas "get_tenant_quotas" of Tenant;
    SetTenantQuotas "set_tenant_quotas" of Tenant;
    // The sealing key of a tenant: a new version is added, seals, and the old one is destroyed.
    StartKeyRotation "start_key_rotation" of Tenant;
    PromoteSealingKey "promote_sealing_key" of Tenant;
    FinishKeyRotation "finish_key_rotation" of Tenant;
    CreateApplication "create_application" of Application;
    ListApplications "list_applications" of Application;
    GetApplication "get_application" of Application;
    GetApplicationByKey "get_application_by_key" of Application;
    UpdateApplication "update_application" of Application;
    DeleteApplication "delete_application" of Application;
    RegenerateApplicationKey "regenerate_application_key" of Application;
    CreateApiKey "create_api_key" of ApiKey;
    ListApiKeys "list_api_keys" of ApiKey;
    GetApiKey "get_api_key" of ApiKey;
    DeleteApiKey "delete_api_key" of ApiKey;
    ImportApiKey "import_api_key" of ApiKey;
    ListPermissions "list_permissions";
    CreateProxy "create_proxy" of Proxy;
    ListProxies "list_proxies" of Proxy;
    GetProxy "get_proxy" of Proxy;
    UpdateProxy "update_proxy" of Proxy;
    PatchProxy "patch_proxy" of Proxy;
    DeleteProxy "delete_proxy" of Proxy;
    SetProxyClientCertificate "set_proxy_client_certificate" of Proxy;
    DeleteProxyClientCertificate "delete_proxy_client_certificate" of Proxy;
    // By the operator: the host that selects a proxy.
    AddProxyHost "add_proxy_host" of Proxy;
    RemoveProxyHost "remove_proxy_host" of Proxy;
    CreateWebhook "create_webhook" of Webhook;
    ListWebhooks "list_webhooks" of Webhook;
    GetWebhook "get_webhook" of Webhook;
    UpdateWebhook "update_webhook" of Webhook;
    DeleteWebhook "delete_webhook" of Webhook;
    RotateWebhookSecret "rotate_webhook_secret" of Webhook;
    ListWebhookEventTypes "list_webhook_event_types";
    ListWebhookDeliveries "list_webhook_deliveries" of Webhook;
    TestWebhook "test_webhook" of Webhook;
    ReplayWebhookDeliveries "replay_webhook_deliveries" of Webhook;
    // By the vault: the receiver answered 410, or no delivery succeeded for five days.
    DisableWebhook "disable_webhook" of Webhook;
    // By the vault: the backlog of a webhook was too long or too old.
    DropWebhookDeliveries "drop_webhook_deliveries" of Webhook;
    CreateClientKey "create_client_key" of ClientKey;
    ListClientKeys "list_client_keys" of ClientKey;
    GetClientKey "get_client_key" of ClientKey;
    DeleteClientKey "delete_client_key" of ClientKey;
    ExpireClientKey "expire_client_key" of ClientKey;
    // The effect of a proxied call: it decrypts data that a client encrypted for the key.
    UseClientKey "use_client_key" of ClientKey;
    CreateAccessSession "create_access_session" of AccessSession;
    AuthorizeAccessSession "authorize_access_session" of AccessSession;
    ListAccessSessions "list_access_sessions" of AccessSession;
    RevokeAccessSession "revoke_access_session" of AccessSession;
    CreateThreeDsSession "create_threeds_session" of ThreeDsSession;
    GetThreeDsSession "get_threeds_session" of ThreeDsSession;
    UpdateThreeDsSession "update_threeds_session" of ThreeDsSession;
    AuthenticateThreeDsSession "authenticate_threeds_session" of ThreeDsSession;
    GetChallengeResult "get_challenge_result" of ThreeDsSession;
    // Changes of a session that no caller requests: by a browser, a directory server, or expiry.
    NotifyMethod "notify_method" of ThreeDsSession;
    NotifyChallenge "notify_challenge" of ThreeDsSession;
    ReceiveResult "receive_result" of ThreeDsSession;
    ExpireThreeDsSession "expire_threeds_session" of ThreeDsSession;
    // A call of a proxy. The tokens of the call have records of their use.
    InvokeProxy "invoke_proxy" of Proxy;
    ListConnectionFormulas "list_connection_formulas";
    GetCardDetails "get_card_details";
    GetClientPublicKey "get_client_public_key";
    ListLogs "list_logs" of Tenant;
    ListLogEntityTypes "list_log_entity_types";
    GetTenantUsage "get_tenant_usage" of Tenant;
    // In the vault's own chain of records: these concern no tenant, or all tenants.
    CreateVault "create_vault";
    RunCommand "run_command";
    Authenticate "authenticate";
    // A request exhausts a guessing or search budget of its application.
    SpendBudget "spend_budget" of Application;
}

words! {
    /// The type of the entity that a record concerns.
    pub enum EntityType {
        Token = "token",
        TokenIntent = "token_intent",
        Application = "application",
        ApiKey = "api_key",
        Tenant = "tenant",
        AccessSession = "session",
        ThreeDsSession = "3ds_session",
        Proxy = "proxy",
        Webhook = "webhook",
        ClientKey = "client_key",
    }
}

impl EntityType {
    /// The display name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Token => "Token",
            Self::TokenIntent => "Token intent",
            Self::Application => "Application",
            Self::ApiKey => "API key",
            Self::Tenant => "Tenant",
            Self::AccessSession => "Session",
            Self::ThreeDsSession => "3DS session",
            Self::Proxy => "Proxy",
            Self::Webhook => "Webhook",
            Self::ClientKey => "Client encryption key",
        }
    }
}
