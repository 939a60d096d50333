//! Settings from defaults, a file and the environment; later sources override earlier ones. The
//! only module that reads the environment.

pub mod check;
pub mod data_dir;
pub mod elements;
mod environment;
mod file;
pub mod key_rotation;
pub mod keys;
pub mod limits;
pub(crate) mod load;
pub mod proxy;
mod secret_files;
mod setting;
pub mod storage;
pub mod table;
pub mod threeds;
pub mod value;
pub mod webhooks;

pub use crate::config::{
    environment::{Environment, UNLOCK_VARIABLE_PREFIX},
    load::FlagValue,
    setting::{EffectiveSetting, is_setting_problem},
    table::{
        CvcSettings, DeprecatedSettings, LogSettings, RateLimitSettings, ServerSettings, Settings,
        StorageSettings, TelemetrySettings, TlsSettings,
    },
    value::{
        AuditSinkTarget, CollectorUrl, LockMemory, LogFormat, Switch, epoch_keys::EpochKeyLocation,
    },
};
