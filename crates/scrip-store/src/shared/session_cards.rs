//! The cards that 3DS sessions use, as token writes access them.

use scrip_core::{
    Timestamp,
    policy::SignedRow,
    threeds::ConvertedIntent,
    types::{
        StoreError,
        id::{TenantId, TokenId},
    },
};

use crate::sql::{Execute, Statements, parameters};

const CONVERT_CARD: &str = "
-- convert_session_card
UPDATE threeds_sessions SET token = $1, converted_containers = $2, converted_mac = $3,
    converted_number_version = $4
WHERE tenant = $5 AND intent = $6";

/// Replaces the token intent of these sessions by the token that it became.
pub(crate) async fn convert_card(
    transaction: &impl Execute,
    converted: &SignedRow<ConvertedIntent>,
) -> Result<(), StoreError> {
    let record = &converted.record;
    let row = parameters![
        &record.token,
        record.containers.to_text(),
        &converted.mac,
        record.number_version,
        record.tenant,
        record.intent,
    ];
    transaction.execute(CONVERT_CARD, &row).await.map(drop)
}

const FIND_THREEDS_SESSION_USING_TOKEN: &str = "
-- is_used_by_threeds_session
SELECT 1 FROM threeds_sessions
WHERE tenant = $1 AND token = $2 AND (deletes_at IS NULL OR deletes_at > $3) LIMIT 1";

/// Whether a live session uses a token. Also called in the transaction of a write.
pub(crate) async fn is_used_by_threeds_session(
    client: &impl Statements,
    tenant: TenantId,
    token: &TokenId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let session_row = client
        .find(FIND_THREEDS_SESSION_USING_TOKEN, &parameters![tenant, token, now], |_| Ok(()))
        .await?;
    Ok(session_row.is_some())
}
