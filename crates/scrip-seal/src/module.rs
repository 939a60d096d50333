//! The cryptographic module that this program is built with.

/// Whether the algorithms come from the FIPS build of AWS-LC and its self-tests passed.
#[must_use]
pub fn has_fips_module() -> bool {
    aws_lc_rs::try_fips_mode().is_ok()
}
