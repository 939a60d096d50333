//! How late it was, for the next start.

use scrip_core::{audit::SignedWatermark, store::StoreError, time::ClockWatermark};
use scrip_seal::Mac;

use crate::sql::{ColumnReader, Execute, Statements, parameters, required};

const SAVE_WATERMARK: &str = "
-- note_time
INSERT INTO clock_state (one, now, earliest, mac) VALUES (1, $1, $2, $3)
ON CONFLICT (one) DO UPDATE SET now = $1, earliest = $2, mac = $3";

pub(crate) async fn save_watermark(
    client: &impl Execute,
    watermark: SignedWatermark,
) -> Result<(), StoreError> {
    let ClockWatermark { now, earliest } = watermark.watermark;
    client.execute(SAVE_WATERMARK, &parameters![now, earliest, &watermark.mac]).await.map(drop)
}

const LOAD_WATERMARK: &str = "
-- known_time
SELECT now, earliest, mac FROM clock_state";

pub(crate) async fn load_watermark(
    client: &impl Statements,
) -> Result<Option<SignedWatermark>, StoreError> {
    client.find(LOAD_WATERMARK, &[], decode_watermark).await
}

/// A mac that cannot be read is no mac of ours.
fn decode_watermark(row: &dyn ColumnReader) -> Result<SignedWatermark, StoreError> {
    let time = ClockWatermark { now: required(row, 0)?, earliest: required(row, 1)? };
    Ok(SignedWatermark { watermark: time, mac: required(row, 2).unwrap_or(Mac([0; 32])) })
}
