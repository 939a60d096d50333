//! The description of every operation. A new one does not compile without an arm here.

use scrip_core::audit::Operation;

use crate::wire::{
    application::described as application, described::Description, session::described as session,
    tenant::described as tenant, token::described as token,
};

/// Nothing for what only the operator's command line does.
pub(super) fn describe(operation: Operation) -> Option<Description> {
    let description = match operation {
        Operation::CreateTenant | Operation::SetTenantQuotas | Operation::ImportApiKey => {
            return None;
        }
        Operation::CreateToken => token::create(),
        Operation::GetToken => token::get(),
        Operation::UpdateToken => token::update(),
        Operation::DeleteToken => token::delete(),
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
    };
    Some(description)
}
