//! A damaged export file is rejected with the position of the damage, and nothing is changed.

use std::{fs, io::Cursor};

use scrip_seal::Checksum;
use scrip_store::transfer::{PageBounds, RowKind, TransferError, check_export};
use scrip_testing::vault_harness::{Engine, VaultHarness};

use crate::transfer::harness::{export_folder, run_export, run_import};

/// Exports an almost empty vault.
async fn export_small_vault() -> Vec<u8> {
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
    let export_bytes = export_small_vault().await;
    check_bytes(&export_bytes).unwrap();
    for index in 0..export_bytes.len() {
        for bit in [1, 0x80] {
            let mut flipped = export_bytes.clone();
            flipped[index] ^= bit;
            let error = check_bytes(&flipped).unwrap_err();
            let offset = if let TransferError::Damaged { offset, .. }
            | TransferError::Unfinished { offset } = error
            {
                offset
            } else {
                assert!(matches!(error, TransferError::NotAnExport), "{error:?}");
                0
            };
            // A changed version number is detected at the first frame, because the checksum of the
            // frame covers it.
            let offset_max = index.max(MAGIC.len());
            assert!(offset <= u64::try_from(offset_max).unwrap(), "byte {index}: offset {offset}");
        }
        assert!(check_bytes(&export_bytes[..index]).is_err(), "truncated at {index}");
    }
    assert!(check_bytes(&[&export_bytes[..], b"x"].concat()).is_err());
}

#[tokio::test]
async fn importing_a_damaged_file_changes_nothing() {
    let mut export_bytes = export_small_vault().await;
    let (_folder, file) = export_folder();
    let last_index = export_bytes.len() - 1;
    export_bytes[last_index] ^= 1;
    fs::write(&file, &export_bytes).unwrap();
    let target = tempfile::tempdir().unwrap();
    let path = target.path().join("scrip.db");
    let mut engine = scrip_store::sqlite::transfer::SqliteTransfer::open(&path).unwrap().unwrap();
    let outcome = run_import(&mut engine, &file).await;
    assert!(matches!(outcome, Err(TransferError::Damaged { .. })), "{outcome:?}");
    drop(engine);
    // No import was started.
    scrip_store::SqliteStore::open(&path).unwrap();
}

/// The first version has events of 3DS sessions, which are deliveries now.
#[tokio::test]
async fn export_of_the_first_version_is_imported_without_its_events() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scrip/tests/serve/upgrade/earlier_vault");
    let file = std::path::Path::new(folder).join("export");
    for engine in [Engine::Sqlite, Engine::Postgres] {
        let mut harness = VaultHarness::without_vault(engine).await;
        let mut transfer = harness.transfer_engine().await;
        let imported = run_import(&mut *transfer, &file).await.unwrap();
        assert!(imported.summary.count(RowKind::ThreeDsEvents) > 0);
        let token_count = imported.summary.count(RowKind::Tokens);
        transfer.begin_reading().await.unwrap();
        assert_eq!(transfer.count_rows(RowKind::Tokens).await.unwrap(), token_count);
        assert_eq!(transfer.count_rows(RowKind::ThreeDsEvents).await.unwrap(), 0);
        assert_eq!(transfer.count_rows(RowKind::Deliveries).await.unwrap(), 0);
        transfer.end_reading().await.unwrap();
        drop(transfer);
        harness.reopen().await;
    }
}

/// The bodies of the frames of a file.
fn frame_bodies(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    file = &file[MAGIC.len()..];
    while let Some((length, rest)) = file.split_first_chunk() {
        let (body, rest) = rest.split_at(usize::try_from(u32::from_be_bytes(*length)).unwrap());
        bodies.push(body.to_owned());
        file = &rest[32..];
    }
    bodies
}

const MAGIC: &[u8] = b"\nscrip export 7\n";

fn checksum(pieces: &[&[u8]]) -> [u8; 32] {
    let mut sum = Checksum::new();
    for piece in pieces {
        sum.add(piece);
    }
    sum.finish()
}

/// Encodes a file of these frames with correct checksums.
fn encode_file(bodies: &[Vec<u8>]) -> Vec<u8> {
    let mut last_checksum = checksum(&[MAGIC]);
    let mut file = MAGIC.to_owned();
    for body in bodies {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        last_checksum = checksum(&[&last_checksum, &length, body]);
        file.extend_from_slice(&[&length[..], body, &last_checksum].concat());
    }
    file
}

/// Correct checksums do not help an attacker: the next check rejects the file.
#[tokio::test]
async fn export_with_forged_frames_is_rejected() {
    let export_bytes = export_small_vault().await;
    let bodies = frame_bodies(&export_bytes);
    assert!(bodies.len() > 4, "the file should have a header, portions and an end");
    assert_eq!(encode_file(&bodies), export_bytes);
    let assert_rejected = |bodies: &[Vec<u8>], case: &str| {
        assert!(check_bytes(&encode_file(bodies)).is_err(), "{case}");
    };
    let last_index = bodies.len() - 1;
    assert_rejected(&bodies[..last_index], "no end frame");
    assert_rejected(&[&bodies[..], &bodies[last_index..]].concat(), "two end frames");
    for index in 1..last_index {
        assert_rejected(&[&bodies[..index], &bodies[index + 1..]].concat(), "missing frame");
        assert_rejected(&[&bodies[..=index], &bodies[index..]].concat(), "repeated frame");
        let mut swapped = bodies.clone();
        swapped.swap(index, index + 1);
        assert_rejected(&swapped, "swapped frames");
    }
    // Arbitrary bytes: decoding returns a value or an error.
    for (frame, body) in bodies.iter().enumerate() {
        for index in 0..body.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut changed = bodies.clone();
                changed[frame][index] = byte;
                drop(check_bytes(&encode_file(&changed)));
            }
            let mut truncated = bodies.clone();
            truncated[frame].truncate(index);
            assert_rejected(&truncated, "truncated frame");
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
