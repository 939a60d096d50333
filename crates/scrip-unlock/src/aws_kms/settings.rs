//! The settings of AWS KMS. The caller reads them, also those from the environment.

use std::{fmt, path::PathBuf, time::Duration};

use scrip_seal::Secret;

use crate::source::UnlockError;

/// Which key of AWS KMS to use, and how to reach it.
#[derive(Debug)]
pub struct AwsKmsSettings {
    /// The id or the ARN of a symmetric key. An alias is rejected.
    pub key_id: String,
    /// Such as `eu-west-1`.
    pub region: String,
    /// The URL of a VPC endpoint. By default the public endpoint of the region.
    pub endpoint: Option<String>,
    /// Certificate authorities in PEM, instead of those of the system.
    pub ca_file: Option<PathBuf>,
    pub credentials: AwsCredentialSource,
    /// For one wrap or unwrap, with the requests for credentials.
    pub deadline: Duration,
}

/// Where the credentials for AWS come from.
pub enum AwsCredentialSource {
    /// An access key that does not change.
    AccessKey { id: String, secret: Secret, session_token: Option<Secret> },
    /// A profile of a credentials file. The file is read for each operation, so that another program
    /// can renew it.
    ProfileFile { path: PathBuf, profile: String },
    /// The role of the instance, from the metadata service, version 2.
    InstanceMetadata {
        /// Another URL than `http://169.254.169.254`.
        endpoint: Option<String>,
    },
    /// A role that a signed token authorizes, as on EKS.
    WebIdentity {
        role_arn: String,
        token_file: PathBuf,
        session_name: String,
        /// Another URL of STS than the one of the region.
        sts_endpoint: Option<String>,
    },
}

/// The variables in which the tools of AWS expect credentials. The caller reads the environment.
#[derive(Default)]
pub struct AwsVariables {
    /// `AWS_ACCESS_KEY_ID`.
    pub access_key_id: Option<String>,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_access_key: Option<Secret>,
    /// `AWS_SESSION_TOKEN`.
    pub session_token: Option<Secret>,
    /// `AWS_WEB_IDENTITY_TOKEN_FILE`.
    pub web_identity_token_file: Option<PathBuf>,
    /// `AWS_ROLE_ARN`.
    pub role_arn: Option<String>,
    /// `AWS_ROLE_SESSION_NAME`.
    pub role_session_name: Option<String>,
    /// `AWS_ENDPOINT_URL_STS`.
    pub sts_endpoint: Option<String>,
    /// `AWS_SHARED_CREDENTIALS_FILE`.
    pub shared_credentials_file: Option<PathBuf>,
    /// `AWS_PROFILE`.
    pub profile: Option<String>,
    /// `AWS_EC2_METADATA_SERVICE_ENDPOINT`.
    pub metadata_endpoint: Option<String>,
}

impl AwsVariables {
    /// Chooses in the order of the tools of AWS: access key, web identity, credentials file, and
    /// without any of them the metadata service of the instance.
    ///
    /// Errors: a variable is set without another one that it needs.
    pub fn select_source(self) -> Result<AwsCredentialSource, UnlockError> {
        let missing = |present: &str, absent: &str| {
            UnlockError::Settings(format!("{present} is set, but {absent} is not"))
        };
        match (self.access_key_id, self.secret_access_key) {
            (Some(id), Some(secret)) => {
                let session_token = self.session_token;
                return Ok(AwsCredentialSource::AccessKey { id, secret, session_token });
            }
            (Some(_), None) => return Err(missing("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")),
            (None, Some(_)) => return Err(missing("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID")),
            (None, None) => {}
        }
        if let Some(token_file) = self.web_identity_token_file {
            let role_arn = self.role_arn;
            return Ok(AwsCredentialSource::WebIdentity {
                role_arn: role_arn
                    .ok_or_else(|| missing("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"))?,
                token_file,
                session_name: self.role_session_name.unwrap_or_else(|| "scrip".to_owned()),
                sts_endpoint: self.sts_endpoint,
            });
        }
        if let Some(path) = self.shared_credentials_file {
            let profile = self.profile.unwrap_or_else(|| "default".to_owned());
            return Ok(AwsCredentialSource::ProfileFile { path, profile });
        }
        if self.profile.is_some() {
            return Err(missing("AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"));
        }
        Ok(AwsCredentialSource::InstanceMetadata { endpoint: self.metadata_endpoint })
    }
}

impl fmt::Debug for AwsCredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AccessKey { .. } => "AccessKey",
            Self::ProfileFile { .. } => "ProfileFile",
            Self::InstanceMetadata { .. } => "InstanceMetadata",
            Self::WebIdentity { .. } => "WebIdentity",
        })
    }
}

impl fmt::Debug for AwsVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AwsVariables")
    }
}

pub(super) fn check_region(region: &str) -> Result<(), UnlockError> {
    let is_valid = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    if region.is_empty() || !region.bytes().all(is_valid) {
        return Err(UnlockError::Settings("the region must be one such as eu-west-1".to_owned()));
    }
    Ok(())
}

/// The public endpoint of a service in a region.
pub(super) fn service_url(service: &str, region: &str) -> String {
    let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://{service}.{region}.amazonaws.com{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(change: impl Fn(&mut AwsVariables)) -> Result<String, String> {
        let mut variables = AwsVariables::default();
        change(&mut variables);
        variables.select_source().map(|it| format!("{it:?}")).map_err(|it| it.to_string())
    }

    #[test]
    fn credential_source_follows_the_order_of_the_aws_tools() {
        let secret = || Some(Secret::new(b"secret".to_vec()));
        assert_eq!(select(|_| {}).unwrap(), "InstanceMetadata");
        let all = select(|it| {
            it.access_key_id = Some("AKID".to_owned());
            it.secret_access_key = secret();
            it.web_identity_token_file = Some("/token".into());
            it.shared_credentials_file = Some("/credentials".into());
        });
        assert_eq!(all.unwrap(), "AccessKey");
        let web_identity_first = select(|it| {
            it.web_identity_token_file = Some("/token".into());
            it.role_arn = Some("arn:aws:iam::1:role/vault".to_owned());
            it.shared_credentials_file = Some("/credentials".into());
        });
        assert_eq!(web_identity_first.unwrap(), "WebIdentity");
        let file = select(|it| it.shared_credentials_file = Some("/credentials".into()));
        assert_eq!(file.unwrap(), "ProfileFile");
    }

    #[test]
    fn variable_without_its_partner_is_rejected() {
        let secret = || Some(Secret::new(b"secret".to_vec()));
        for (error, missing) in [
            (select(|it| it.access_key_id = Some("AKID".to_owned())), "AWS_SECRET_ACCESS_KEY"),
            (select(|it| it.secret_access_key = secret()), "AWS_ACCESS_KEY_ID"),
            (select(|it| it.web_identity_token_file = Some("/t".into())), "AWS_ROLE_ARN"),
            (select(|it| it.profile = Some("a".to_owned())), "AWS_SHARED_CREDENTIALS_FILE"),
        ] {
            assert!(error.unwrap_err().ends_with(&format!("{missing} is not")), "{missing}");
        }
    }

    #[test]
    fn service_urls_are_those_of_the_region() {
        assert_eq!(service_url("kms", "eu-west-1"), "https://kms.eu-west-1.amazonaws.com");
        assert_eq!(service_url("sts", "cn-north-1"), "https://sts.cn-north-1.amazonaws.com.cn");
        assert!(check_region("us-gov-west-1").is_ok());
        for region in ["", "eu-west-1.evil.example", "EU", "a/b"] {
            assert!(check_region(region).is_err(), "{region}");
        }
    }
}
