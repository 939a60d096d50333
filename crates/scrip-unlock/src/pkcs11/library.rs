//! Libraries of devices: each is loaded and initialized once in a process, and never unloaded.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use cryptoki::{
    context::{CInitializeArgs, CInitializeFlags, Pkcs11 as Context},
    error::{Error, RvError},
};

use super::failure::explain;
use crate::source::UnlockError;

type LibraryEntry = Arc<Mutex<Option<Context>>>;

/// Two sources may use the same library. The libraries of different devices do not wait for each
/// other.
static LIBRARIES: Mutex<BTreeMap<PathBuf, LibraryEntry>> = Mutex::new(BTreeMap::new());

/// Loads and initializes a library, unless this was done before. May hang in the library.
pub(super) fn load(path: &Path) -> Result<Context, UnlockError> {
    let entry = {
        let mut libraries = LIBRARIES.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(libraries.entry(path.to_owned()).or_default())
    };
    let mut entry = entry.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = entry.as_ref() {
        return Ok(context.clone());
    }
    let name = path.display();
    let context = Context::new(path).map_err(|error| {
        if matches!(error, Error::Pkcs11(..)) {
            return explain(&error);
        }
        UnlockError::Settings(format!(
            "cannot load the library {name}: install the software of the device, and check the path"
        ))
    })?;
    match context.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
        Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
        Err(error) => return Err(explain(&error)),
    }
    *entry = Some(context.clone());
    Ok(context)
}
