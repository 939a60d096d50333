//! The state of dual control and its requests.

use scrip_core::{
    approval::{
        ApprovalChange, ApprovalRecord, DualControlRecord, StoredApprovals, StoredDualControl,
    },
    change::ChangeOutcome,
    types::StoreError,
};

use crate::sql::{ColumnReader, Execute, Statements, parameters, read_optional, read_required};

const FIND_DUAL_CONTROL: &str = "
-- find_dual_control
SELECT is_on, sequence, members, changed_at, mac FROM dual_control WHERE singleton = 1";

const LIST_APPROVALS: &str = "
-- list_approvals
SELECT id, action, requested_by, requested_at, expires_at, approved_by, approved_at, mac
FROM approvals ORDER BY requested_at, id";

pub(crate) async fn load_approvals(
    client: &impl Statements,
) -> Result<StoredApprovals, StoreError> {
    // The requests first: a request that another node adds in between is only missing.
    let rows = client.query(LIST_APPROVALS, &[], |row| Ok(decode_approval(row).ok())).await?;
    let dual_control = find_dual_control(client).await?;
    let unreadable = rows.iter().filter(|it| it.is_none()).count();
    Ok(StoredApprovals { dual_control, requests: rows.into_iter().flatten().collect(), unreadable })
}

pub(crate) async fn find_dual_control(
    client: &impl Statements,
) -> Result<StoredDualControl, StoreError> {
    let row = client.find(FIND_DUAL_CONTROL, &[], |row| {
        let record = decode_dual_control(row);
        Ok(record.map_or(StoredDualControl::Unreadable, StoredDualControl::Present))
    });
    Ok(row.await?.unwrap_or_default())
}

fn decode_dual_control(row: &dyn ColumnReader) -> Result<DualControlRecord, StoreError> {
    Ok(DualControlRecord {
        is_on: read_required(row, 0)?,
        sequence: read_required(row, 1)?,
        members: read_required(row, 2)?,
        changed_at: read_required(row, 3)?,
        mac: read_required(row, 4)?,
    })
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

pub(crate) async fn change_approvals(
    transaction: &impl Execute,
    change: &ApprovalChange,
) -> Result<ChangeOutcome, StoreError> {
    let DualControlRecord { is_on, sequence, members, changed_at, mac } = &change.dual_control;
    let row = parameters![*is_on, *sequence, members, *changed_at, mac];
    let written = match &change.expected {
        StoredDualControl::Missing => transaction.execute(INSERT_DUAL_CONTROL, &row).await?,
        StoredDualControl::Unreadable => {
            transaction.execute(DELETE_DUAL_CONTROL, &[]).await?;
            transaction.execute(INSERT_DUAL_CONTROL, &row).await?
        }
        StoredDualControl::Present(expected) => {
            let row = parameters![*is_on, *sequence, members, *changed_at, mac, &expected.mac];
            transaction.execute(UPDATE_DUAL_CONTROL, &row).await?
        }
    };
    if written != 1 {
        return Ok(ChangeOutcome::Stale);
    }
    for id in &change.deleted {
        transaction.execute(DELETE_APPROVAL, &parameters![id.text()]).await?;
    }
    if let Some(it) = &change.put {
        let row = parameters![
            it.id.text(),
            it.action.text(),
            it.requested_by,
            it.requested_at,
            it.expires_at,
            it.approved_by,
            it.approved_at,
            &it.mac,
        ];
        transaction.execute(PUT_APPROVAL, &row).await?;
    }
    Ok(ChangeOutcome::Done)
}
