//! AWS KMS.

mod answers;
mod credentials;
mod moto;

use std::time::Duration;

use scrip_seal::Secret;
use scrip_testing::process::unlock_sources::moto_server::REGION;
use scrip_unlock::{AwsCredentialSource, AwsKms, AwsKmsSettings};

use crate::support::fixed_clock;

pub(crate) const KEY_ID: &str = "1234abcd-12ab-34cd-56ef-1234567890ab";
pub(crate) const KEY_ARN: &str =
    "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
pub(crate) const SECRET_ACCESS_KEY: &str = "the-secret-access-key";

pub(crate) fn access_key() -> AwsCredentialSource {
    AwsCredentialSource::AccessKey {
        id: "AKIDEXAMPLE".to_owned(),
        secret: Secret::new(SECRET_ACCESS_KEY.as_bytes().to_vec()),
        session_token: None,
    }
}

pub(crate) fn settings(endpoint: &str) -> AwsKmsSettings {
    AwsKmsSettings {
        key_id: KEY_ARN.to_owned(),
        region: REGION.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        ca_file: None,
        credentials: access_key(),
        deadline: Duration::from_secs(60),
    }
}

pub(crate) fn source(endpoint: &str) -> AwsKms {
    AwsKms::new(settings(endpoint), fixed_clock()).unwrap()
}
