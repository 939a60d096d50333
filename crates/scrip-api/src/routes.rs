//! The route tables and the router.

pub mod callbacks;

use std::{net::IpAddr, sync::Arc};

use BodyKind::{Ignored, Json, MergePatch, None, OptionalJson, ReadOnlyJson};
use axum::{
    Router,
    body::Body,
    extract::Request,
    response::Response,
    routing::{MethodFilter, MethodRouter, any, get, on, post},
};
use bytes::Bytes;
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue, LOCATION, X_CONTENT_TYPE_OPTIONS},
};
use scrip_core::{
    policy::CallerRequirement,
    types::{ApplicationKind, MissingFeature, Operation, Permission},
};

use crate::{
    app::{App, readiness::NotReadyReason},
    handlers::{
        access_sessions, api_keys, applications, catalogs, logs,
        pages::{self, html},
        probes, proxies,
        tenants::{self, client_keys},
        threeds, token_intents, tokens, webhooks,
    },
    metrics::UnroutedReason,
    openapi,
    pipeline::{self, MatchedRoute},
    problem::Problem,
    proxy::call::CallEntry,
    route::{
        AddressLimit, AuthenticatedRequest, BodyKind, Handled, HandlerFuture, KeylessRoute,
        ResponseFuture, Route, count_path_parameters, is_proxy_path,
    },
    trace_id::TraceId,
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
    route(Operation::Tokenize, MethodFilter::POST, "/tokenize", requires(Permission::TokenCreate), Json, |it| Box::pin(tokens::tokenize_body(it))),
    route(Operation::Detokenize, MethodFilter::POST, "/detokenize", requires(Permission::TokenRead), ReadOnlyJson, |it| Box::pin(tokens::detokenize_body(it))),

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

/// Proxied calls. A wildcard matches at least one character.
const PROXY_PATHS: [&str; 3] = ["/proxy", "/proxy/", "/proxy/{*path}"];

/// Builds the router. The pipeline has already removed trailing slashes from other paths. `extend` adds
/// routes that are not part of the API.
pub fn router(app: &Arc<App>, extend: impl FnOnce(Router) -> Router) -> Router {
    let run = |route: MatchedRoute| {
        let app = Arc::clone(app);
        async move |request: Request| pipeline::run_route(&app, &route, request).await
    };
    let mut router = Router::new();
    for route in KEYLESS_ROUTES {
        router = router.route(route.path, get(run(MatchedRoute::Keyless(route))));
    }
    for route in callbacks::CALLBACKS {
        router = router.route(route.path, post(run(MatchedRoute::Callback(route))));
    }
    for path in PROXY_PATHS {
        router = router.route(path, any(run(MatchedRoute::Proxy(CallEntry::Path))));
    }
    for route in ROUTES {
        router = router.route(route.path, on(route.method, run(MatchedRoute::Keyed(route))));
    }
    extend(router).fallback(reject_unmatched(app)).method_not_allowed_fallback(reject_all(
        app,
        UnroutedReason::MethodNotAllowed,
        Problem::MethodNotAllowed,
    ))
}

/// Serves requests without a socket, the same way a connection does. For tests.
#[derive(Debug, Clone)]
pub struct InProcessServer {
    app: Arc<App>,
    router: Router,
}

impl InProcessServer {
    pub fn new(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), router: router(app, |it| it) }
    }

    pub async fn respond(&self, client: IpAddr, request: Request) -> Response {
        pipeline::serve_api_request(&self.app, self.router.clone(), client, request).await
    }
}

/// The router of a vault that is sealed or may have an outdated policy: `/healthz` works, every
/// other path, known or not, responds with 503.
pub fn rejecting_router(app: &Arc<App>, extend: impl FnOnce(Router) -> Router) -> Router {
    let reject = || {
        let app = Arc::clone(app);
        any(async move |request: Request| {
            let reason = app.rejection_reason().unwrap_or(NotReadyReason::Starting);
            let label = match reason.is_sealed() {
                true => UnroutedReason::Sealed,
                false => UnroutedReason::StoreUnreachable,
            };
            app.metrics.unrouted.increment(label);
            // Proxied calls have errors of their own form.
            let route = match is_proxy_path(request.uri().path()) {
                true => MatchedRoute::Proxy(CallEntry::Path),
                false => MatchedRoute::Unmatched(Arc::new(Problem::NotReady(reason))),
            };
            pipeline::run_route(&app, &route, request).await
        })
    };
    extend(Router::new())
        .route("/healthz", get(probes::healthz))
        .fallback(reject())
        .method_not_allowed_fallback(reject())
}

/// Counts every request that no route matches. The path alone decides between the problems, so the
/// response is the same with and without an API key.
fn reject_unmatched(app: &Arc<App>) -> MethodRouter {
    let app = Arc::clone(app);
    any(async move |request: Request| {
        app.metrics.unrouted.increment(UnroutedReason::NoRoute);
        let feature = find_missing_feature(request.uri().path());
        let problem = feature.map_or(Problem::NoRoute, Problem::MissingFeature);
        let route = MatchedRoute::Unmatched(Arc::new(problem));
        pipeline::run_route(&app, &route, request).await
    })
}

/// Counts every request, and responds to all of them with the same problem.
pub(crate) fn reject_all(app: &Arc<App>, reason: UnroutedReason, problem: Problem) -> MethodRouter {
    let (app, route) = (Arc::clone(app), MatchedRoute::Unmatched(Arc::new(problem)));
    any(async move |request: Request| {
        app.metrics.unrouted.increment(reason);
        pipeline::run_route(&app, &route, request).await
    })
}

/// Each path stands for itself and for all paths below it.
const PATHS: &[(&str, MissingFeature)] = &[
    ("/reactors", MissingFeature::Reactors),
    ("/reactor-formulas", MissingFeature::Reactors),
    ("/documents", MissingFeature::Documents),
    ("/enrichments/bank-account-verify", MissingFeature::BankAccountVerification),
    ("/google-pay", MissingFeature::GooglePay),
    ("/apple-pay", MissingFeature::ApplePay),
    ("/account-updater", MissingFeature::AccountUpdater),
    ("/network-tokens", MissingFeature::NetworkTokenRequests),
    ("/roles", MissingFeature::People),
    ("/invitations", MissingFeature::People),
    ("/tenants/self/members", MissingFeature::People),
    ("/tenants/self/invitations", MissingFeature::People),
    ("/tenants/self/owner", MissingFeature::People),
    ("/tenants/self/security-contact", MissingFeature::People),
    ("/tenants/self/connections", MissingFeature::Connections),
    ("/connections", MissingFeature::Connections),
    ("/application-templates", MissingFeature::ApplicationTemplates),
];

/// Finds the missing feature of a path that no route matches.
pub(crate) fn find_missing_feature(path: &str) -> Option<MissingFeature> {
    let covers = |parent: &str| {
        path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    PATHS.iter().find(|(parent, _)| covers(parent)).map(|(_, feature)| *feature)
}

/// The routes that need no API key: probes, API description, framed pages.
#[rustfmt::skip]
pub(crate) const KEYLESS_ROUTES: &[KeylessRoute] = &[
    KeylessRoute { address_limit: AddressLimit::Exempt, path: "/healthz", handler: |_, _| Box::pin(probes::healthz()) },
    KeylessRoute { address_limit: AddressLimit::Exempt, path: "/readyz", handler: readyz },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/ping", handler: |_, _| ready_response(probes::ping_response()) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/openapi.json", handler: |_, _| ready_response(document_response()) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/", handler: |_, _| ready_response(redirect_to_docs()) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/docs", handler: |_, _| ready_response(html::html_response(openapi::html(), POLICY)) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/docs/style.css", handler: |_, _| ready_response(style_response()) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/.well-known/webhooks.v1.key", handler: webhook_key },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/pages/method.html", handler: |app, _| ready_response(pages::method_page(app.vault.fill_random)) },
    KeylessRoute { address_limit: AddressLimit::Counted, path: "/pages/challenge.html", handler: |app, _| ready_response(pages::challenge_page(app.vault.fill_random)) },
];

fn webhook_key(app: Arc<App>, trace: TraceId) -> ResponseFuture {
    Box::pin(async move { webhooks::webhook_key(&app, &trace).await })
}

fn ready_response(response: Response) -> ResponseFuture {
    Box::pin(std::future::ready(response))
}

fn readyz(app: Arc<App>, trace: TraceId) -> ResponseFuture {
    Box::pin(async move { probes::readyz(&app, &trace).await })
}

/// For a person who opens the address of the server in a browser. Not permanent, so that browsers do
/// not remember it.
fn redirect_to_docs() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/docs"));
    response
}

fn document_response() -> Response {
    response_with_type(openapi::json(), "application/json; charset=utf-8")
}

/// The page loads only our own stylesheet, and no other site can put it into a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

fn style_response() -> Response {
    response_with_type(Bytes::from_static(openapi::STYLE.as_bytes()), "text/css; charset=utf-8")
}

fn response_with_type(body: Bytes, content_type: &'static str) -> Response {
    let mut response = Response::new(Body::from(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use std::option::Option::None;

    use super::*;

    #[test]
    fn missing_features_are_found_by_whole_path_segments() {
        let cases = [
            ("/proxy", None),
            ("/proxies/x/y", None),
            ("/reactors/x/react-async", Some(MissingFeature::Reactors)),
            ("/tenants/self/members", Some(MissingFeature::People)),
            ("/invitations/x/resend", Some(MissingFeature::People)),
            ("/webhooks/x/y", None),
            ("/documents", Some(MissingFeature::Documents)),
            ("/documentsx", None),
            ("/tenants/self/nothing", None),
            ("/tokens/proxy", None),
            ("/", None),
        ];
        for (path, expected) in cases {
            assert_eq!(find_missing_feature(path), expected, "{path}");
        }
    }

    #[test]
    fn every_missing_feature_has_a_path() {
        for feature in MissingFeature::ALL {
            assert!(PATHS.iter().any(|(_, it)| *it == feature), "{}", feature.as_str());
        }
    }
}
