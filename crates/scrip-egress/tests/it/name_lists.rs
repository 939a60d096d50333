//! The operator's list of allowed names and networks.

use scrip_egress::{
    AddressClass, AllowEntry, AllowList, CheckError, Destination, EgressSettings, GuardRejection,
    TrustedRoots,
};

use crate::support::{SCOPE, TableResolver, client};

const PUBLIC: &str = "93.184.216.34";
const NOT_LISTED: GuardRejection = GuardRejection::NotListed;
const UNLISTED: GuardRejection = GuardRejection::UnlistedAddress;
const LOCAL_NAME: GuardRejection = GuardRejection::LocalName;
const LOOPBACK: GuardRejection = GuardRejection::Address(AddressClass::Loopback);
const PRIVATE: GuardRejection = GuardRejection::Address(AddressClass::Private);
const METADATA: GuardRejection = GuardRejection::Address(AddressClass::Metadata);
const UNSPECIFIED: GuardRejection = GuardRejection::Address(AddressClass::Unspecified);
const MULTICAST: GuardRejection = GuardRejection::Address(AddressClass::Multicast);

/// The list, the name, its addresses, and the rejection.
type ListCase =
    (&'static [&'static str], &'static str, &'static [&'static str], Option<GuardRejection>);

#[tokio::test]
async fn list_restricts_names_and_permits_networks() {
    let rows: &[ListCase] = &[
        (&[], "a.example", &[PUBLIC], None),
        (&["api.example"], "api.example", &[PUBLIC], None),
        (&["API.Example"], "api.example", &[PUBLIC], None),
        (&["api.example"], "b.api.example", &[PUBLIC], Some(NOT_LISTED)),
        (&["api.example"], "api.example.hostile.example", &[PUBLIC], Some(NOT_LISTED)),
        (&["*.example.com"], "api.example.com", &[PUBLIC], None),
        (&["*.example.com"], "a.b.example.com", &[PUBLIC], None),
        (&["*.example.com"], "example.com", &[PUBLIC], Some(NOT_LISTED)),
        (&["*.example.com"], "hostileexample.com", &[PUBLIC], Some(NOT_LISTED)),
        (&["*.example.com"], "example.com.hostile.example", &[PUBLIC], Some(NOT_LISTED)),
        (&["*"], "anything.example", &[PUBLIC], None),
        // A network alone allows the names in it, and no other.
        (&["93.184.216.0/24"], "a.example", &[PUBLIC], None),
        (&["93.184.216.34"], "a.example", &[PUBLIC], None),
        (&["93.184.216.0/24"], "a.example", &["93.184.217.1"], Some(UNLISTED)),
        (&["93.184.216.0/24"], "a.example", &[PUBLIC, "93.184.217.1"], Some(UNLISTED)),
        // An address that is not public needs its network, also with its name on the list.
        (&["a.example"], "a.example", &["10.1.2.3"], Some(PRIVATE)),
        (&["*"], "a.example", &["10.1.2.3"], Some(PRIVATE)),
        (&["a.example", "10.1.0.0/16"], "a.example", &["10.1.2.3"], None),
        (&["10.1.0.0/16"], "a.example", &["10.1.2.3"], None),
        (&["10.1.0.0/16"], "a.example", &["::ffff:10.1.2.3"], None),
        (&["10.1.0.0/16"], "a.example", &["64:ff9b::10.1.2.3"], Some(PRIVATE)),
        (&["10.1.0.0/16"], "a.example", &["10.2.2.3"], Some(PRIVATE)),
        (&["10.1.0.0/16"], "a.example", &["10.1.2.3", "127.0.0.1"], Some(LOOPBACK)),
        (&["fd00::/8"], "a.example", &["fd00::1"], None),
        (&["127.0.0.0/8", "*"], "a.example", &["127.0.0.1"], None),
        // No entry permits these.
        (&["0.0.0.0/0", "::/0"], "a.example", &["169.254.169.254"], Some(METADATA)),
        (&["0.0.0.0/0", "::/0"], "a.example", &["fd00:ec2::254"], Some(METADATA)),
        (&["0.0.0.0/0", "::/0"], "a.example", &["0.0.0.0"], Some(UNSPECIFIED)),
        (&["0.0.0.0/0", "::/0"], "a.example", &["::"], Some(UNSPECIFIED)),
        (&["0.0.0.0/0", "::/0"], "a.example", &["224.0.0.1"], Some(MULTICAST)),
        // Local names need an entry of their own.
        (&["*"], "psp.internal", &[PUBLIC], Some(LOCAL_NAME)),
        (&["10.1.0.0/16"], "psp.internal", &["10.1.2.3"], Some(LOCAL_NAME)),
        (&["psp.internal", "10.1.0.0/16"], "psp.internal", &["10.1.2.3"], None),
        (&["*.internal", "10.1.0.0/16"], "psp.internal", &["10.1.2.3"], None),
    ];
    for (entries, name, addresses, expected) in rows {
        let mut settings = EgressSettings::new(TrustedRoots::none());
        settings.allow_list = AllowList::parse(entries.iter().copied()).unwrap();
        settings.resolver = TableResolver::new(&[(name, &[addresses])]);
        let destination = Destination::parse(&format!("https://{name}/")).unwrap();
        let decision = client(settings).check(&destination, SCOPE).await;
        let expected = expected.map(CheckError::Rejected);
        assert_eq!(decision.err(), expected, "{entries:?} {name} {addresses:?}");
    }
}

#[test]
fn list_entries_are_names_or_networks() {
    for text in ["*", "a.example", "*.a.example", "*.internal", "10.0.0.0/8", "::1/128"] {
        assert_eq!(text.parse::<AllowEntry>().unwrap().to_string(), text);
    }
    assert_eq!("10.1.2.3/8".parse::<AllowEntry>().unwrap().to_string(), "10.0.0.0/8");
    for text in
        ["", "localhost", "a.*.example", "**", "*a.example", "a.example:443", "https://a.example"]
    {
        assert!(text.parse::<AllowEntry>().is_err(), "{text}");
    }
    for text in ["10.0.0.0/33", "*.", "*..a", "a b", "a.example.", "127.1", "ä.example"] {
        assert!(text.parse::<AllowEntry>().is_err(), "{text}");
    }
}
