//! Credentials for AWS: read, cached, and renewed before they expire.

mod instance_metadata;
mod profile_file;
mod web_identity;

use std::{path::PathBuf, sync::Arc};

use tokio::sync::Mutex;

use self::{instance_metadata::InstanceMetadata, web_identity::WebIdentity};
use super::{
    settings::{AwsCredentialSource, service_url},
    signature::{AwsCredentials, WallClock},
};
use crate::{
    http_client::{Endpoint, TlsTrust},
    secret_file::read_secret_file,
    source::UnlockError,
};

/// Credentials are renewed this long before they expire.
const RENEW_BEFORE_SECONDS: i64 = 300;
const METADATA_URL: &str = "http://169.254.169.254";

/// Where current credentials are found.
#[derive(Debug)]
enum Origin {
    Permanent(Arc<AwsCredentials>),
    ProfileFile { path: PathBuf, profile: String },
    InstanceMetadata(InstanceMetadata),
    WebIdentity(WebIdentity),
}

/// Provides current credentials.
pub(super) struct CredentialProvider {
    origin: Origin,
    trust: Arc<TlsTrust>,
    clock: WallClock,
    /// The last temporary credentials.
    cache: Mutex<Option<Arc<AwsCredentials>>>,
}

impl CredentialProvider {
    pub(super) fn new(
        source: AwsCredentialSource,
        region: &str,
        trust: Arc<TlsTrust>,
        clock: WallClock,
    ) -> Result<Self, UnlockError> {
        let origin = match source {
            AwsCredentialSource::AccessKey { id, secret, session_token } => {
                Origin::Permanent(Arc::new(AwsCredentials {
                    access_key_id: id,
                    secret_access_key: secret,
                    session_token,
                    expires_at: None,
                }))
            }
            AwsCredentialSource::ProfileFile { path, profile } => {
                Origin::ProfileFile { path, profile }
            }
            AwsCredentialSource::InstanceMetadata { endpoint } => {
                let url = endpoint.as_deref().unwrap_or(METADATA_URL);
                let endpoint = Endpoint::parse("the endpoint of the metadata service", url)?;
                Origin::InstanceMetadata(InstanceMetadata { endpoint })
            }
            AwsCredentialSource::WebIdentity {
                role_arn,
                token_file,
                session_name,
                sts_endpoint,
            } => {
                let url = sts_endpoint.unwrap_or_else(|| service_url("sts", region));
                let endpoint = Endpoint::parse("the endpoint of AWS STS", &url)?;
                Origin::WebIdentity(WebIdentity { endpoint, role_arn, token_file, session_name })
            }
        };
        Ok(Self { origin, trust, clock, cache: Mutex::new(None) })
    }

    /// For messages to the operator.
    pub(super) fn describe(&self) -> String {
        match &self.origin {
            Origin::Permanent(it) => format!("the access key {}", it.access_key_id),
            Origin::ProfileFile { path, profile } => {
                format!("the profile {profile} in {}", path.display())
            }
            Origin::InstanceMetadata(_) => "the role of the instance".to_owned(),
            Origin::WebIdentity(it) => format!("the role {}", it.role_arn),
        }
    }

    pub(super) async fn current(&self) -> Result<Arc<AwsCredentials>, UnlockError> {
        match &self.origin {
            Origin::Permanent(credentials) => return Ok(Arc::clone(credentials)),
            Origin::ProfileFile { path, profile } => {
                let file = read_secret_file(path).await?;
                return profile_file::parse(&file, profile).map(Arc::new).map_err(|reason| {
                    UnlockError::Settings(format!("{}: {reason}", path.display()))
                });
            }
            Origin::InstanceMetadata(_) | Origin::WebIdentity(_) => {}
        }
        let mut cache = self.cache.lock().await;
        let now = (self.clock)();
        let is_valid_at = |credentials: &AwsCredentials, time: i64| {
            credentials.expires_at.is_none_or(|expires_at| expires_at > time)
        };
        if let Some(credentials) =
            cache.as_ref().filter(|it| is_valid_at(it, now.saturating_add(RENEW_BEFORE_SECONDS)))
        {
            return Ok(Arc::clone(credentials));
        }
        match self.request().await {
            Ok(credentials) => Ok(Arc::clone(cache.insert(Arc::new(credentials)))),
            // The service of credentials may be away for a while.
            Err(error) => match cache.as_ref().filter(|it| is_valid_at(it, now)) {
                Some(credentials) => Ok(Arc::clone(credentials)),
                None => Err(error),
            },
        }
    }

    /// Removes credentials from the cache that AWS rejected. Returns whether new ones can be
    /// requested.
    pub(super) async fn forget(&self, rejected: &Arc<AwsCredentials>) -> bool {
        match &self.origin {
            Origin::Permanent(_) | Origin::ProfileFile { .. } => false,
            Origin::InstanceMetadata(_) | Origin::WebIdentity(_) => {
                let mut cache = self.cache.lock().await;
                if cache.as_ref().is_some_and(|it| Arc::ptr_eq(it, rejected)) {
                    *cache = None;
                }
                true
            }
        }
    }

    async fn request(&self) -> Result<AwsCredentials, UnlockError> {
        match &self.origin {
            Origin::InstanceMetadata(it) => it.request(&self.trust).await,
            Origin::WebIdentity(it) => it.request(&self.trust).await,
            Origin::Permanent(_) | Origin::ProfileFile { .. } => Err(UnlockError::Settings(
                "these credentials are not requested from a service".to_owned(),
            )),
        }
    }
}
