//! Keys die on time, in memory and in their file.

use std::{fs, os::unix::fs::PermissionsExt};

use super::*;

const MINUTE: i64 = 60_000;
const EPOCH: Duration = Duration::from_secs(60);

fn sealed(keys: &EpochKeys, ends_ms: i64) -> Sealed {
    keys.seal(&Place::new("cvc"), &Secret::new(b"123".to_vec()), ends_ms).unwrap()
}

fn open(keys: &EpochKeys, sealed: &Sealed) -> Option<Vec<u8>> {
    match keys.open(&Place::new("cvc"), sealed, 0).unwrap() {
        OpenEpoch::Open(secret) => Some(secret.expose().to_vec()),
        OpenEpoch::Gone => None,
        OpenEpoch::Unasked => unreachable!("these are not shared"),
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|it| it == part)
}

#[test]
fn a_value_outlives_its_end_by_no_more_than_an_epoch() {
    let cases = [
        (10 * MINUTE, 11 * MINUTE),
        (10 * MINUTE + 1, 11 * MINUTE),
        (11 * MINUTE - 1, 11 * MINUTE),
    ];
    for (ends, dies) in cases {
        let keys = EpochKeys::in_memory(EPOCH);
        let sealed = sealed(&keys, ends);
        assert_eq!(keys.next_end_ms(), Some(dies));
        for (now, expected) in [(0, true), (ends, true), (dies - 1, true), (dies, false)] {
            keys.destroy_ended(now).unwrap();
            assert_eq!(open(&keys, &sealed).is_some(), expected, "of {ends} at {now}");
        }
        assert!(dies - ends <= MINUTE);
        assert_eq!(keys.next_end_ms(), None);
    }
}

#[test]
fn a_restart_loses_the_value_and_tells_it_from_tampering() {
    let keys = EpochKeys::in_memory(EPOCH);
    let sealed = sealed(&keys, 5);
    let after = EpochKeys::in_memory(EPOCH);
    assert_eq!(open(&after, &sealed), None);

    let mut bytes = sealed.as_bytes().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    assert!(keys.open(&Place::new("cvc"), &Sealed::from_stored(bytes), 5).is_err());
}

#[test]
fn a_file_keeps_keys_over_a_restart_until_they_are_destroyed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epochs");
    let keys = EpochKeys::in_file(EPOCH, &path).unwrap();
    let (short, long) = (sealed(&keys, 5), sealed(&keys, 5 * MINUTE));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    assert!(matches!(EpochKeys::in_file(EPOCH, &path), Err(EpochFileError::InUse)));
    drop(keys);

    // Another length of epochs changes nothing for what is there.
    let after = EpochKeys::in_file(EPOCH * 7, &path).unwrap();
    assert!(open(&after, &short).is_some() && open(&after, &long).is_some());
    after.destroy_ended(MINUTE).unwrap();
    drop(after);
    let after = EpochKeys::in_file(EPOCH, &path).unwrap();
    assert!(open(&after, &short).is_none() && open(&after, &long).is_some());
    after.destroy_ended(i64::MAX).unwrap();
    drop(after);
    assert!(open(&EpochKeys::in_file(EPOCH, &path).unwrap(), &long).is_none());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the file and its lock");
}

/// A file that was replaced is still there for whoever has it open, and its pages until they are
/// used again: so it is overwritten too.
#[test]
fn what_is_destroyed_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epochs");
    let keys = EpochKeys::in_file(EPOCH, &path).unwrap();
    drop(sealed(&keys, 5));
    let secret = keys.state().keys.values().next().unwrap().bytes().unwrap().expose().to_vec();
    assert!(contains(&fs::read(&path).unwrap(), &secret), "the control");
    let held = folder.path().join("held");
    fs::hard_link(&path, &held).unwrap();

    keys.destroy_ended(MINUTE).unwrap();
    for file in [&path, &held] {
        assert!(!contains(&fs::read(file).unwrap(), &secret), "{}", file.display());
    }
}

#[test]
fn a_file_that_cannot_be_written_anew_is_wiped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epochs");
    let keys = EpochKeys::in_file(EPOCH, &path).unwrap();
    let (short, long) = (sealed(&keys, 5), sealed(&keys, 5 * MINUTE));
    // A draft that is a folder is in the way.
    fs::create_dir_all(path.with_extension("draft").join("within")).unwrap();
    assert!(keys.destroy_ended(MINUTE).is_err());
    assert!(fs::read(&path).unwrap().iter().all(|it| *it == 0));
    assert!(open(&keys, &short).is_none() && open(&keys, &long).is_some());
    // As soon as it can, it keeps what is left.
    fs::remove_dir_all(path.with_extension("draft")).unwrap();
    keys.destroy_ended(MINUTE).unwrap();
    drop(keys);
    assert!(open(&EpochKeys::in_file(EPOCH, &path).unwrap(), &long).is_some());
}

#[test]
fn a_file_of_somebody_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epochs");
    let refused = |bytes: &[u8], mode: u32| {
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        EpochKeys::in_file(EPOCH, &path).unwrap_err().to_string()
    };
    drop(EpochKeys::in_file(EPOCH, &path).unwrap());
    let whole = fs::read(&path).unwrap();
    assert!(refused(&whole, 0o640).contains("read by others"));
    assert!(refused(b"something else", 0o600).contains("not one of ours"));
    assert!(refused(&[whole.as_slice(), b"x"].concat(), 0o600).contains("not one of ours"));
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).unwrap();
    assert!(EpochKeys::in_file(EPOCH, &path).unwrap_err().to_string().contains("plain file"));
}
