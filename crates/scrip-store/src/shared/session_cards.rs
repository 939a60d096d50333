//! The cards that 3-D Secure sessions name, as writes of tokens meet them.

use scrip_core::{
    id::{TenantId, TokenId},
    policy::SignedRow,
    store::StoreError,
    threeds::ConvertedIntent,
    time::Timestamp,
};

use crate::sql::{Execute, Statements, parameters};

const CONVERT_CARD: &str = "
-- convert_session_card
UPDATE sessions SET token = $1, converted_containers = $2, converted_mac = $3,
    converted_number_version = $4
WHERE tenant = $5 AND intent = $6";

/// Names the token that the intent of these sessions became.
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
-- is_named_by_session
SELECT 1 FROM sessions
WHERE tenant = $1 AND token = $2 AND (ends_at IS NULL OR ends_at > $3) LIMIT 1";

pub(crate) const STATEMENTS: &[&str] = &[CONVERT_CARD, FIND_THREEDS_SESSION_USING_TOKEN];

/// Whether a session that lives names a token. Also asked inside the transaction of a write.
pub(crate) async fn is_used_by_threeds_session(
    client: &impl Statements,
    tenant: TenantId,
    token: &TokenId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let found = client
        .find(FIND_THREEDS_SESSION_USING_TOKEN, &parameters![tenant, token, now], |_| Ok(()))
        .await?;
    Ok(found.is_some())
}
