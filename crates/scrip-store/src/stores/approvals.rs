//! The state of dual control and its requests.

use scrip_core::{
    approval::{
        ApprovalChange, ApprovalRecord, DualControlRecord, StoredApprovals, StoredDualControl,
    },
    change::ChangeOutcome,
    store::ApprovalStore,
    types::{StoreError, StoreFuture, id::TenantId},
};

use crate::{
    shared::policy::unlock_rows::find_dual_control,
    sql::{ColumnReader, Execute, Statements, parameters, read_optional, read_required},
};

const LIST_APPROVALS: &str = "
-- list_approvals
SELECT id, action, requested_by, requested_at, expires_at, approved_by, approved_at, mac
FROM approvals ORDER BY requested_at, id";

const INSERT_DUAL_CONTROL: &str = "
-- insert_dual_control
INSERT INTO dual_control (singleton, is_on, sequence, members, changed_at, mac)
    VALUES (1, $1, $2, $3, $4, $5) ON CONFLICT (singleton) DO NOTHING";

/// The statement waits for another writer of the row, and then finds another MAC.
const UPDATE_DUAL_CONTROL: &str = "
-- update_dual_control
UPDATE dual_control SET is_on = $1, sequence = $2, members = $3, changed_at = $4, mac = $5
WHERE mac = $6";

const DELETE_DUAL_CONTROL: &str = "
-- delete_dual_control
DELETE FROM dual_control";

const PUT_APPROVAL: &str = "
-- put_approval
INSERT INTO approvals (id, action, requested_by, requested_at, expires_at, approved_by, approved_at,
    mac)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE SET action = excluded.action, requested_by = excluded.requested_by,
    requested_at = excluded.requested_at, expires_at = excluded.expires_at,
    approved_by = excluded.approved_by, approved_at = excluded.approved_at, mac = excluded.mac";

const DELETE_APPROVAL: &str = "
-- delete_approval
DELETE FROM approvals WHERE id = $1";

for_both_engines! {
impl ApprovalStore {
    fn load_approvals(&self) -> StoreFuture<'_, StoredApprovals> {
        Box::pin(async move {
            let client = self.for_all_tenants();
            // The requests first: a request that another node adds in between is only missing.
            let rows = client.query(LIST_APPROVALS, &[], |row| Ok(decode_approval(row).ok())).await?;
            let dual_control = find_dual_control(&client).await?;
            let unreadable = rows.iter().filter(|it| it.is_none()).count();
            Ok(StoredApprovals { dual_control, requests: rows.into_iter().flatten().collect(), unreadable })
        })
    }

    fn change_approvals(&self, change: ApprovalChange) -> StoreFuture<'_, ChangeOutcome> {
        Box::pin(self.write(TenantId::VAULT, async move |it| {
            let DualControlRecord { is_on, sequence, members, changed_at, mac } = &change.dual_control;
            let row = parameters![*is_on, *sequence, members, *changed_at, mac];
            let written = match &change.expected {
                StoredDualControl::Missing => it.execute(INSERT_DUAL_CONTROL, &row).await?,
                StoredDualControl::Unreadable => {
                    it.execute(DELETE_DUAL_CONTROL, &[]).await?;
                    it.execute(INSERT_DUAL_CONTROL, &row).await?
                }
                StoredDualControl::Present(expected) => {
                    let row = parameters![*is_on, *sequence, members, *changed_at, mac, &expected.mac];
                    it.execute(UPDATE_DUAL_CONTROL, &row).await?
                }
            };
            if written != 1 {
                return Ok(ChangeOutcome::Stale);
            }
            for id in &change.deleted {
                it.execute(DELETE_APPROVAL, &parameters![id.text()]).await?;
            }
            if let Some(approval) = &change.put {
                let row = parameters![
                    approval.id.text(),
                    approval.action.text(),
                    approval.requested_by,
                    approval.requested_at,
                    approval.expires_at,
                    approval.approved_by,
                    approval.approved_at,
                    &approval.mac,
                ];
                it.execute(PUT_APPROVAL, &row).await?;
            }
            Ok(ChangeOutcome::Done)
        }))
    }
}
}

fn decode_approval(row: &dyn ColumnReader) -> Result<ApprovalRecord, StoreError> {
    Ok(ApprovalRecord {
        id: read_required(row, 0)?,
        action: read_required(row, 1)?,
        requested_by: read_required(row, 2)?,
        requested_at: read_required(row, 3)?,
        expires_at: read_required(row, 4)?,
        approved_by: read_optional(row, 5)?,
        approved_at: read_optional(row, 6)?,
        mac: read_required(row, 7)?,
    })
}
