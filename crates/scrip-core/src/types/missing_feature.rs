//! The features of the interface that this server does not have, and their permissions.

words! {
    /// A feature of the interface that is not built. Delete the variant when the feature is built.
    pub enum MissingFeature {
        /// Code of a tenant that runs in the vault.
        Reactors = "reactors",
        Documents = "documents",
        BankAccountVerification = "bank account verification",
        GooglePay = "Google Pay",
        ApplePay = "Apple Pay",
        AccountUpdater = "account updater",
        NetworkTokenRequests = "requests for network tokens",
        People = "members, invitations and roles",
        Connections = "connections",
        ApplicationTemplates = "application templates",
    }
}

impl MissingFeature {
    /// The feature of a permission. The first part of the permission's name decides.
    pub fn find_by_permission(name: &str) -> Option<Self> {
        let (resource, _) = name.split_once(':')?;
        match resource {
            "reactor" => Some(Self::Reactors),
            "documents" => Some(Self::Documents),
            "google-pay" => Some(Self::GooglePay),
            "apple-pay" => Some(Self::ApplePay),
            "account-updater" => Some(Self::AccountUpdater),
            "network-token" => Some(Self::NetworkTokenRequests),
            _ => None,
        }
    }
}
