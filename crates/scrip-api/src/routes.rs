//! The route table.

pub mod callbacks;
pub(crate) mod keyless;
pub(crate) mod missing_features;
pub mod router;

use BodyKind::{Ignored, Json, MergePatch, None, OptionalJson, ReadOnlyJson};
use axum::routing::MethodFilter;
use scrip_core::{
    policy::CallerRequirement,
    types::{ApplicationKind, Operation, Permission},
};

use crate::{
    handlers::{
        access_sessions, api_keys, applications, catalogs, logs, proxies,
        tenants::{self, client_keys},
        threeds, token_intents, tokenize, tokens, webhooks,
    },
    problem::Problem,
    route::{AuthenticatedRequest, BodyKind, Handled, HandlerFuture, Route, count_path_parameters},
};

const ANY_KEY: CallerRequirement = CallerRequirement::AnyKey;
const PUBLIC: CallerRequirement = CallerRequirement::Kind(ApplicationKind::Public);
const PRIVATE: CallerRequirement = CallerRequirement::Kind(ApplicationKind::Private);

const fn requires(permission: Permission) -> CallerRequirement {
    CallerRequirement::Permission(permission)
}

#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    route(Operation::CreateToken, MethodFilter::POST, "/tokens", requires(Permission::TokenCreate), Json, |it| Box::pin(tokens::create(it))),
    route(Operation::GetToken, MethodFilter::GET, "/tokens/{id}", requires(Permission::TokenRead), None, |it| Box::pin(tokens::get(it))),
    route(Operation::UpdateToken, MethodFilter::PATCH, "/tokens/{id}", requires(Permission::TokenUpdate), MergePatch, |it| Box::pin(tokens::update(it))),
    route(Operation::DeleteToken, MethodFilter::DELETE, "/tokens/{id}", requires(Permission::TokenDelete), None, |it| Box::pin(tokens::delete(it))),

    route(Operation::ListTokens, MethodFilter::GET, "/v2/tokens", requires(Permission::TokenRead), None, |it| Box::pin(tokens::list(it))),
    route(Operation::ListTokensV1, MethodFilter::GET, "/tokens", requires(Permission::TokenRead), None, |it| Box::pin(tokens::list_v1(it))),
    route(Operation::SearchTokens, MethodFilter::POST, "/v2/tokens/search", requires(Permission::TokenSearch), ReadOnlyJson, |it| Box::pin(tokens::search(it))),
    route(Operation::SearchTokensV1, MethodFilter::POST, "/tokens/search", requires(Permission::TokenSearch), ReadOnlyJson, |it| Box::pin(tokens::search_v1(it))),
    route(Operation::Tokenize, MethodFilter::POST, "/tokenize", requires(Permission::TokenCreate), Json, |it| Box::pin(tokenize::tokenize_body(it))),
    route(Operation::Detokenize, MethodFilter::POST, "/detokenize", requires(Permission::TokenRead), ReadOnlyJson, |it| Box::pin(tokenize::detokenize_body(it))),

    route(Operation::CreateTokenIntent, MethodFilter::POST, "/token-intents", requires(Permission::TokenIntentCreate), Json, |it| Box::pin(token_intents::create(it))),
    route(Operation::GetTokenIntent, MethodFilter::GET, "/token-intents/{id}", requires(Permission::TokenIntentRead), None, |it| Box::pin(token_intents::get(it))),
    route(Operation::DeleteTokenIntent, MethodFilter::DELETE, "/token-intents/{id}", requires(Permission::TokenIntentDelete), None, |it| Box::pin(token_intents::delete(it))),

    route(Operation::GetTenant, MethodFilter::GET, "/tenants/self", requires(Permission::TenantRead), None, |it| Box::pin(tenants::get(it))),
    route(Operation::UpdateTenant, MethodFilter::PUT, "/tenants/self", requires(Permission::TenantUpdate), Json, |it| Box::pin(tenants::update(it))),
    route(Operation::DeleteTenant, MethodFilter::DELETE, "/tenants/self", requires(Permission::TenantDelete), None, |it| Box::pin(tenants::delete(it))),
    route(Operation::GetTenantQuotas, MethodFilter::GET, "/tenants/self/quotas", requires(Permission::TenantRead), None, |it| Box::pin(tenants::get_quotas(it))),
    route(Operation::GetTenantUsage, MethodFilter::GET, "/tenants/self/reports/usage", requires(Permission::ReportRead), None, |it| Box::pin(tenants::get_usage(it))),

    route(Operation::CreateApplication, MethodFilter::POST, "/applications", requires(Permission::ApplicationCreate), Json, |it| Box::pin(applications::create(it))),
    route(Operation::ListApplications, MethodFilter::GET, "/applications", requires(Permission::ApplicationRead), None, |it| Box::pin(applications::list(it))),
    route(Operation::GetApplicationByKey, MethodFilter::GET, "/applications/key", ANY_KEY, None, |it| Box::pin(applications::get_by_key(it))),
    route(Operation::GetApplication, MethodFilter::GET, "/applications/{id}", requires(Permission::ApplicationRead), None, |it| Box::pin(applications::get(it))),
    route(Operation::UpdateApplication, MethodFilter::PUT, "/applications/{id}", requires(Permission::ApplicationUpdate), Json, |it| Box::pin(applications::update(it))),
    route(Operation::DeleteApplication, MethodFilter::DELETE, "/applications/{id}", requires(Permission::ApplicationDelete), None, |it| Box::pin(applications::delete(it))),
    route(Operation::RegenerateApplicationKey, MethodFilter::POST, "/applications/{id}/regenerate", ANY_KEY, None, |it| Box::pin(removed_operation(it))),
    route(Operation::CreateApiKey, MethodFilter::POST, "/applications/{id}/keys", requires(Permission::ApplicationCreate), Ignored, |it| Box::pin(api_keys::create(it))),
    route(Operation::ListApiKeys, MethodFilter::GET, "/applications/{id}/keys", requires(Permission::ApplicationRead), None, |it| Box::pin(api_keys::list(it))),
    route(Operation::GetApiKey, MethodFilter::GET, "/applications/{id}/keys/{key_id}", requires(Permission::ApplicationRead), None, |it| Box::pin(api_keys::get(it))),
    route(Operation::DeleteApiKey, MethodFilter::DELETE, "/applications/{id}/keys/{key_id}", requires(Permission::ApplicationDelete), None, |it| Box::pin(api_keys::delete(it))),
    route(Operation::ListPermissions, MethodFilter::GET, "/permissions", ANY_KEY, None, |it| Box::pin(catalogs::permissions(it))),

    route(Operation::CreateProxy, MethodFilter::POST, "/proxies", requires(Permission::ProxyCreate), Json, |it| Box::pin(proxies::create(it))),
    route(Operation::ListProxies, MethodFilter::GET, "/proxies", requires(Permission::ProxyRead), None, |it| Box::pin(proxies::list(it))),
    route(Operation::GetProxy, MethodFilter::GET, "/proxies/{id}", requires(Permission::ProxyRead), None, |it| Box::pin(proxies::get(it))),
    route(Operation::UpdateProxy, MethodFilter::PUT, "/proxies/{id}", requires(Permission::ProxyUpdate), Json, |it| Box::pin(proxies::update(it))),
    route(Operation::PatchProxy, MethodFilter::PATCH, "/proxies/{id}", requires(Permission::ProxyUpdate), MergePatch, |it| Box::pin(proxies::patch(it))),
    route(Operation::DeleteProxy, MethodFilter::DELETE, "/proxies/{id}", requires(Permission::ProxyDelete), None, |it| Box::pin(proxies::delete(it))),
    route(Operation::SetProxyClientCertificate, MethodFilter::PUT, "/proxies/{id}/client-certificate", requires(Permission::ProxyUpdate), Json, |it| Box::pin(proxies::set_client_certificate(it))),
    route(Operation::DeleteProxyClientCertificate, MethodFilter::DELETE, "/proxies/{id}/client-certificate", requires(Permission::ProxyUpdate), None, |it| Box::pin(proxies::delete_client_certificate(it))),

    route(Operation::CreateClientKey, MethodFilter::POST, "/keys", requires(Permission::KeysCreate), OptionalJson, |it| Box::pin(client_keys::create(it))),
    route(Operation::ListClientKeys, MethodFilter::GET, "/keys", requires(Permission::KeysRead), None, |it| Box::pin(client_keys::list(it))),
    route(Operation::GetClientKey, MethodFilter::GET, "/keys/{id}", requires(Permission::KeysRead), None, |it| Box::pin(client_keys::get(it))),
    route(Operation::GetClientPublicKey, MethodFilter::GET, "/keys/{id}/public-key", ANY_KEY, None, |it| Box::pin(client_keys::get_public_key(it))),
    route(Operation::DeleteClientKey, MethodFilter::DELETE, "/keys/{id}", requires(Permission::KeysDelete), None, |it| Box::pin(client_keys::delete(it))),
    route(Operation::CreateWebhook, MethodFilter::POST, "/webhooks", requires(Permission::WebhookCreate), Json, |it| Box::pin(webhooks::create(it))),
    route(Operation::ListWebhooks, MethodFilter::GET, "/webhooks", requires(Permission::WebhookRead), None, |it| Box::pin(webhooks::list(it))),
    route(Operation::ListWebhookEventTypes, MethodFilter::GET, "/webhooks/event-types", requires(Permission::WebhookRead), None, |it| Box::pin(webhooks::event_types(it))),
    route(Operation::GetWebhook, MethodFilter::GET, "/webhooks/{id}", requires(Permission::WebhookRead), None, |it| Box::pin(webhooks::get(it))),
    route(Operation::UpdateWebhook, MethodFilter::PUT, "/webhooks/{id}", requires(Permission::WebhookUpdate), Json, |it| Box::pin(webhooks::update(it))),
    route(Operation::DeleteWebhook, MethodFilter::DELETE, "/webhooks/{id}", requires(Permission::WebhookDelete), None, |it| Box::pin(webhooks::delete(it))),
    route(Operation::RotateWebhookSecret, MethodFilter::POST, "/webhooks/{id}/secret", requires(Permission::WebhookUpdate), Ignored, |it| Box::pin(webhooks::rotate_secret(it))),
    route(Operation::ListWebhookDeliveries, MethodFilter::GET, "/webhooks/{id}/deliveries", requires(Permission::WebhookRead), None, |it| Box::pin(webhooks::list_deliveries(it))),
    route(Operation::TestWebhook, MethodFilter::POST, "/webhooks/{id}/test", requires(Permission::WebhookUpdate), Ignored, |it| Box::pin(webhooks::test(it))),
    route(Operation::ReplayWebhookDeliveries, MethodFilter::POST, "/webhooks/{id}/replay", requires(Permission::WebhookUpdate), Json, |it| Box::pin(webhooks::replay(it))),

    route(Operation::CreateAccessSession, MethodFilter::POST, "/sessions", PUBLIC, None, |it| Box::pin(access_sessions::create(it))),
    route(Operation::AuthorizeAccessSession, MethodFilter::POST, "/sessions/authorize", PRIVATE, Json, |it| Box::pin(access_sessions::authorize(it))),

    route(Operation::CreateThreeDsSession, MethodFilter::POST, "/3ds/sessions", requires(Permission::ThreeDsSessionCreate), Json, |it| Box::pin(threeds::create(it))),
    route(Operation::GetThreeDsSession, MethodFilter::GET, "/3ds/sessions/{id}", requires(Permission::ThreeDsSessionRead), None, |it| Box::pin(threeds::get(it))),
    route(Operation::UpdateThreeDsSession, MethodFilter::PUT, "/3ds/sessions/{id}", requires(Permission::ThreeDsSessionCreate), Json, |it| Box::pin(threeds::update(it))),
    route(Operation::AuthenticateThreeDsSession, MethodFilter::POST, "/3ds/sessions/{id}/authenticate", requires(Permission::ThreeDsSessionAuthenticate), Json, |it| Box::pin(threeds::authenticate(it))),
    route(Operation::GetChallengeResult, MethodFilter::GET, "/3ds/sessions/{id}/challenge-result", requires(Permission::ThreeDsSessionAuthenticate), None, |it| Box::pin(threeds::get_result(it))),

    route(Operation::GetCardDetails, MethodFilter::GET, "/enrichments/card-details", ANY_KEY, None, |it| Box::pin(catalogs::card_details(it))),

    route(Operation::ListLogs, MethodFilter::GET, "/logs", requires(Permission::LogRead), None, |it| Box::pin(logs::list(it))),
    route(Operation::ListLogEntityTypes, MethodFilter::GET, "/logs/entity-types", requires(Permission::LogRead), None, |it| Box::pin(logs::entity_types(it))),

    route(Operation::ListConnectionFormulas, MethodFilter::GET, "/orchestration/connection_formulas", requires(Permission::ConnectionFormulas), None, |it| Box::pin(catalogs::connection_formulas(it))),
    route(Operation::ListConnectionFormulas, MethodFilter::POST, "/orchestration/connection_formulas", requires(Permission::ConnectionFormulas), None, |it| Box::pin(catalogs::connection_formulas(it))),
    route(Operation::ListConnectionFormulas, MethodFilter::GET, "/orchestration/connection/formulas", requires(Permission::ConnectionFormulas), None, |it| Box::pin(catalogs::connection_formulas(it))),
    route(Operation::ListConnectionFormulas, MethodFilter::POST, "/orchestration/connection/formulas", requires(Permission::ConnectionFormulas), None, |it| Box::pin(catalogs::connection_formulas(it))),
];

/// The handler of removed operations. Unreachable: `deprecation::check_enabled` rejects their
/// requests first.
async fn removed_operation(_request: AuthenticatedRequest) -> Handled {
    Err(Problem::NoRoute)
}

const fn route(
    operation: Operation,
    method: MethodFilter,
    path: &'static str,
    requirement: CallerRequirement,
    body: BodyKind,
    handler: fn(AuthenticatedRequest) -> HandlerFuture,
) -> Route {
    Route {
        operation,
        method,
        path,
        requirement,
        body,
        path_parameter_count: count_path_parameters(path),
        handler,
    }
}
