//! A file that is not as it was written is refused, with the place, and changes nothing.

use std::{fs, io::Cursor};

use scrip_store::transfer::{Bounds, MoveError, check};

use crate::{
    transfer_scene::{exported, folder, imported},
    world::{Engine, World},
};

/// Of a vault that has next to nothing.
async fn small() -> Vec<u8> {
    let mut world = World::open(Engine::Sqlite).await;
    let (_folder, file) = folder();
    exported(&mut *world.rows().await, &file, Bounds { rows: 1, bytes: 1 }).await.unwrap();
    fs::read(&file).unwrap()
}

fn outcome(bytes: &[u8]) -> Result<(), MoveError> {
    check(Cursor::new(bytes), |_, _| ()).map(drop)
}

#[tokio::test]
async fn every_byte_counts() {
    let whole = small().await;
    outcome(&whole).unwrap();
    for at in 0..whole.len() {
        for bit in [1, 0x80] {
            let mut flipped = whole.clone();
            flipped[at] ^= bit;
            let refused = outcome(&flipped).unwrap_err();
            let place = match refused {
                MoveError::NoExport => 0,
                MoveError::Damaged { at, .. } | MoveError::Unfinished { at } => at,
                other => panic!("{other:?}"),
            };
            assert!(place <= u64::try_from(at).unwrap(), "byte {at}: {place}");
        }
        assert!(outcome(&whole[..at]).is_err(), "cut at {at}");
    }
    assert!(outcome(&[&whole[..], b"x"].concat()).is_err());
}

#[tokio::test]
async fn a_damaged_file_changes_nothing() {
    let mut whole = small().await;
    let (_folder, file) = folder();
    let last = whole.len() - 1;
    whole[last] ^= 1;
    fs::write(&file, &whole).unwrap();
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("scrip.db");
    let mut rows = scrip_store::sqlite::transfer::SqliteRows::open(&path).unwrap().unwrap();
    let refused = imported(&mut rows, &file).await;
    assert!(matches!(refused, Err(MoveError::Damaged { .. })), "{refused:?}");
    drop(rows);
    // Nothing was begun.
    scrip_store::SqliteStore::open(&path).unwrap();
}
