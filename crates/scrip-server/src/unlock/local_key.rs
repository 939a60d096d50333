//! The unlock sources of this machine: a wrapping key in a file or in a variable.

use std::{path::PathBuf, sync::Arc};

use scrip_seal::{Place, Sealed, Secret, WrappingKey};
use scrip_unlock::{UnlockContext, UnlockError, UnlockFuture, UnlockSource};

use crate::files::secret_file::{AllowedReaders, SecretFile};

/// A wrapping key that is read for each use, so that a check notices a missing file.
#[derive(Debug)]
pub(super) enum LocalKey {
    File { name: &'static str, path: PathBuf },
    Variable { name: String, key: Option<Arc<Secret>> },
}

impl LocalKey {
    pub(super) fn load(&self) -> Result<WrappingKey, UnlockError> {
        match self {
            Self::File { name, path } => {
                let file = path.display();
                let unusable =
                    |it: &dyn std::fmt::Display| format!("the {name} {file} cannot be used: {it}");
                let secret_file = SecretFile::new("unlock method", path, AllowedReaders::Owner);
                let checked = secret_file.check();
                checked.map_err(|it| UnlockError::Denied(unusable(&it.root_cause())))?;
                WrappingKey::from_file(path).map_err(|it| UnlockError::KeyMissing(unusable(&it)))
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
                WrappingKey::from_text(text)
                    .map_err(|it| UnlockError::KeyMissing(format!("{name} cannot be used: {it}")))
            }
        }
    }
}

impl UnlockSource for LocalKey {
    fn wrap<'a>(
        &'a self,
        context: &'a UnlockContext,
        key: &'a Secret,
    ) -> UnlockFuture<'a, Vec<u8>> {
        Box::pin(async move { Ok(wrap_with(&self.load()?, context, key)) })
    }

    fn unwrap<'a>(
        &'a self,
        context: &'a UnlockContext,
        wrapped: &'a [u8],
    ) -> UnlockFuture<'a, Secret> {
        Box::pin(async move { unwrap_with(&self.load()?, context, wrapped) })
    }
}

pub(super) fn wrap_with(key: &WrappingKey, context: &UnlockContext, secret: &Secret) -> Vec<u8> {
    key.wrap(&place(context), secret).as_bytes().to_vec()
}

/// Errors: another key wrapped these bytes, or in another context.
pub(super) fn unwrap_with(
    key: &WrappingKey,
    context: &UnlockContext,
    wrapped: &[u8],
) -> Result<Secret, UnlockError> {
    let opened = key.unwrap(&place(context), &Sealed::from_stored(wrapped.to_vec()));
    opened.map_err(|_| {
        UnlockError::Rejected(
            "this is the root key of another vault, or the stored keys of this vault were altered"
                .to_owned(),
        )
    })
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
            assert!(matches!(result, Err(UnlockError::Rejected(_))), "{other:?}");
        }
    }
}
