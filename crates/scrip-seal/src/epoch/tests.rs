//! Epoch keys are destroyed on time, in memory and in the key file.

use std::{fs, os::unix::fs::PermissionsExt};

use super::*;

const MINUTE: i64 = 60_000;
const EPOCH: Duration = Duration::from_secs(60);

fn seal_code(keys: &EpochKeys, ends_ms: i64) -> Sealed {
    keys.seal(&Place::new("cvc"), &Secret::new(b"123".to_vec()), ends_ms).unwrap()
}

fn open_code(keys: &EpochKeys, sealed: &Sealed) -> Option<Vec<u8>> {
    match keys.open(&Place::new("cvc"), sealed, 0).unwrap() {
        OpenedValue::Open(secret) => Some(secret.expose().to_vec()),
        OpenedValue::KeyDestroyed => None,
        OpenedValue::KeyNotLoaded => unreachable!("these are not shared"),
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|it| it == part)
}

#[test]
fn sealed_value_opens_at_most_one_epoch_past_its_end() {
    let cases = [
        (10 * MINUTE, 11 * MINUTE),
        (10 * MINUTE + 1, 11 * MINUTE),
        (11 * MINUTE - 1, 11 * MINUTE),
    ];
    for (ends_ms, destroyed_ms) in cases {
        let keys = EpochKeys::in_memory(EPOCH);
        let sealed = seal_code(&keys, ends_ms);
        assert_eq!(keys.next_expiry_ms(), Some(destroyed_ms));
        for (now_ms, expected) in
            [(0, true), (ends_ms, true), (destroyed_ms - 1, true), (destroyed_ms, false)]
        {
            keys.destroy_expired(now_ms).unwrap();
            assert_eq!(open_code(&keys, &sealed).is_some(), expected, "of {ends_ms} at {now_ms}");
        }
        assert!(destroyed_ms - ends_ms <= MINUTE);
        assert_eq!(keys.next_expiry_ms(), None);
    }
}

#[test]
fn value_sealed_before_restart_is_key_destroyed_and_not_tampering() {
    let keys = EpochKeys::in_memory(EPOCH);
    let sealed = seal_code(&keys, 5);
    let restarted_keys = EpochKeys::in_memory(EPOCH);
    assert_eq!(open_code(&restarted_keys, &sealed), None);

    let mut bytes = sealed.as_bytes().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    assert!(keys.open(&Place::new("cvc"), &Sealed::from_stored(bytes), 5).is_err());
}

#[test]
fn epoch_key_file_keeps_keys_across_restart_until_destroyed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epochs");
    let keys = EpochKeys::in_file(EPOCH, &path).unwrap();
    let (early_value, late_value) = (seal_code(&keys, 5), seal_code(&keys, 5 * MINUTE));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

    assert!(matches!(EpochKeys::in_file(EPOCH, &path), Err(EpochFileError::InUse)));
    drop(keys);

    // Existing keys do not depend on the epoch length.
    let restarted_keys = EpochKeys::in_file(EPOCH * 7, &path).unwrap();
    assert!(
        open_code(&restarted_keys, &early_value).is_some()
            && open_code(&restarted_keys, &late_value).is_some()
    );
    restarted_keys.destroy_expired(MINUTE).unwrap();
    drop(restarted_keys);
    let restarted_keys = EpochKeys::in_file(EPOCH, &path).unwrap();
    assert!(
        open_code(&restarted_keys, &early_value).is_none()
            && open_code(&restarted_keys, &late_value).is_some()
    );
    restarted_keys.destroy_expired(i64::MAX).unwrap();
    drop(restarted_keys);
    assert!(open_code(&EpochKeys::in_file(EPOCH, &path).unwrap(), &late_value).is_none());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "the file and its lock");
}

/// A replaced file still exists for processes that have it open, and its pages persist until they
/// are reused. The old content must therefore be overwritten.
#[test]
fn destroyed_epoch_keys_are_overwritten_in_the_replaced_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epochs");
    let keys = EpochKeys::in_file(EPOCH, &path).unwrap();
    drop(seal_code(&keys, 5));
    let secret = keys.state().keys.values().next().unwrap().bytes().unwrap().expose().to_vec();
    assert!(contains(&fs::read(&path).unwrap(), &secret), "the control");
    let hard_link = folder.path().join("held");
    fs::hard_link(&path, &hard_link).unwrap();

    keys.destroy_expired(MINUTE).unwrap();
    for file in [&path, &hard_link] {
        assert!(!contains(&fs::read(file).unwrap(), &secret), "{}", file.display());
    }
}

#[test]
fn epoch_key_file_is_wiped_when_it_cannot_be_rewritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epochs");
    let keys = EpochKeys::in_file(EPOCH, &path).unwrap();
    let (early_value, late_value) = (seal_code(&keys, 5), seal_code(&keys, 5 * MINUTE));
    // A folder at the path of the temporary file makes the rewrite fail.
    fs::create_dir_all(path.with_extension("tmp").join("within")).unwrap();
    assert!(keys.destroy_expired(MINUTE).is_err());
    assert!(fs::read(&path).unwrap().iter().all(|it| *it == 0));
    assert!(open_code(&keys, &early_value).is_none() && open_code(&keys, &late_value).is_some());
    // The next successful save writes the remaining keys.
    fs::remove_dir_all(path.with_extension("tmp")).unwrap();
    keys.destroy_expired(MINUTE).unwrap();
    drop(keys);
    assert!(open_code(&EpochKeys::in_file(EPOCH, &path).unwrap(), &late_value).is_some());
}

#[test]
fn exposed_damaged_or_symlinked_epoch_key_file_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("epochs");
    let open_error = |bytes: &[u8], mode: u32| {
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        EpochKeys::in_file(EPOCH, &path).unwrap_err().to_string()
    };
    drop(EpochKeys::in_file(EPOCH, &path).unwrap());
    let valid_bytes = fs::read(&path).unwrap();
    assert!(open_error(&valid_bytes, 0o640).contains("readable by others"));
    assert!(open_error(b"something else", 0o600).contains("damaged"));
    assert!(open_error(&[valid_bytes.as_slice(), b"x"].concat(), 0o600).contains("damaged"));
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).unwrap();
    assert!(EpochKeys::in_file(EPOCH, &path).unwrap_err().to_string().contains("regular file"));
}
