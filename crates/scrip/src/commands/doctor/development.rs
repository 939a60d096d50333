//! Warns of what is left from development: a vault with only test tenants, and the keys of
//! `scrip dev`, whose secrets stay valid.

use scrip_core::{policy::Directory, types::TenantKind};
use scrip_server::{config::Settings, control::status::query_status};

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

pub(super) fn check_dev_keys(settings: &Settings) -> Option<Finding> {
    let status = query_status(&settings.storage.data_dir);
    // A running `scrip dev` uses the file.
    if status.is_some_and(|it| it.is_development) {
        return None;
    }
    describe_dev_keys(settings).map(|it| warning("dev keys", it))
}

/// The problem of a file with the keys of `scrip dev`, if there is one in the data directory.
pub(crate) fn describe_dev_keys(settings: &Settings) -> Option<String> {
    let file = settings.dev_keys_file();
    file.exists().then(|| {
        format!(
            "{} has three API keys in clear, which open applications that `scrip dev` created. If \
             `scrip dev` no longer uses this vault, delete these applications (scrip application \
             list, scrip application delete) and the file",
            file.display()
        )
    })
}
