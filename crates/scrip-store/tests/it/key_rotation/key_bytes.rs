//! The destroyed version of a sealing key leaves no bytes in the files of the embedded engine.

use std::{fs, path::Path};

use rusqlite::Connection;
use scrip_testing::vault_harness::Engine;

use crate::key_rotation::harness::RotationHarness;

const PIECE_BYTES: usize = 16;

/// The wrapped key of a version, without the header that all sealed values have in common.
fn wrapped_key(file: &Path, version: u32) -> Option<Vec<u8>> {
    let connection = Connection::open(file).unwrap();
    let sql = "SELECT wrapped FROM tenant_keys WHERE version = ?1";
    let key: Option<Vec<u8>> = connection.query_row(sql, [version], |row| row.get(0)).ok();
    key.map(|it| it[PIECE_BYTES..].to_vec())
}

/// How many pieces of a key the files of the database have.
fn count_pieces(file: &Path, key: &[u8]) -> usize {
    let pieces: Vec<&[u8]> = key.chunks_exact(PIECE_BYTES).collect();
    let mut count = 0;
    for name in ["scrip.db", "scrip.db-wal", "scrip.db-shm"] {
        let Ok(bytes) = fs::read(file.with_file_name(name)) else { continue };
        count += bytes.windows(PIECE_BYTES).filter(|it| pieces.contains(it)).count();
    }
    count
}

#[tokio::test]
async fn destroyed_version_leaves_no_bytes_on_disk() {
    let harness = RotationHarness::open(Engine::Sqlite).await;
    harness.create_cards(0..3).await;
    let file = harness.vault_harness.file();
    let old_key = wrapped_key(&file, 1).unwrap();
    harness.rotate_rows().await;
    assert!(count_pieces(&file, &old_key) > 0, "the check finds a stored key");
    assert_eq!(harness.finish().await, []);
    assert_eq!(wrapped_key(&file, 1), None);
    assert_eq!(count_pieces(&file, &old_key), 0);
    let new_key = wrapped_key(&file, 2).unwrap();
    assert!(count_pieces(&file, &new_key) > 0);
}
