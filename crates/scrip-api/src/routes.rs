//! The route table.

pub mod callbacks;
pub(crate) mod keyless;

use BodyKind::{Json, MergePatch, None, Question, Unread};
use axum::routing::MethodFilter;
use scrip_core::{
    audit::Operation,
    policy::{ApplicationKind, Needs, Permission},
};

use crate::{
    handlers::{
        api_keys, applications, connection_formulas, logs, permissions, sessions, tenants, threeds,
        token_intents, tokenize, tokens,
    },
    problem::Problem,
    route::{Asked, BodyKind, Handling, Route, method_name, names},
};

const ANY_KEY: Needs = Needs::Key;
const PUBLIC: Needs = Needs::Kind(ApplicationKind::Public);
const PRIVATE: Needs = Needs::Kind(ApplicationKind::Private);

const fn may(permission: Permission) -> Needs {
    Needs::Permission(permission)
}

#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    route(Operation::CreateToken, MethodFilter::POST, "/tokens", may(Permission::TokenCreate), Json, tokens::create),
    route(Operation::GetToken, MethodFilter::GET, "/tokens/{id}", may(Permission::TokenRead), None, tokens::get),
    route(Operation::UpdateToken, MethodFilter::PATCH, "/tokens/{id}", may(Permission::TokenUpdate), MergePatch, tokens::update),
    route(Operation::DeleteToken, MethodFilter::DELETE, "/tokens/{id}", may(Permission::TokenDelete), None, tokens::delete),

    route(Operation::ListTokens, MethodFilter::GET, "/v2/tokens", may(Permission::TokenRead), None, tokens::list),
    route(Operation::ListTokensV1, MethodFilter::GET, "/tokens", may(Permission::TokenRead), None, tokens::list_v1),
    route(Operation::SearchTokens, MethodFilter::POST, "/v2/tokens/search", may(Permission::TokenSearch), Question, tokens::search),
    route(Operation::SearchTokensV1, MethodFilter::POST, "/tokens/search", may(Permission::TokenSearch), Question, tokens::search_v1),
    route(Operation::Tokenize, MethodFilter::POST, "/tokenize", may(Permission::TokenCreate), Json, tokenize::tokenize_body),
    route(Operation::Detokenize, MethodFilter::POST, "/detokenize", may(Permission::TokenRead), Question, tokenize::detokenize_body),

    route(Operation::CreateTokenIntent, MethodFilter::POST, "/token-intents", may(Permission::TokenIntentCreate), Json, token_intents::create),
    route(Operation::GetTokenIntent, MethodFilter::GET, "/token-intents/{id}", may(Permission::TokenIntentRead), None, token_intents::get),
    route(Operation::DeleteTokenIntent, MethodFilter::DELETE, "/token-intents/{id}", may(Permission::TokenIntentDelete), None, token_intents::delete),

    route(Operation::GetTenant, MethodFilter::GET, "/tenants/self", may(Permission::TenantRead), None, tenants::get),
    route(Operation::UpdateTenant, MethodFilter::PUT, "/tenants/self", may(Permission::TenantUpdate), Json, tenants::update),
    route(Operation::DeleteTenant, MethodFilter::DELETE, "/tenants/self", may(Permission::TenantDelete), None, tenants::delete),
    route(Operation::GetTenantQuotas, MethodFilter::GET, "/tenants/self/quotas", may(Permission::TenantRead), None, tenants::quotas),
    route(Operation::GetTenantUsage, MethodFilter::GET, "/tenants/self/reports/usage", may(Permission::ReportRead), None, tenants::usage),

    route(Operation::CreateApplication, MethodFilter::POST, "/applications", may(Permission::ApplicationCreate), Json, applications::create),
    route(Operation::ListApplications, MethodFilter::GET, "/applications", may(Permission::ApplicationRead), None, applications::list),
    route(Operation::GetApplicationByKey, MethodFilter::GET, "/applications/key", ANY_KEY, None, applications::get_by_key),
    route(Operation::GetApplication, MethodFilter::GET, "/applications/{id}", may(Permission::ApplicationRead), None, applications::get),
    route(Operation::UpdateApplication, MethodFilter::PUT, "/applications/{id}", may(Permission::ApplicationUpdate), Json, applications::update),
    route(Operation::DeleteApplication, MethodFilter::DELETE, "/applications/{id}", may(Permission::ApplicationDelete), None, applications::delete),
    route(Operation::RegenerateApplicationKey, MethodFilter::POST, "/applications/{id}/regenerate", ANY_KEY, None, removed),
    route(Operation::CreateApiKey, MethodFilter::POST, "/applications/{id}/keys", may(Permission::ApplicationCreate), Unread, api_keys::create),
    route(Operation::ListApiKeys, MethodFilter::GET, "/applications/{id}/keys", may(Permission::ApplicationRead), None, api_keys::list),
    route(Operation::GetApiKey, MethodFilter::GET, "/applications/{id}/keys/{key_id}", may(Permission::ApplicationRead), None, api_keys::get),
    route(Operation::DeleteApiKey, MethodFilter::DELETE, "/applications/{id}/keys/{key_id}", may(Permission::ApplicationDelete), None, api_keys::delete),
    route(Operation::ListPermissions, MethodFilter::GET, "/permissions", ANY_KEY, None, permissions::list),

    route(Operation::CreateAccessSession, MethodFilter::POST, "/sessions", PUBLIC, None, sessions::create),
    route(Operation::AuthorizeAccessSession, MethodFilter::POST, "/sessions/authorize", PRIVATE, Json, sessions::authorize),

    route(Operation::CreateSession, MethodFilter::POST, "/3ds/sessions", may(Permission::SessionCreate), Json, threeds::create),
    route(Operation::GetSession, MethodFilter::GET, "/3ds/sessions/{id}", may(Permission::SessionRead), None, threeds::get),
    route(Operation::UpdateSession, MethodFilter::PUT, "/3ds/sessions/{id}", may(Permission::SessionCreate), Json, threeds::update),
    route(Operation::AuthenticateSession, MethodFilter::POST, "/3ds/sessions/{id}/authenticate", may(Permission::SessionAuthenticate), Json, threeds::authenticate),
    route(Operation::GetChallengeResult, MethodFilter::GET, "/3ds/sessions/{id}/challenge-result", may(Permission::SessionAuthenticate), None, threeds::challenge_result),

    route(Operation::ListLogs, MethodFilter::GET, "/logs", may(Permission::LogRead), None, logs::list),
    route(Operation::ListLogEntityTypes, MethodFilter::GET, "/logs/entity-types", may(Permission::LogRead), None, logs::entity_types),

    route(Operation::ListConnectionFormulas, MethodFilter::GET, "/orchestration/connection_formulas", may(Permission::ConnectionFormulas), None, connection_formulas::list),
    route(Operation::ListConnectionFormulas, MethodFilter::POST, "/orchestration/connection_formulas", may(Permission::ConnectionFormulas), None, connection_formulas::list),
    route(Operation::ListConnectionFormulas, MethodFilter::GET, "/orchestration/connection/formulas", may(Permission::ConnectionFormulas), None, connection_formulas::list),
    route(Operation::ListConnectionFormulas, MethodFilter::POST, "/orchestration/connection/formulas", may(Permission::ConnectionFormulas), None, connection_formulas::list),
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

/// The handler of what was removed. Nobody comes this far: its row in the table of deprecations has
/// refused them.
fn removed(_asked: Asked) -> Handling {
    Box::pin(std::future::ready(Err(Problem::NoRoute)))
}

const fn route(
    operation: Operation,
    method: MethodFilter,
    path: &'static str,
    needs: Needs,
    body: BodyKind,
    handler: fn(Asked) -> Handling,
) -> Route {
    Route { operation, method, path, needs, body, ids: names(path), handler }
}
