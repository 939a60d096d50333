//! A file that is not as it was written is refused, with the place, and changes nothing.

use std::{fs, io::Cursor};

use scrip_seal::Checksum;
use scrip_store::transfer::{Bounds, MoveError, check};
use scrip_testing::vault_harness::{Engine, VaultHarness};

use crate::transfer::harness::{exported, folder, imported};

/// Of a vault that has next to nothing.
async fn small() -> Vec<u8> {
    let mut world = VaultHarness::open(Engine::Sqlite).await;
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
            let place =
                if let MoveError::Damaged { at, .. } | MoveError::Unfinished { at } = refused {
                    at
                } else {
                    assert!(matches!(refused, MoveError::NoExport), "{refused:?}");
                    0
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

/// The bodies of its frames.
fn bodies(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    file = &file[MARK.len()..];
    while let Some((length, rest)) = file.split_first_chunk() {
        let (body, rest) = rest.split_at(usize::try_from(u32::from_be_bytes(*length)).unwrap());
        all.push(body.to_owned());
        file = &rest[32..];
    }
    all
}

const MARK: &[u8] = b"\nscrip export 1\n";

fn sum(pieces: &[&[u8]]) -> [u8; 32] {
    let mut sum = Checksum::new();
    for piece in pieces {
        sum.add(piece);
    }
    sum.finish()
}

/// A file of these, whose checksums are right.
fn forged(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut before = sum(&[MARK]);
    let mut file = MARK.to_owned();
    for body in bodies {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        before = sum(&[&before, &length, body]);
        file.extend_from_slice(&[&length[..], body, &before].concat());
    }
    file
}

/// Somebody who knows how checksums are made gets no further than the next rule.
#[tokio::test]
async fn whoever_forges_a_file_finds_it_read_strictly() {
    let whole = small().await;
    let bodies = bodies(&whole);
    assert!(bodies.len() > 4, "a beginning, portions and an end");
    assert_eq!(forged(&bodies), whole);
    let refused = |bodies: &[Vec<u8>], what: &str| {
        assert!(outcome(&forged(bodies)).is_err(), "{what}");
    };
    let last = bodies.len() - 1;
    refused(&bodies[..last], "without its end");
    refused(&[&bodies[..], &bodies[last..]].concat(), "with two ends");
    for at in 1..last {
        refused(&[&bodies[..at], &bodies[at + 1..]].concat(), "one is missing");
        refused(&[&bodies[..=at], &bodies[at..]].concat(), "one is there twice");
        let mut swapped = bodies.clone();
        swapped.swap(at, at + 1);
        refused(&swapped, "two are swapped");
    }
    // Whatever stands in it: a value or an error.
    for (frame, body) in bodies.iter().enumerate() {
        for at in 0..body.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = bodies.clone();
                changed[frame][at] = byte;
                drop(outcome(&forged(&changed)));
            }
            let mut cut = bodies.clone();
            cut[frame].truncate(at);
            refused(&cut, "cut");
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_give_an_error(bodies in proptest::collection::vec(
        proptest::collection::vec(proptest::num::u8::ANY, 0..200), 0..4,
    )) {
        assert!(outcome(&forged(&bodies)).is_err());
        assert!(outcome(&bodies.concat()).is_err());
    }
}
