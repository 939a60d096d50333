//! Every named value of the API, and the conversion of each code in both directions.

use super::*;
use crate::fault::{Component, ErrorCode};

/// Checks all names in order, and that each code and name converts back.
macro_rules! check {
    ($Name:ident: $($code:literal $name:literal),* $(,)?) => {{
        let codes: Vec<_> = $Name::ALL.iter().map(|it| it.code()).collect();
        assert_eq!(codes, [$($code),*]);
        for (value, name) in $Name::ALL.iter().zip([$($name),*]) {
            assert_eq!($Name::from_code(&value.code()), Some(*value));
            assert_eq!($Name::from_name(name), Some(*value));
            assert_eq!(NameText::text(value.name()), name);
        }
        for text in ["", "0", "1", "001", "y", "Purchase", "79", "100", "٠١"] {
            assert_eq!($Name::from_code(text), None, "{text}");
            assert_eq!($Name::from_name(text), None, "{text}");
        }
    }};
}

trait NameText {
    fn text(self) -> &'static str;
}

impl NameText for &'static str {
    fn text(self) -> &'static str {
        self
    }
}

impl NameText for Option<&'static str> {
    fn text(self) -> &'static str {
        self.unwrap()
    }
}

#[test]
fn session_codes_and_names_round_trip() {
    check!(ThreeDsSessionType: "customer" "customer", "merchant" "merchant");
    check!(AuthenticationCategory: "01" "payment", "02" "non-payment");
    check!(DeviceChannel: "01" "app", "02" "browser", "03" "merchant");
    check!(MethodCompletion: "Y" "completed", "N" "not-completed", "U" "unavailable");
    assert_eq!(Device::from_request("app"), Some(Device::Mobile));
    assert_eq!(Device::from_request("mobile"), Some(Device::Mobile));
    assert_eq!(Device::from_request("browser"), Some(Device::Browser));
    assert_eq!(Device::from_request("tv"), None);
    assert_eq!(Device::Mobile.name(), "mobile");
}

#[test]
fn request_codes_and_names_round_trip() {
    check!(ChallengePreference:
        "01" "no-preference", "02" "no-challenge", "03" "challenge-requested",
        "04" "challenge-mandated", "05" "no-challenge-risk-analysis-performed",
        "06" "no-challenge-data-sharing-only", "07" "no-challenge-strong-consumer-auth",
        "08" "no-challenge-whitelist-exemption", "09" "challenge-requested-whitelist-prompt",
        "90" "cartes-bancaires");
    check!(TransactionType: "01" "purchase", "03" "check-acceptance", "10" "account-funding",
        "11" "quasi-cash", "28" "prepaid-activation-load");
    check!(DeliveryTimeFrame: "01" "electronic-delivery", "02" "same-day-shipping",
        "03" "overnight-shipping", "04" "two-or-more-day-shipping");
    check!(ShippingMethod: "01" "ship-to-billing-address", "02" "ship-to-verified-address",
        "03" "ship-to-different-address", "04" "ship-to-store", "05" "digital-goods",
        "06" "travel-and-event-tickets", "07" "other");
    check!(PreOrder: "01" "false", "02" "true");
    check!(Reorder: "01" "false", "02" "true");
    check!(SuspiciousActivity: "01" "false", "02" "true");
    check!(ShippingNameMatch: "02" "false", "01" "true");
    check!(YesNo: "Y" "true", "N" "false");
}

#[test]
fn cardholder_codes_and_names_round_trip() {
    check!(AccountType: "01" "not-applicable", "02" "credit", "03" "debit");
    check!(AccountAge: "01" "no-account", "02" "created-this-transaction",
        "03" "less-than-30-days", "04" "30-to-60-days", "05" "more-than-60-days");
    check!(AccountChange: "01" "changed-this-transaction", "02" "less-than-30-days",
        "03" "30-to-60-days", "04" "more-than-60-days");
    check!(PasswordChange: "01" "no-change", "02" "changed-this-transaction",
        "03" "less-than-30-days", "04" "30-to-60-days", "05" "more-than-60-days");
    check!(PaymentAccountAge: "01" "no-account", "02" "created-this-transaction",
        "03" "less-than-30-days", "04" "30-to-60-days", "05" "more-than-60-days");
    check!(ShippingAddressUse: "01" "this-transaction", "02" "less-than-30-days",
        "03" "30-to-60-days", "04" "more-than-60-days");
    check!(LoginMethod: "01" "no-login", "02" "username-password", "03" "federated-id",
        "04" "issuer-credentials", "05" "third-party", "06" "fido", "07" "fido-data-signed",
        "08" "src-assurance-data");
    check!(PriorMethod: "01" "frictionless", "02" "challenged", "03" "avs-verified", "04" "other");
    let first = ShippingAddressUse::from_request("address-first-used");
    assert_eq!(first, Some(ShippingAddressUse::ThisTransaction));
}

#[test]
fn outcome_codes_and_names_round_trip() {
    check!(Status: "Y" "successful", "A" "attempted", "N" "failed", "U" "unavailable",
        "C" "challenge", "D" "decoupled_challenge", "R" "rejected", "I" "informational");
    check!(ChallengeType: "01" "static", "02" "dynamic", "03" "out-of-band", "04" "decoupled");
    check!(WhitelistStatus: "Y" "merchant-trusted", "N" "merchant-not-trusted",
        "E" "not-eligible", "P" "pending-confirmation", "R" "request-to-trust-rejected",
        "U" "unknown");
    check!(WhitelistSource: "01" "3ds-server", "02" "directory-server", "03" "acs");
    check!(AcsInformation: "01" "threeds-auth-available", "02" "threeds-attempts-supported",
        "03" "threeds-decoupled-authentication-supported", "04" "threeds-whitelisting-supported");
    let names = [
        "cardholder-canceled",
        "requestor-canceled",
        "transaction-abandoned",
        "acs-timeout",
        "acs-timeout-request-not-received",
        "error",
        "unknown",
    ];
    for (name, code) in names.into_iter().zip(["01", "02", "03", "04", "05", "06", "07"]) {
        let value = ChallengeCancel::from_code(code).unwrap();
        assert_eq!((value.name(), ChallengeCancel::from_name(name)), (Some(name), Some(value)));
    }
    let timeout = ChallengeCancel::from_code("08").unwrap();
    assert_eq!((timeout.name(), timeout.code()), (Some("unknown"), "08".to_owned()));
}

/// The names in the order of their codes, as documented.
#[test]
fn status_reason_codes_have_names_per_scheme() {
    let names = "card-authentication-failed, unknown-device, unsupported-device, \
        too-many-authentication-attempts, card-expired, invalid-card-number, invalid-transaction, \
        no-card-record, security-failure, stolen-card, suspected-fraud, \
        transaction-not-permitted, cardholder-not-enrolled, timeout-at-acs, low-confidence, \
        medium-confidence, high-confidence, very-high-confidence, max-challenges-exceeded, \
        non-payment-transaction-not-supported, 3ri-not-supported, acs-technical-issue, \
        decoupled-authentication-required, decoupled-authentication-timeout, \
        insufficient-decoupled-authentication-time, authentication-attempted-but-not-performed";
    let names: Vec<_> = names.split(", ").collect();
    assert_eq!(names.len(), StatusReason::ALL.len());
    for (name, number) in names.into_iter().zip(1..) {
        let reason = StatusReason::from_code(&format!("{number:02}")).unwrap();
        assert_eq!((reason.name(), StatusReason::from_name(name)), (Some(name), Some(reason)));
        assert_eq!(reason.name_for_scheme(Scheme::Jcb), Some(name));
        assert_eq!(reason.exists_in_2_1_0(), number < 22, "{name}");
    }
    for invalid in ["27", "79", "00", "100", "8", "+80"] {
        assert_eq!(StatusReason::from_code(invalid), None, "{invalid}");
    }
    for (scheme, code, name) in [
        (Scheme::Visa, "80", Some("error-connecting-to-acs")),
        (Scheme::Mastercard, "80", Some("identity-check-insights")),
        (Scheme::Jcb, "80", None),
        (Scheme::Visa, "88", None),
        (Scheme::Visa, "99", None),
    ] {
        let reason = StatusReason::from_code(code).unwrap();
        assert_eq!((reason.name_for_scheme(scheme), reason.code()), (name, code.to_owned()));
    }
}

#[test]
fn authentication_types_map_to_emv_codes_per_session_type() {
    let rows: &[(&str, Option<&str>, Option<&str>)] = &[
        ("payment-transaction", Some("01"), None),
        ("cardholder-emv-verification", Some("06"), None),
        ("split-or-delayed-shipment", None, Some("06")),
        ("top-up", None, Some("07")),
        ("mail-order", None, Some("08")),
        ("telephone-order", None, Some("09")),
        ("whitelist-status-check", None, Some("10")),
        ("other-payment", None, Some("11")),
        ("billing-agreement", None, Some("12")),
        ("recurring-transaction", Some("02"), Some("01")),
        ("installment-transaction", Some("03"), Some("02")),
        ("add-card", Some("04"), Some("03")),
        ("maintain-card", Some("05"), Some("04")),
        ("account-verification", Some("05"), Some("05")),
    ];
    assert_eq!(rows.len(), AuthenticationType::ALL.len());
    for (name, customer, merchant) in rows {
        let kind = AuthenticationType::from_name(name).unwrap();
        assert_eq!(
            kind.to_requestor_authentication().map(|it| it.code()).as_deref(),
            *customer,
            "{name}"
        );
        assert_eq!(
            kind.to_requestor_initiated().map(|it| it.code()).as_deref(),
            *merchant,
            "{name}"
        );
        assert_eq!(kind.is_allowed_in(ThreeDsSessionType::Customer), customer.is_some());
        assert_eq!(kind.is_allowed_in(ThreeDsSessionType::Merchant), merchant.is_some());
    }
}

#[test]
fn error_codes_schemes_and_ecis_match_emv() {
    let codes = [
        "101", "102", "103", "201", "202", "203", "204", "301", "302", "303", "304", "305", "306",
        "307", "402", "403", "404", "405",
    ];
    let actual_codes: Vec<_> = ErrorCode::ALL.iter().map(|it| it.code()).collect();
    assert_eq!(actual_codes, codes);
    check!(Component: "C" "SDK", "S" "3DS Server", "D" "Directory Server",
        "A" "Access Control Server");
    check!(Scheme: "A000000003" "Visa", "A000000004" "Mastercard",
        "A000000025" "American Express", "A000000152" "Discover", "A000000065" "JCB",
        "A000000042" "Cartes Bancaires", "A000000333" "UPI");
    let payment = AuthenticationCategory::Payment;
    for (scheme, status, eci) in [
        (Scheme::Visa, Status::Successful, "05"),
        (Scheme::Visa, Status::Attempted, "06"),
        (Scheme::Jcb, Status::Failed, "07"),
        (Scheme::Mastercard, Status::Successful, "02"),
        (Scheme::Mastercard, Status::Attempted, "01"),
        (Scheme::Mastercard, Status::Rejected, "00"),
        (Scheme::CartesBancaires, Status::Successful, "05"),
    ] {
        assert_eq!(scheme.eci(status, payment), eci, "{status:?} payment of {scheme:?}");
    }
    let mastercard_eci =
        Scheme::Mastercard.eci(Status::Successful, AuthenticationCategory::NonPayment);
    assert_eq!(mastercard_eci, "N2");
}

#[test]
fn color_depth_rounds_down_to_an_emv_value() {
    for (reported, used) in [("30", "24"), ("24", "24"), ("64", "48"), ("1", "1"), ("3", "1")] {
        assert_eq!(ColorDepth::round_down(reported).map(ColorDepth::code), Some(used));
    }
    assert_eq!(ColorDepth::round_down("0"), None);
    assert_eq!(ColorDepth::round_down("x"), None);
}
