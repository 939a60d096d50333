//! The clock watermark: the latest known time, for the next start.

use scrip_core::{
    audit::SignedWatermark,
    types::{StoreError, time::ClockWatermark},
};
use scrip_seal::Mac;

use crate::sql::{ColumnReader, Execute, Statements, parameters, read_required};

const SAVE_WATERMARK: &str = "
-- save_watermark
INSERT INTO clock_watermark (singleton, now, earliest, mac) VALUES (1, $1, $2, $3)
ON CONFLICT (singleton) DO UPDATE SET now = $1, earliest = $2, mac = $3";

pub(crate) async fn save_watermark(
    client: &impl Execute,
    watermark: SignedWatermark,
) -> Result<(), StoreError> {
    let ClockWatermark { now, earliest } = watermark.watermark;
    client.execute(SAVE_WATERMARK, &parameters![now, earliest, &watermark.mac]).await.map(drop)
}

const LOAD_WATERMARK: &str = "
-- load_watermark
SELECT now, earliest, mac FROM clock_watermark";

pub(crate) async fn load_watermark(
    client: &impl Statements,
) -> Result<Option<SignedWatermark>, StoreError> {
    client.find(LOAD_WATERMARK, &[], decode_watermark).await
}

/// Decodes a watermark. A MAC that cannot be decoded becomes an invalid MAC.
fn decode_watermark(row: &dyn ColumnReader) -> Result<SignedWatermark, StoreError> {
    let watermark =
        ClockWatermark { now: read_required(row, 0)?, earliest: read_required(row, 1)? };
    Ok(SignedWatermark { watermark, mac: read_required(row, 2).unwrap_or(Mac([0; 32])) })
}
