//! The unlock sources of this machine: a wrapping key in a file or in a variable.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use scrip_seal::{Place, Sealed, Secret, WrappingKey};
use scrip_unlock::{UnlockContext, UnlockError, UnlockFuture, UnlockSource};
use tokio::{task::spawn_blocking, time::timeout};

use crate::files::secret_file::{AllowedReaders, SecretFile, SecretFileCause};

/// The time in which a file system must return a key.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The names of the root key of the settings.
pub(super) const ROOT_KEY: &str = "root key";
pub(super) const ROOT_KEY_VARIABLE: &str = "SCRIP_ROOT_KEY";

/// A wrapping key that is read for each use, so that a check notices a missing file.
#[derive(Debug)]
pub(super) enum LocalKey {
    File { name: &'static str, path: PathBuf },
    Variable { name: String, key: Option<Arc<Secret>> },
}

/// Why a key of this machine cannot be used.
#[derive(Debug)]
pub(crate) struct LocalKeyProblem {
    pub(crate) error: UnlockError,
    /// The owner of the file with the key, if a file was opened.
    pub(crate) owner: Option<u32>,
}

impl From<UnlockError> for LocalKeyProblem {
    fn from(error: UnlockError) -> Self {
        Self { error, owner: None }
    }
}

impl From<LocalKeyProblem> for UnlockError {
    fn from(problem: LocalKeyProblem) -> Self {
        problem.error
    }
}

impl LocalKey {
    pub(super) async fn load(&self) -> Result<WrappingKey, LocalKeyProblem> {
        self.load_with(()).await
    }

    /// Reads the key on a thread of its own: a file system may hang. That thread drops the guard,
    /// possibly after the time limit.
    pub(super) async fn load_with(
        &self,
        guard: impl Send + 'static,
    ) -> Result<WrappingKey, LocalKeyProblem> {
        match self {
            Self::File { name, path } => {
                let (name, owned_path) = (*name, path.clone());
                let read = spawn_blocking(move || {
                    let result = read_key_file(name, &owned_path);
                    drop(guard);
                    result
                });
                let late = |text| {
                    let file = path.display();
                    UnlockError::Unavailable(format!("the {name} {file} cannot be used: {text}"))
                };
                match timeout(READ_TIMEOUT, read).await {
                    Ok(Ok(result)) => result,
                    Ok(Err(_)) => Err(late("reading it failed").into()),
                    Err(_) => Err(late("its file system does not answer").into()),
                }
            }
            Self::Variable { name, key } => {
                let missing = || {
                    UnlockError::KeyMissing(format!(
                        "{name} is not set: set it in the environment of the server and of \
                         commands, and restart the server"
                    ))
                };
                let text = key.as_ref().ok_or_else(missing)?;
                let text = str::from_utf8(text.expose()).unwrap_or_default();
                WrappingKey::from_text(text).map_err(|it| {
                    UnlockError::KeyMissing(format!("{name} cannot be used: {it}")).into()
                })
            }
        }
    }

    /// A key that is not the root key is named, so that the operator does not look for a root key.
    fn describe_rejection(&self) -> String {
        let key = match self {
            Self::File { name: ROOT_KEY, .. } => format!("this is the {ROOT_KEY}"),
            Self::File { name, path } => format!("{} is the {name}", path.display()),
            Self::Variable { name, .. } if name == ROOT_KEY_VARIABLE => {
                format!("this is the {ROOT_KEY}")
            }
            Self::Variable { name, .. } => format!("{name} is a key"),
        };
        format!("{key} of another vault, or the stored keys of this vault were altered")
    }
}

fn read_key_file(name: &str, path: &Path) -> Result<WrappingKey, LocalKeyProblem> {
    let file = path.display();
    let unusable = |it: &dyn Display| format!("the {name} {file} cannot be used: {it}");
    let text = SecretFile::new("unlock method", path, AllowedReaders::Owner).read_key();
    let text = text.map_err(|it| LocalKeyProblem {
        error: match it.cause {
            SecretFileCause::Rejected(cause) => UnlockError::Denied(unusable(&cause.root_cause())),
            SecretFileCause::Unreadable(cause) => UnlockError::KeyMissing(unusable(&cause)),
        },
        owner: it.owner,
    })?;
    WrappingKey::from_text(&text).map_err(|it| UnlockError::KeyMissing(unusable(&it)).into())
}

impl UnlockSource for LocalKey {
    fn wrap<'a>(
        &'a self,
        context: &'a UnlockContext,
        key: &'a Secret,
    ) -> UnlockFuture<'a, Vec<u8>> {
        Box::pin(async move { Ok(wrap_with(&self.load().await?, context, key)) })
    }

    fn unwrap<'a>(
        &'a self,
        context: &'a UnlockContext,
        wrapped: &'a [u8],
    ) -> UnlockFuture<'a, Secret> {
        Box::pin(async move {
            let opened = unwrap_with(&self.load().await?, context, wrapped);
            opened.map_err(|_| UnlockError::Rejected(self.describe_rejection()))
        })
    }
}

pub(super) fn wrap_with(key: &WrappingKey, context: &UnlockContext, secret: &Secret) -> Vec<u8> {
    key.wrap(&place(context), secret).as_bytes().to_vec()
}

/// Another key wrapped these bytes, or in another context.
#[derive(Debug)]
pub(super) struct WrongWrappingKey;

/// Errors: another key wrapped these bytes, or in another context.
pub(super) fn unwrap_with(
    key: &WrappingKey,
    context: &UnlockContext,
    wrapped: &[u8],
) -> Result<Secret, WrongWrappingKey> {
    let opened = key.unwrap(&place(context), &Sealed::from_stored(wrapped.to_vec()));
    opened.map_err(|_| WrongWrappingKey)
}

fn place(context: &UnlockContext) -> Place {
    Place::new("vault key")
        .text(&context.vault)
        .text(&context.method)
        .text(context.kind)
        .number(context.key_version.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> UnlockContext {
        UnlockContext {
            vault: "a".to_owned(),
            method: "b".to_owned(),
            kind: "file",
            key_version: 1,
        }
    }

    #[test]
    fn wrapped_key_of_another_vault_method_kind_or_version_is_rejected() {
        let key = WrappingKey::generate();
        let wrapped = wrap_with(&key, &context(), &Secret::new(vec![7; 32]));
        assert_eq!(unwrap_with(&key, &context(), &wrapped).unwrap().expose(), [7; 32]);
        for other in [
            UnlockContext { vault: "c".to_owned(), ..context() },
            UnlockContext { method: "c".to_owned(), ..context() },
            UnlockContext { kind: "env", ..context() },
            UnlockContext { key_version: 2, ..context() },
        ] {
            let result = unwrap_with(&key, &other, &wrapped);
            assert!(result.is_err(), "{other:?}");
        }
    }

    #[tokio::test]
    async fn rejected_key_is_called_a_root_key_only_if_it_is_one() {
        let key = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
        let variable = |name: &str| LocalKey::Variable {
            name: name.to_owned(),
            key: Some(Arc::new(Secret::new(key.as_bytes().to_vec()))),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("unlock.key");
        WrappingKey::create_file(&path).unwrap();
        let file = |name| LocalKey::File { name, path: path.clone() };
        let named_file = format!("{} is the key file of another vault", path.display());
        for (source, expected) in [
            (variable("SCRIP_UNLOCK_KEY"), "SCRIP_UNLOCK_KEY is a key of another vault"),
            (variable(ROOT_KEY_VARIABLE), "this is the root key of another vault"),
            (file(ROOT_KEY), "this is the root key of another vault"),
            (file("key file"), named_file.as_str()),
        ] {
            let error = source.unwrap(&context(), &[7; 60]).await.err().unwrap();
            let UnlockError::Rejected(text) = &error else { panic!("{error:?}") };
            let end = ", or the stored keys of this vault were altered";
            assert_eq!(text, &format!("{expected}{end}"));
        }
    }
}
