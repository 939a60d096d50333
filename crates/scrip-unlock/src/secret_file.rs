//! Reads files with secrets, such as tokens that another program renews.

use std::{
    fs::File,
    io::{self, ErrorKind, Read},
    path::Path,
};

use scrip_seal::Secret;
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use crate::source::UnlockError;

const FILE_BYTES_MAX: usize = 64 * 1024;

/// Reads a file without the white space at its end.
/// Errors: a missing or empty file is temporary: another program may write it later.
pub(crate) async fn read_secret_file(path: &Path) -> Result<Secret, UnlockError> {
    let owned_path = path.to_owned();
    let result = spawn_blocking(move || read_bounded(&owned_path)).await;
    let path = path.display();
    match result {
        Ok(Ok(bytes)) if bytes.len() > FILE_BYTES_MAX => {
            Err(UnlockError::Settings(format!("{path} has more than {FILE_BYTES_MAX} bytes")))
        }
        Ok(Ok(bytes)) => {
            let text = bytes.trim_ascii_end();
            if text.is_empty() {
                let text = format!("{path} is empty: write the secret into it");
                return Err(UnlockError::Unavailable(text));
            }
            Ok(Secret::new(text.to_vec()))
        }
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => Err(UnlockError::Unavailable(
            format!("{path} does not exist: check the path, or the program that writes the file"),
        )),
        Ok(Err(error)) => {
            Err(UnlockError::Settings(format!("cannot read {path}: {}", error.kind())))
        }
        Err(_) => Err(UnlockError::Unavailable(format!("reading {path} failed"))),
    }
}

/// Reads at most one byte more than is allowed.
fn read_bounded(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let limit = FILE_BYTES_MAX + 1;
    // A growing buffer would leave copies of the secret in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit + 1));
    File::open(path)?.take(u64::try_from(limit).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
