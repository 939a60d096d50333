//! Warns of a vault that has only test tenants.

use scrip_core::policy::{Directory, TenantKind};
use scrip_server::config::Settings;

use crate::commands::doctor::finding::{Finding, warning};

/// The type of a tenant cannot change, so real cards in a test tenant have to move to another one.
/// A vault of `scrip dev` has its test tenant on purpose. The type in altered rows is unknown.
pub(super) fn check_tenant_types(settings: &Settings, directory: &Directory) -> Option<Finding> {
    let tenants = directory.tenants();
    let is_test = |it: TenantKind| it == TenantKind::Test;
    if tenants.is_empty()
        || !tenants.iter().all(|it| is_test(it.kind))
        || !directory.alterations().is_empty()
        || settings.dev_keys_file().exists()
    {
        return None;
    }
    Some(warning(
        "tenant types",
        "only test tenants exist, which are not for real cards, and the type cannot change. For \
         real cards run: scrip tenant create NAME --type production",
    ))
}
