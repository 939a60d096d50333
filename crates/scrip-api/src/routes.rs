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
        api_keys, applications, catalogs, logs, sessions, tenants, threeds, token_intents,
        tokenize, tokens,
    },
    problem::Problem,
    route::{Asked, BodyKind, Handled, Handling, Route, names},
};

const ANY_KEY: Needs = Needs::Key;
const PUBLIC: Needs = Needs::Kind(ApplicationKind::Public);
const PRIVATE: Needs = Needs::Kind(ApplicationKind::Private);

const fn may(permission: Permission) -> Needs {
    Needs::Permission(permission)
}

#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    route(Operation::CreateToken, MethodFilter::POST, "/tokens", may(Permission::TokenCreate), Json, |it| Box::pin(tokens::create(it))),
    route(Operation::GetToken, MethodFilter::GET, "/tokens/{id}", may(Permission::TokenRead), None, |it| Box::pin(tokens::get(it))),
    route(Operation::UpdateToken, MethodFilter::PATCH, "/tokens/{id}", may(Permission::TokenUpdate), MergePatch, |it| Box::pin(tokens::update(it))),
    route(Operation::DeleteToken, MethodFilter::DELETE, "/tokens/{id}", may(Permission::TokenDelete), None, |it| Box::pin(tokens::delete(it))),

    route(Operation::ListTokens, MethodFilter::GET, "/v2/tokens", may(Permission::TokenRead), None, |it| Box::pin(tokens::list(it))),
    route(Operation::ListTokensV1, MethodFilter::GET, "/tokens", may(Permission::TokenRead), None, |it| Box::pin(tokens::list_v1(it))),
    route(Operation::SearchTokens, MethodFilter::POST, "/v2/tokens/search", may(Permission::TokenSearch), Question, |it| Box::pin(tokens::search(it))),
    route(Operation::SearchTokensV1, MethodFilter::POST, "/tokens/search", may(Permission::TokenSearch), Question, |it| Box::pin(tokens::search_v1(it))),
    route(Operation::Tokenize, MethodFilter::POST, "/tokenize", may(Permission::TokenCreate), Json, |it| Box::pin(tokenize::tokenize_body(it))),
    route(Operation::Detokenize, MethodFilter::POST, "/detokenize", may(Permission::TokenRead), Question, |it| Box::pin(tokenize::detokenize_body(it))),

    route(Operation::CreateTokenIntent, MethodFilter::POST, "/token-intents", may(Permission::TokenIntentCreate), Json, |it| Box::pin(token_intents::create(it))),
    route(Operation::GetTokenIntent, MethodFilter::GET, "/token-intents/{id}", may(Permission::TokenIntentRead), None, |it| Box::pin(token_intents::get(it))),
    route(Operation::DeleteTokenIntent, MethodFilter::DELETE, "/token-intents/{id}", may(Permission::TokenIntentDelete), None, |it| Box::pin(token_intents::delete(it))),

    route(Operation::GetTenant, MethodFilter::GET, "/tenants/self", may(Permission::TenantRead), None, |it| Box::pin(tenants::get(it))),
    route(Operation::UpdateTenant, MethodFilter::PUT, "/tenants/self", may(Permission::TenantUpdate), Json, |it| Box::pin(tenants::update(it))),
    route(Operation::DeleteTenant, MethodFilter::DELETE, "/tenants/self", may(Permission::TenantDelete), None, |it| Box::pin(tenants::delete(it))),
    route(Operation::GetTenantQuotas, MethodFilter::GET, "/tenants/self/quotas", may(Permission::TenantRead), None, |it| Box::pin(tenants::quotas(it))),
    route(Operation::GetTenantUsage, MethodFilter::GET, "/tenants/self/reports/usage", may(Permission::ReportRead), None, |it| Box::pin(tenants::usage(it))),

    route(Operation::CreateApplication, MethodFilter::POST, "/applications", may(Permission::ApplicationCreate), Json, |it| Box::pin(applications::create(it))),
    route(Operation::ListApplications, MethodFilter::GET, "/applications", may(Permission::ApplicationRead), None, |it| Box::pin(applications::list(it))),
    route(Operation::GetApplicationByKey, MethodFilter::GET, "/applications/key", ANY_KEY, None, |it| Box::pin(applications::get_by_key(it))),
    route(Operation::GetApplication, MethodFilter::GET, "/applications/{id}", may(Permission::ApplicationRead), None, |it| Box::pin(applications::get(it))),
    route(Operation::UpdateApplication, MethodFilter::PUT, "/applications/{id}", may(Permission::ApplicationUpdate), Json, |it| Box::pin(applications::update(it))),
    route(Operation::DeleteApplication, MethodFilter::DELETE, "/applications/{id}", may(Permission::ApplicationDelete), None, |it| Box::pin(applications::delete(it))),
    route(Operation::RegenerateApplicationKey, MethodFilter::POST, "/applications/{id}/regenerate", ANY_KEY, None, |it| Box::pin(removed(it))),
    route(Operation::CreateApiKey, MethodFilter::POST, "/applications/{id}/keys", may(Permission::ApplicationCreate), Unread, |it| Box::pin(api_keys::create(it))),
    route(Operation::ListApiKeys, MethodFilter::GET, "/applications/{id}/keys", may(Permission::ApplicationRead), None, |it| Box::pin(api_keys::list(it))),
    route(Operation::GetApiKey, MethodFilter::GET, "/applications/{id}/keys/{key_id}", may(Permission::ApplicationRead), None, |it| Box::pin(api_keys::get(it))),
    route(Operation::DeleteApiKey, MethodFilter::DELETE, "/applications/{id}/keys/{key_id}", may(Permission::ApplicationDelete), None, |it| Box::pin(api_keys::delete(it))),
    route(Operation::ListPermissions, MethodFilter::GET, "/permissions", ANY_KEY, None, |it| Box::pin(catalogs::permissions(it))),

    route(Operation::CreateAccessSession, MethodFilter::POST, "/sessions", PUBLIC, None, |it| Box::pin(sessions::create(it))),
    route(Operation::AuthorizeAccessSession, MethodFilter::POST, "/sessions/authorize", PRIVATE, Json, |it| Box::pin(sessions::authorize(it))),

    route(Operation::CreateSession, MethodFilter::POST, "/3ds/sessions", may(Permission::SessionCreate), Json, |it| Box::pin(threeds::create(it))),
    route(Operation::GetSession, MethodFilter::GET, "/3ds/sessions/{id}", may(Permission::SessionRead), None, |it| Box::pin(threeds::get(it))),
    route(Operation::UpdateSession, MethodFilter::PUT, "/3ds/sessions/{id}", may(Permission::SessionCreate), Json, |it| Box::pin(threeds::update(it))),
    route(Operation::AuthenticateSession, MethodFilter::POST, "/3ds/sessions/{id}/authenticate", may(Permission::SessionAuthenticate), Json, |it| Box::pin(threeds::authenticate(it))),
    route(Operation::GetChallengeResult, MethodFilter::GET, "/3ds/sessions/{id}/challenge-result", may(Permission::SessionAuthenticate), None, |it| Box::pin(threeds::challenge_result(it))),

    route(Operation::ListLogs, MethodFilter::GET, "/logs", may(Permission::LogRead), None, |it| Box::pin(logs::list(it))),
    route(Operation::ListLogEntityTypes, MethodFilter::GET, "/logs/entity-types", may(Permission::LogRead), None, |it| Box::pin(logs::entity_types(it))),

    route(Operation::ListConnectionFormulas, MethodFilter::GET, "/orchestration/connection_formulas", may(Permission::ConnectionFormulas), None, |it| Box::pin(catalogs::connection_formulas(it))),
    route(Operation::ListConnectionFormulas, MethodFilter::POST, "/orchestration/connection_formulas", may(Permission::ConnectionFormulas), None, |it| Box::pin(catalogs::connection_formulas(it))),
    route(Operation::ListConnectionFormulas, MethodFilter::GET, "/orchestration/connection/formulas", may(Permission::ConnectionFormulas), None, |it| Box::pin(catalogs::connection_formulas(it))),
    route(Operation::ListConnectionFormulas, MethodFilter::POST, "/orchestration/connection/formulas", may(Permission::ConnectionFormulas), None, |it| Box::pin(catalogs::connection_formulas(it))),
];

/// The handler of what was removed. Nobody comes this far: its row in the table of deprecations has
/// refused them.
async fn removed(_asked: Asked) -> Handled {
    Err(Problem::NoRoute)
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
