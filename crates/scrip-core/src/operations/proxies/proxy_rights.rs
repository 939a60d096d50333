//! The rights that a change of a proxy needs besides those of its route.

use crate::{
    Error, FieldError,
    policy::{PolicyPermit, PolicyRecords},
    types::{ApplicationKind, Permission, error::Denial, id::ApplicationId},
};

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
