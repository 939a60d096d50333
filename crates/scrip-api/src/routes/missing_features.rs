//! The paths of features that this server does not have.

use scrip_core::types::MissingFeature;

/// Each path stands for itself and for all paths below it.
const PATHS: &[(&str, MissingFeature)] = &[
    ("/reactors", MissingFeature::Reactors),
    ("/reactor-formulas", MissingFeature::Reactors),
    ("/documents", MissingFeature::Documents),
    ("/enrichments/bank-account-verify", MissingFeature::BankAccountVerification),
    ("/google-pay", MissingFeature::GooglePay),
    ("/apple-pay", MissingFeature::ApplePay),
    ("/account-updater", MissingFeature::AccountUpdater),
    ("/network-tokens", MissingFeature::NetworkTokenRequests),
    ("/roles", MissingFeature::People),
    ("/invitations", MissingFeature::People),
    ("/tenants/self/members", MissingFeature::People),
    ("/tenants/self/invitations", MissingFeature::People),
    ("/tenants/self/owner", MissingFeature::People),
    ("/tenants/self/security-contact", MissingFeature::People),
    ("/tenants/self/connections", MissingFeature::Connections),
    ("/connections", MissingFeature::Connections),
    ("/application-templates", MissingFeature::ApplicationTemplates),
];

/// Finds the missing feature of a path that no route matches.
pub(crate) fn find_missing_feature(path: &str) -> Option<MissingFeature> {
    let covers = |parent: &str| {
        path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    PATHS.iter().find(|(parent, _)| covers(parent)).map(|(_, feature)| *feature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_features_are_found_by_whole_path_segments() {
        let cases = [
            ("/proxy", None),
            ("/proxies/x/y", None),
            ("/reactors/x/react-async", Some(MissingFeature::Reactors)),
            ("/tenants/self/members", Some(MissingFeature::People)),
            ("/invitations/x/resend", Some(MissingFeature::People)),
            ("/webhooks/x/y", None),
            ("/documents", Some(MissingFeature::Documents)),
            ("/documentsx", None),
            ("/tenants/self/nothing", None),
            ("/tokens/proxy", None),
            ("/", None),
        ];
        for (path, expected) in cases {
            assert_eq!(find_missing_feature(path), expected, "{path}");
        }
    }

    #[test]
    fn every_missing_feature_has_a_path() {
        for feature in MissingFeature::ALL {
            assert!(PATHS.iter().any(|(_, it)| *it == feature), "{}", feature.as_str());
        }
    }
}
