//! The credentials file of the tools of AWS.

use scrip_seal::Secret;

use crate::aws_kms::signature::AwsCredentials;

/// Finds the access key of a profile. The error is the reason, without a part of the file.
pub(super) fn parse(file: &Secret, profile: &str) -> Result<AwsCredentials, String> {
    let text = str::from_utf8(file.expose()).map_err(|_| "the file is not UTF-8".to_owned())?;
    let mut is_profile = false;
    let mut is_known = false;
    let (mut id, mut secret, mut session_token) = (None, None, None);
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            // A configuration file writes the word profile before the name.
            let section = section.trim();
            let name = section.strip_prefix("profile ").map_or(section, str::trim);
            is_profile = name == profile;
            is_known |= is_profile;
            continue;
        }
        if !is_profile || line.starts_with(['#', ';']) {
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        let value = value.trim();
        match name.trim() {
            "aws_access_key_id" => id = Some(value.to_owned()),
            "aws_secret_access_key" => secret = Some(Secret::new(value.as_bytes().to_vec())),
            "aws_session_token" => session_token = Some(Secret::new(value.as_bytes().to_vec())),
            _ => {}
        }
    }
    if !is_known {
        return Err(format!("there is no profile {profile}"));
    }
    let (Some(access_key_id), Some(secret_access_key)) = (id, secret) else {
        return Err(format!(
            "the profile {profile} has no aws_access_key_id or no aws_secret_access_key; role_arn, \
             sso and credential_process are not supported"
        ));
    };
    Ok(AwsCredentials { access_key_id, secret_access_key, session_token, expires_at: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
        # comment\n\
        [default]\n\
        aws_access_key_id = AKID1\n\
        ; aws_secret_access_key = comment\n\
        aws_secret_access_key=se/cr+et=1\n\
        \n\
        [profile vault]\r\n\
        aws_access_key_id=AKID2\r\n\
        aws_secret_access_key = secret2\r\n\
        aws_session_token = token2\r\n\
        region = eu-west-1\r\n\
        [role]\n\
        role_arn = arn:aws:iam::1:role/vault\n";

    fn parse_text(profile: &str) -> Result<AwsCredentials, String> {
        parse(&Secret::new(FILE.as_bytes().to_vec()), profile)
    }

    #[test]
    fn access_key_of_the_profile_is_found() {
        let default = parse_text("default").unwrap();
        assert_eq!(default.access_key_id, "AKID1");
        assert_eq!(default.secret_access_key.expose(), b"se/cr+et=1");
        assert!(default.session_token.is_none());
        let vault = parse_text("vault").unwrap();
        assert_eq!(vault.access_key_id, "AKID2");
        assert_eq!(vault.secret_access_key.expose(), b"secret2");
        assert_eq!(vault.session_token.unwrap().expose(), b"token2");
    }

    #[test]
    fn profile_without_access_key_is_rejected() {
        assert!(parse_text("role").unwrap_err().contains("role_arn"));
        assert_eq!(parse_text("other").unwrap_err(), "there is no profile other");
    }
}
