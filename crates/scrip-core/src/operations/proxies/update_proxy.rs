//! Update Proxy and Patch Proxy: change the attributes that a client chooses, based on the current
//! row.

use std::fmt::{Debug, Formatter};

use crate::{
    Error, FieldError, Vault,
    idempotency::ResponseRecorder,
    policy::{
        PolicyPermit, PolicyRecords, PolicyWrite,
        proxy::{CompiledDraft, ProxyDetails, ProxyDraft},
    },
    policy_change::{PolicyDecision, RowChange, change_policy},
    types::{
        ApplicationKind, Operation, Permission,
        error::Denial,
        id::{ApplicationId, ProxyId},
    },
};

/// Edits the current attributes, so that two concurrent patches both apply. It may run several
/// times, and never inside a transaction.
pub type EditProxy = Box<dyn Fn(&ProxyDetails) -> Result<ProxyDraft, Error> + Send + Sync>;

/// A change of some attributes.
pub struct ProxyPatch {
    /// Whether the patch has attributes that only callers with `proxy:read` see.
    pub names_hidden_attributes: bool,
    pub edit: EditProxy,
}

impl Debug for ProxyPatch {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ProxyPatch").finish_non_exhaustive()
    }
}

/// Replaces all attributes.
/// Errors: there is no such proxy, the request is invalid, or the change needs
/// `application:update`.
pub async fn update_proxy(
    vault: &Vault,
    permit: PolicyPermit,
    id: ProxyId,
    draft: CompiledDraft,
    recorder: Option<ResponseRecorder<ProxyDetails>>,
) -> Result<ProxyDetails, Error> {
    let names_hidden_attributes = draft.names_hidden_attributes();
    let change = RowChange { permit, operation: Operation::UpdateProxy, id };
    let edit = move |_: &ProxyDetails| Ok(draft.clone());
    edit_proxy(vault, change, names_hidden_attributes, edit, recorder).await
}

/// Changes some attributes. Transforms and certificates of the patch are compiled on the way to the
/// transaction; those that the proxy already has are not compiled again.
///
/// Errors: there is no such proxy, the request is invalid, or the change needs
/// `application:update`.
pub async fn patch_proxy(
    vault: &Vault,
    permit: PolicyPermit,
    id: ProxyId,
    patch: ProxyPatch,
    recorder: Option<ResponseRecorder<ProxyDetails>>,
) -> Result<ProxyDetails, Error> {
    let ProxyPatch { names_hidden_attributes, edit } = patch;
    let change = RowChange { permit, operation: Operation::PatchProxy, id };
    let edit = move |details: &ProxyDetails| {
        let draft = edit(details)?;
        Ok(draft.compile(Some(&details.draft()))?)
    };
    edit_proxy(vault, change, names_hidden_attributes, edit, recorder).await
}

async fn edit_proxy(
    vault: &Vault,
    change: RowChange<ProxyId>,
    names_hidden_attributes: bool,
    edit: impl Fn(&ProxyDetails) -> Result<CompiledDraft, Error> + Send,
    recorder: Option<ResponseRecorder<ProxyDetails>>,
) -> Result<ProxyDetails, Error> {
    let (permit, id) = (change.permit.clone(), change.id);
    rewrite_proxy(vault, change, recorder, move |records, details| {
        // Otherwise a caller without the right to read could try values of these attributes. Checked
        // before the change is applied: whether it is valid depends on the current values too.
        if names_hidden_attributes && !has_permission(&permit, records, Permission::ProxyRead) {
            check_application_update(&permit, records)?;
        }
        let draft = edit(details)?;
        let current = details.draft();
        if draft.redirects(&current) {
            check_application_update(&permit, records)?;
        }
        // An application that was deleted later may stay.
        if draft.application != current.application {
            check_application(records, draft.application)?;
        }
        let has_new_patterns = draft.pattern_bytes().is_some();
        details.apply(draft);
        if has_new_patterns {
            let others = records.proxies.iter().map(|it| &it.record).filter(|it| it.id != id);
            details.settings.check_compiled_bytes(&permit.tenant().keys, others)?;
        }
        Ok(())
    })
    .await
}

/// Changes the row of a proxy, based on the current row.
pub(crate) async fn rewrite_proxy(
    vault: &Vault,
    change: RowChange<ProxyId>,
    recorder: Option<ResponseRecorder<ProxyDetails>>,
    mut edit: impl FnMut(&PolicyRecords, &mut ProxyDetails) -> Result<(), Error> + Send,
) -> Result<ProxyDetails, Error> {
    let RowChange { permit, operation, id } = change;
    let now = vault.clock.now();
    let change_permit = permit.clone();
    change_policy(vault, permit, operation, now, recorder, move |records| {
        let row = records.proxies.iter().find(|it| it.record.id == id).ok_or(Error::NotFound)?;
        let keys = &change_permit.tenant().keys;
        let mut details = ProxyDetails::open(keys, row.record.clone())?;
        edit(records, &mut details)?;
        details.record.modified = Some(change_permit.change_stamp(now));
        let writes = vec![PolicyWrite::put(details.seal(keys)?)];
        Ok(PolicyDecision { writes, entity: id.to_string(), outcome: details })
    })
    .await
}

/// Checks `application:update` in the rows on which the change is decided. The operator needs no permission.
/// Errors: the caller does not have the permission.
pub(crate) fn check_application_update(
    permit: &PolicyPermit,
    records: &PolicyRecords,
) -> Result<(), Error> {
    let is_granted = has_permission(permit, records, Permission::ApplicationUpdate);
    let denial = Denial::NeedsApplicationUpdate;
    is_granted.then_some(()).ok_or(Error::Forbidden(denial))
}

/// Whether the caller has a permission, in the rows of the transaction. The operator has all.
pub(crate) fn has_permission(
    permit: &PolicyPermit,
    records: &PolicyRecords,
    permission: Permission,
) -> bool {
    let Some(caller) = permit.caller() else { return true };
    let application = records.applications.iter().find(|it| it.record.id == caller.application());
    application.is_some_and(|it| it.record.access.grants(permission))
}

/// Checks that the application can lend its rights to a proxy.
/// Errors: the application does not exist, or is a management application, which has no rights on
/// tokens.
pub(crate) fn check_application(
    records: &PolicyRecords,
    application: Option<ApplicationId>,
) -> Result<(), Error> {
    let Some(id) = application else { return Ok(()) };
    let record = records.applications.iter().map(|it| &it.record).find(|it| it.id == id);
    let is_usable = record.is_some_and(|it| it.kind != ApplicationKind::Management);
    let rule = "must be a public or private application of this tenant";
    is_usable.then_some(()).ok_or_else(|| FieldError::new("application.id", rule).into())
}
