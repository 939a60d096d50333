//! Idempotency records.

use scrip_core::{
    idempotency::{IdempotencyLookup, StoredResponse},
    types::StoreError,
};

use crate::{
    postgres::PostgresStore,
    shared::idempotency::{decode_stored_response, decode_stored_token_data},
    sql::{ColumnReader, Statements, parameters, read_optional},
};

/// One row per token in the response, or one row without token data.
const FIND_RESPONSE: &str = "
-- find_stored_response
SELECT it.head, it.created_at, token_data.write_index, token_data.id, token_data.containers,
    token_data.sealed
FROM idempotency_records AS it LEFT JOIN LATERAL (
    SELECT response_token_data.write_index, tokens.id, tokens.containers, response_token_data.sealed
    FROM response_token_data
    JOIN tokens ON tokens.tenant = response_token_data.tenant
        AND tokens.number = response_token_data.token
    WHERE response_token_data.tenant = it.tenant AND response_token_data.digest = it.digest
        AND (tokens.expires_at IS NULL OR tokens.expires_at > $4)
) AS token_data ON true
WHERE it.tenant = $1 AND it.digest = $2 AND it.created_at > $3
ORDER BY token_data.write_index";

impl PostgresStore {
    pub(crate) async fn find_stored_response(
        &self,
        lookup: IdempotencyLookup,
    ) -> Result<Option<StoredResponse>, StoreError> {
        let IdempotencyLookup { tenant, digest, now, since } = lookup;
        let decode = |row: &dyn ColumnReader| {
            let token_data = read_optional::<i64>(row, 2)?
                .map(|_| decode_stored_token_data(row, 2))
                .transpose()?;
            Ok((decode_stored_response(row, digest)?, token_data))
        };
        let key = parameters![tenant, &digest, since, now];
        let rows = self.for_tenant(tenant).query(FIND_RESPONSE, &key, decode).await?;
        let (mut responses, token_data): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        let token_data = token_data.into_iter().flatten().collect();
        Ok(responses.pop().map(|response| StoredResponse { token_data, ..response }))
    }
}
