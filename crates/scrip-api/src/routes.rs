//! The route table, and the router made of it.

use std::{future::Future, net::IpAddr, pin::Pin, sync::Arc};

use axum::{
    Router,
    extract::Request,
    response::Response,
    routing::{MethodFilter, MethodRouter, any, get, on, post},
};
use scrip_core::{
    audit::Operation,
    caller::Needs,
    permission::{ApplicationKind, Permission},
};

use crate::{
    app::App,
    callbacks, deprecation,
    handlers::{
        api_keys, applications, connection_formulas, logs, permissions, probes, sessions, tenants,
        threeds, token_intents, tokenize, tokens,
    },
    keyless,
    metrics::Refusal,
    pipeline::{self, Asked},
    problem::Problem,
};

pub(crate) type Handling = Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send>>;

/// One row: everything that is decided about a route, in one place.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub operation: Operation,
    pub(crate) method: MethodFilter,
    pub(crate) path: &'static str,
    pub(crate) needs: Needs,
    pub(crate) body: BodyKind,
    /// How many names the path has.
    pub(crate) ids: usize,
    pub(crate) handler: fn(Asked) -> Handling,
}

/// What a route reads. Routes that read a body and do something honour an idempotency key; the
/// others ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    None,
    /// Whatever comes is passed over, but the idempotency key counts.
    Unread,
    Json,
    /// JSON that changes nothing, or nothing more when it comes twice: there is no answer to
    /// remember.
    Question,
    MergePatch,
}

impl BodyKind {
    /// Whether a response is stored for a request with an idempotency key.
    pub(crate) fn is_idempotent(self) -> bool {
        match self {
            Self::Unread | Self::Json | Self::MergePatch => true,
            Self::None | Self::Question => false,
        }
    }

    /// The one that is read.
    pub(crate) fn content_type(self) -> Option<&'static str> {
        match self {
            Self::None | Self::Unread => Option::None,
            Self::Json | Self::Question => Some("application/json"),
            Self::MergePatch => Some("application/merge-patch+json"),
        }
    }
}

use BodyKind::{Json, MergePatch, None, Question, Unread};

const ANY_KEY: Needs = Needs::Key;
const PUBLIC: Needs = Needs::Kind(ApplicationKind::Public);
const PRIVATE: Needs = Needs::Kind(ApplicationKind::Private);

const fn may(permission: Permission) -> Needs {
    Needs::Permission(permission)
}

#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    route(Operation::CreateToken, MethodFilter::POST, "/tokens", may(Permission::TokenCreate), (Json, tokens::create)),
    route(Operation::GetToken, MethodFilter::GET, "/tokens/{id}", may(Permission::TokenRead), (None, tokens::get)),
    route(Operation::UpdateToken, MethodFilter::PATCH, "/tokens/{id}", may(Permission::TokenUpdate), (MergePatch, tokens::update)),
    route(Operation::DeleteToken, MethodFilter::DELETE, "/tokens/{id}", may(Permission::TokenDelete), (None, tokens::delete)),

    route(Operation::ListTokens, MethodFilter::GET, "/v2/tokens", may(Permission::TokenRead), (None, tokens::list)),
    route(Operation::ListTokensV1, MethodFilter::GET, "/tokens", may(Permission::TokenRead), (None, tokens::list_v1)),
    route(Operation::SearchTokens, MethodFilter::POST, "/v2/tokens/search", may(Permission::TokenSearch), (Question, tokens::search)),
    route(Operation::SearchTokensV1, MethodFilter::POST, "/tokens/search", may(Permission::TokenSearch), (Question, tokens::search_v1)),
    route(Operation::Tokenize, MethodFilter::POST, "/tokenize", may(Permission::TokenCreate), (Json, tokenize::tokenize_body)),
    route(Operation::Detokenize, MethodFilter::POST, "/detokenize", may(Permission::TokenRead), (Question, tokenize::detokenize_body)),

    route(Operation::CreateTokenIntent, MethodFilter::POST, "/token-intents", may(Permission::TokenIntentCreate), (Json, token_intents::create)),
    route(Operation::GetTokenIntent, MethodFilter::GET, "/token-intents/{id}", may(Permission::TokenIntentRead), (None, token_intents::get)),
    route(Operation::DeleteTokenIntent, MethodFilter::DELETE, "/token-intents/{id}", may(Permission::TokenIntentDelete), (None, token_intents::delete)),

    route(Operation::GetTenant, MethodFilter::GET, "/tenants/self", may(Permission::TenantRead), (None, tenants::get)),
    route(Operation::UpdateTenant, MethodFilter::PUT, "/tenants/self", may(Permission::TenantUpdate), (Json, tenants::update)),
    route(Operation::DeleteTenant, MethodFilter::DELETE, "/tenants/self", may(Permission::TenantDelete), (None, tenants::delete)),
    route(Operation::GetTenantQuotas, MethodFilter::GET, "/tenants/self/quotas", may(Permission::TenantRead), (None, tenants::quotas)),
    route(Operation::GetTenantUsage, MethodFilter::GET, "/tenants/self/reports/usage", may(Permission::ReportRead), (None, tenants::usage)),

    route(Operation::CreateApplication, MethodFilter::POST, "/applications", may(Permission::ApplicationCreate), (Json, applications::create)),
    route(Operation::ListApplications, MethodFilter::GET, "/applications", may(Permission::ApplicationRead), (None, applications::list)),
    route(Operation::GetApplicationByKey, MethodFilter::GET, "/applications/key", ANY_KEY, (None, applications::get_by_key)),
    route(Operation::GetApplication, MethodFilter::GET, "/applications/{id}", may(Permission::ApplicationRead), (None, applications::get)),
    route(Operation::UpdateApplication, MethodFilter::PUT, "/applications/{id}", may(Permission::ApplicationUpdate), (Json, applications::update)),
    route(Operation::DeleteApplication, MethodFilter::DELETE, "/applications/{id}", may(Permission::ApplicationDelete), (None, applications::delete)),
    route(Operation::RegenerateApplicationKey, MethodFilter::POST, "/applications/{id}/regenerate", ANY_KEY, (None, deprecation::removed)),
    route(Operation::CreateApiKey, MethodFilter::POST, "/applications/{id}/keys", may(Permission::ApplicationCreate), (Unread, api_keys::create)),
    route(Operation::ListApiKeys, MethodFilter::GET, "/applications/{id}/keys", may(Permission::ApplicationRead), (None, api_keys::list)),
    route(Operation::GetApiKey, MethodFilter::GET, "/applications/{id}/keys/{key_id}", may(Permission::ApplicationRead), (None, api_keys::get)),
    route(Operation::DeleteApiKey, MethodFilter::DELETE, "/applications/{id}/keys/{key_id}", may(Permission::ApplicationDelete), (None, api_keys::delete)),
    route(Operation::ListPermissions, MethodFilter::GET, "/permissions", ANY_KEY, (None, permissions::list)),

    route(Operation::CreateAccessSession, MethodFilter::POST, "/sessions", PUBLIC, (None, sessions::create)),
    route(Operation::AuthorizeAccessSession, MethodFilter::POST, "/sessions/authorize", PRIVATE, (Json, sessions::authorize)),

    route(Operation::CreateSession, MethodFilter::POST, "/3ds/sessions", may(Permission::SessionCreate), (Json, threeds::create)),
    route(Operation::GetSession, MethodFilter::GET, "/3ds/sessions/{id}", may(Permission::SessionRead), (None, threeds::get)),
    route(Operation::UpdateSession, MethodFilter::PUT, "/3ds/sessions/{id}", may(Permission::SessionCreate), (Json, threeds::update)),
    route(Operation::AuthenticateSession, MethodFilter::POST, "/3ds/sessions/{id}/authenticate", may(Permission::SessionAuthenticate), (Json, threeds::authenticate)),
    route(Operation::GetChallengeResult, MethodFilter::GET, "/3ds/sessions/{id}/challenge-result", may(Permission::SessionAuthenticate), (None, threeds::challenge_result)),

    route(Operation::ListLogs, MethodFilter::GET, "/logs", may(Permission::LogRead), (None, logs::list)),
    route(Operation::ListLogEntityTypes, MethodFilter::GET, "/logs/entity-types", may(Permission::LogRead), (None, logs::entity_types)),

    route(Operation::ListConnectionFormulas, MethodFilter::GET, "/orchestration/connection_formulas", may(Permission::ConnectionFormulas), (None, connection_formulas::list)),
    route(Operation::ListConnectionFormulas, MethodFilter::POST, "/orchestration/connection_formulas", may(Permission::ConnectionFormulas), (None, connection_formulas::list)),
    route(Operation::ListConnectionFormulas, MethodFilter::GET, "/orchestration/connection/formulas", may(Permission::ConnectionFormulas), (None, connection_formulas::list)),
    route(Operation::ListConnectionFormulas, MethodFilter::POST, "/orchestration/connection/formulas", may(Permission::ConnectionFormulas), (None, connection_formulas::list)),
];

/// What a test or a document may know of a row.
#[derive(Debug, Clone, Copy)]
pub struct RouteSummary {
    pub operation: Operation,
    pub method: &'static str,
    pub path: &'static str,
    pub needs: Needs,
}

/// Every row of the table.
pub fn routes() -> impl Iterator<Item = RouteSummary> {
    ROUTES.iter().map(|it| RouteSummary {
        operation: it.operation,
        method: method_name(it.method),
        path: it.path,
        needs: it.needs,
    })
}

pub(crate) fn method_name(method: MethodFilter) -> &'static str {
    let known = [
        (MethodFilter::GET, "GET"),
        (MethodFilter::POST, "POST"),
        (MethodFilter::PUT, "PUT"),
        (MethodFilter::PATCH, "PATCH"),
        (MethodFilter::DELETE, "DELETE"),
    ];
    known.into_iter().find(|(it, _)| *it == method).map_or("", |(_, name)| name)
}

const fn route(
    operation: Operation,
    method: MethodFilter,
    path: &'static str,
    needs: Needs,
    (body, handler): (BodyKind, fn(Asked) -> Handling),
) -> Route {
    Route { operation, method, path, needs, body, ids: names(path), handler }
}

pub(crate) const fn names(path: &str) -> usize {
    let mut count = 0_usize;
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'{' {
            count = count.saturating_add(1);
        }
        rest = tail;
    }
    count
}

/// Paths come without a trailing slash: the pipeline has taken it off. `extend` adds routes that are
/// none of the interface.
pub fn router(app: &Arc<App>, extend: impl FnOnce(Router) -> Router) -> Router {
    let mut router = Router::new();
    for row in keyless::KEYLESS {
        let app = Arc::clone(app);
        let handler = move |request: Request| {
            let app = Arc::clone(&app);
            async move { pipeline::run_keyless(app, row, request).await }
        };
        router = router.route(row.path, get(handler));
    }
    for row in callbacks::OUTSIDE {
        let app = Arc::clone(app);
        let handler = move |request: Request| {
            let app = Arc::clone(&app);
            async move { callbacks::run(&app, row, request).await }
        };
        router = router.route(row.path, post(handler));
    }
    for row in ROUTES {
        let app = Arc::clone(app);
        let handler = move |request: Request| {
            let app = Arc::clone(&app);
            async move { pipeline::run(&app, row, request).await }
        };
        router = router.route(row.path, on(row.method, handler));
    }
    extend(router)
        .fallback(refusing(app, Refusal::NoRoute, Problem::NoRoute))
        .method_not_allowed_fallback(refusing(
            app,
            Refusal::MethodNotAllowed,
            Problem::MethodNotAllowed,
        ))
}

/// Answers requests as a connection does, without a socket. For tests.
#[derive(Debug, Clone)]
pub struct InProcess {
    app: Arc<App>,
    router: Router,
}

impl InProcess {
    #[must_use]
    pub fn new(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), router: router(app, |it| it) }
    }

    pub async fn answer(&self, client: IpAddr, request: Request) -> Response {
        pipeline::answer(&self.app.metrics, self.router.clone(), client, request).await
    }
}

/// While the vault is sealed, the process answers that it lives; every other path, known or not, is
/// 503.
pub fn sealed_router(app: &Arc<App>, extend: impl FnOnce(Router) -> Router) -> Router {
    let sealed = || refusing(app, Refusal::Sealed, Problem::Sealed);
    extend(Router::new())
        .route("/healthz", get(probes::healthz))
        .fallback(sealed())
        .method_not_allowed_fallback(sealed())
}

/// Counts whoever comes here, and says the same to all.
pub(crate) fn refusing(app: &Arc<App>, why: Refusal, problem: Problem) -> MethodRouter {
    let (app, problem) = (Arc::clone(app), Arc::new(problem));
    any(async move |request: Request| {
        app.metrics.refused.one(why);
        pipeline::run_nowhere(&app, &problem, request).await
    })
}
