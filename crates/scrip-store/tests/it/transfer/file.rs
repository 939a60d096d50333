//! A file that is not as it was written is refused, with the place, and changes nothing.

use std::{fs, io::Cursor};

use scrip_seal::Checksum;
use scrip_store::transfer::{PageBounds, TransferError, check_export};
use scrip_testing::vault_harness::{Engine, VaultHarness};

use crate::transfer::harness::{export_folder, run_export, run_import};

/// Of a vault that has next to nothing.
async fn small_export() -> Vec<u8> {
    let mut harness = VaultHarness::open(Engine::Sqlite).await;
    let (_folder, file) = export_folder();
    run_export(
        &mut *harness.transfer_engine().await,
        &file,
        PageBounds { rows_max: 1, bytes_max: 1 },
    )
    .await
    .unwrap();
    fs::read(&file).unwrap()
}

fn check_bytes(bytes: &[u8]) -> Result<(), TransferError> {
    check_export(Cursor::new(bytes), |_, _| ()).map(drop)
}

#[tokio::test]
async fn changing_any_byte_of_an_export_is_detected() {
    let whole = small_export().await;
    check_bytes(&whole).unwrap();
    for at in 0..whole.len() {
        for bit in [1, 0x80] {
            let mut flipped = whole.clone();
            flipped[at] ^= bit;
            let rejected = check_bytes(&flipped).unwrap_err();
            let place = if let TransferError::Damaged { offset: at, .. }
            | TransferError::Unfinished { offset: at } = rejected
            {
                at
            } else {
                assert!(matches!(rejected, TransferError::NotAnExport), "{rejected:?}");
                0
            };
            assert!(place <= u64::try_from(at).unwrap(), "byte {at}: {place}");
        }
        assert!(check_bytes(&whole[..at]).is_err(), "cut at {at}");
    }
    assert!(check_bytes(&[&whole[..], b"x"].concat()).is_err());
}

#[tokio::test]
async fn importing_a_damaged_file_changes_nothing() {
    let mut whole = small_export().await;
    let (_folder, file) = export_folder();
    let last = whole.len() - 1;
    whole[last] ^= 1;
    fs::write(&file, &whole).unwrap();
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("scrip.db");
    let mut rows = scrip_store::sqlite::transfer::SqliteTransfer::open(&path).unwrap().unwrap();
    let rejected = run_import(&mut rows, &file).await;
    assert!(matches!(rejected, Err(TransferError::Damaged { .. })), "{rejected:?}");
    drop(rows);
    // Nothing was begun.
    scrip_store::SqliteStore::open(&path).unwrap();
}

/// The bodies of its frames.
fn frame_bodies(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    file = &file[MAGIC.len()..];
    while let Some((length, rest)) = file.split_first_chunk() {
        let (body, rest) = rest.split_at(usize::try_from(u32::from_be_bytes(*length)).unwrap());
        all.push(body.to_owned());
        file = &rest[32..];
    }
    all
}

const MAGIC: &[u8] = b"\nscrip export 1\n";

fn checksum(pieces: &[&[u8]]) -> [u8; 32] {
    let mut sum = Checksum::new();
    for piece in pieces {
        sum.add(piece);
    }
    sum.finish()
}

/// A file of these, whose checksums are right.
fn encode_file(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut before = checksum(&[MAGIC]);
    let mut file = MAGIC.to_owned();
    for body in bodies {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        before = checksum(&[&before, &length, body]);
        file.extend_from_slice(&[&length[..], body, &before].concat());
    }
    file
}

/// Somebody who knows how checksums are made gets no further than the next rule.
#[tokio::test]
async fn export_with_forged_frames_is_rejected() {
    let whole = small_export().await;
    let bodies = frame_bodies(&whole);
    assert!(bodies.len() > 4, "a beginning, portions and an end");
    assert_eq!(encode_file(&bodies), whole);
    let rejected = |bodies: &[Vec<u8>], what: &str| {
        assert!(check_bytes(&encode_file(bodies)).is_err(), "{what}");
    };
    let last = bodies.len() - 1;
    rejected(&bodies[..last], "without its end");
    rejected(&[&bodies[..], &bodies[last..]].concat(), "with two ends");
    for at in 1..last {
        rejected(&[&bodies[..at], &bodies[at + 1..]].concat(), "one is missing");
        rejected(&[&bodies[..=at], &bodies[at..]].concat(), "one is there twice");
        let mut swapped = bodies.clone();
        swapped.swap(at, at + 1);
        rejected(&swapped, "two are swapped");
    }
    // Whatever stands in it: a value or an error.
    for (frame, body) in bodies.iter().enumerate() {
        for at in 0..body.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = bodies.clone();
                changed[frame][at] = byte;
                drop(check_bytes(&encode_file(&changed)));
            }
            let mut cut = bodies.clone();
            cut[frame].truncate(at);
            rejected(&cut, "cut");
        }
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_are_rejected_as_an_export(bodies in proptest::collection::vec(
        proptest::collection::vec(proptest::num::u8::ANY, 0..200), 0..4,
    )) {
        assert!(check_bytes(&encode_file(&bodies)).is_err());
        assert!(check_bytes(&bodies.concat()).is_err());
    }
}
