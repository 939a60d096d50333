//! The description of every operation. A new one does not compile without an arm here.

use scrip_core::audit::Operation;

use crate::wire::{
    connection_formula::described as connection_formula,
    described::Description,
    log::described as log,
    policy::{
        application::described as application, session::described as session,
        tenant::described as tenant, usage::described as usage,
    },
    threeds::described as threeds,
    tokens::{
        detokenize::described as detokenize, list::described as list, search::described as search,
        token::described as token, token_intent::described as token_intent,
        tokenize::described as tokenize,
    },
};

/// Nothing for what only the operator's command line does.
pub(super) fn describe(operation: Operation) -> Option<Description> {
    let description = match operation {
        Operation::CreateTenant
        | Operation::SetTenantQuotas
        | Operation::RestoreTenant
        | Operation::ImportApiKey
        | Operation::ListAccessSessions
        | Operation::RevokeAccessSession
        | Operation::ExpireToken
        | Operation::ExpireTokenIntent
        | Operation::ConvertTokenIntent
        | Operation::ExpireSession
        | Operation::DetokenizeTokenIntent
        | Operation::UseToken
        | Operation::UseTokenIntent
        | Operation::CreateVault
        | Operation::RunCommand
        | Operation::Authenticate
        | Operation::SpendBudget => {
            return None;
        }
        Operation::CreateToken => token::create(),
        Operation::GetToken => token::get(),
        Operation::UpdateToken => token::update(),
        Operation::DeleteToken => token::delete(),
        Operation::ListTokens => list::by_cursor(),
        Operation::ListTokensV1 => list::by_number(),
        Operation::SearchTokens => search::by_cursor(),
        Operation::SearchTokensV1 => search::by_number(),
        Operation::Tokenize => tokenize::tokenize(),
        Operation::Detokenize => detokenize::detokenize(),
        Operation::CreateTokenIntent => token_intent::create(),
        Operation::GetTokenIntent => token_intent::get(),
        Operation::DeleteTokenIntent => token_intent::delete(),
        Operation::GetTenant => tenant::get(),
        Operation::UpdateTenant => tenant::update(),
        Operation::DeleteTenant => tenant::delete(),
        Operation::GetTenantQuotas => tenant::quotas(),
        Operation::CreateApplication => application::create(),
        Operation::ListApplications => application::list_all(),
        Operation::GetApplication => application::get(),
        Operation::GetApplicationByKey => application::get_by_key(),
        Operation::UpdateApplication => application::update(),
        Operation::DeleteApplication => application::delete(),
        Operation::RegenerateApplicationKey => application::regenerate(),
        Operation::CreateApiKey => application::create_key(),
        Operation::ListApiKeys => application::list_keys(),
        Operation::GetApiKey => application::get_key(),
        Operation::DeleteApiKey => application::delete_key(),
        Operation::ListPermissions => application::permissions(),
        Operation::CreateAccessSession => session::create(),
        Operation::AuthorizeAccessSession => session::authorize(),
        Operation::CreateSession => threeds::create(),
        Operation::GetSession => threeds::get(),
        Operation::UpdateSession => threeds::update(),
        Operation::AuthenticateSession => threeds::authenticate(),
        Operation::GetChallengeResult => threeds::challenge_result(),
        Operation::NotifyMethod => threeds::notify_method(),
        Operation::NotifyChallenge => threeds::notify_challenge(),
        Operation::ReceiveResult => threeds::receive_result(),
        Operation::ListLogs => log::list_all(),
        Operation::ListLogEntityTypes => log::entity_types(),
        Operation::GetTenantUsage => usage::get(),
        Operation::ListConnectionFormulas => connection_formula::list_all(),
    };
    Some(description)
}
