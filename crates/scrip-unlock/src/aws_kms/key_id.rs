//! Which key of AWS KMS wraps the vault key.

use crate::source::UnlockError;

/// The id or the ARN of a key. Never an alias: an alias can be moved to another key, and an answer
/// names the key only.
#[derive(Debug)]
pub(super) struct AwsKeyId(String);

impl AwsKeyId {
    pub(super) fn parse(text: &str, region: &str) -> Result<Self, UnlockError> {
        let invalid = |reason: &str| Err(UnlockError::Settings(format!("the key id {reason}")));
        if text.starts_with("alias/") || text.contains(":alias/") {
            return invalid("is an alias: use the id or the ARN of the key");
        }
        let id = match text.split(':').collect::<Vec<_>>().as_slice() {
            [id] => *id,
            ["arn", _, "kms", arn_region, _, resource] => {
                if *arn_region != region {
                    return invalid("is an ARN of another region");
                }
                resource.strip_prefix("key/").unwrap_or_default()
            }
            _ => "",
        };
        if id.is_empty() || !id.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-') {
            return invalid("must be the id or the ARN of a key");
        }
        Ok(Self(text.to_owned()))
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Whether the ARN of an answer is this key.
    pub(super) fn is_key_of(&self, arn: &str) -> bool {
        arn == self.0 || (arn.starts_with("arn:") && arn.ends_with(&format!(":key/{}", self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1234abcd-12ab-34cd-56ef-1234567890ab";
    const ARN: &str = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";

    #[test]
    fn answer_must_name_the_configured_key() {
        for text in [ID, ARN] {
            let key_id = AwsKeyId::parse(text, "eu-west-1").unwrap();
            assert!(key_id.is_key_of(ARN), "{text}");
            let last_letter = ARN.strip_suffix('b').unwrap().to_owned() + "c";
            for other in ["", "key", &last_letter, &format!("{ARN}/1234"), "arn:aws:kms:::key/"] {
                assert!(!key_id.is_key_of(other), "{text} {other}");
            }
        }
        let other_account = ARN.replace("111122223333", "444455556666");
        assert!(!AwsKeyId::parse(ARN, "eu-west-1").unwrap().is_key_of(&other_account));
    }

    #[test]
    fn aliases_and_keys_of_another_region_are_rejected() {
        let arn_of_alias = "arn:aws:kms:eu-west-1:111122223333:alias/vault";
        for text in ["alias/vault", arn_of_alias, "", "key/", "a b", "arn:aws:s3:::bucket"] {
            assert!(AwsKeyId::parse(text, "eu-west-1").is_err(), "{text}");
        }
        assert!(AwsKeyId::parse(ARN, "eu-west-2").is_err());
        assert!(AwsKeyId::parse("mrk-1234abcd12ab34cd56ef1234567890ab", "eu-west-2").is_ok());
    }
}
