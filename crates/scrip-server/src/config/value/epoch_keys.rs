//! The location of the CVC epoch keys.

use std::path::PathBuf;

use crate::config::value::{SettingValue, limits::RedisUrl};

/// Location of the CVC epoch keys. A PKCS#11 token could become another location.
#[derive(Debug, Clone)]
pub enum EpochKeyLocation {
    Memory,
    File(PathBuf),
    /// Shared with other servers of the vault.
    Redis(Box<RedisUrl>),
}

impl SettingValue for EpochKeyLocation {
    fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with("redis") {
            return RedisUrl::parse(text).map(|it| Self::Redis(Box::new(it)));
        }
        let file = text.strip_prefix("file:").map(PathBuf::from);
        match file.filter(|it| it.is_absolute() && it.file_name().is_some()) {
            Some(path) => Ok(Self::File(path)),
            None if text == "memory" => Ok(Self::Memory),
            None => {
                Err("must be memory, or file: with an absolute path, or the address of a Redis \
                     such as redis://10.0.0.5:6379/0"
                    .to_owned())
            }
        }
    }
}
