//! The input of the MAC of each policy row, byte by byte: a stored row must stay valid.

use std::fmt::Write as _;

use super::*;
use crate::policy::access_session::{AccessSessionGrant, AccessSessionId, AccessSessionRecord};

/// The parts of a place, one per line: text if it is printable, otherwise hexadecimal digits, and
/// `-` for an absent part. The first line is the version of the format.
fn describe(place: &Place) -> String {
    let text = format!("{place:?}");
    let numbers = text.trim_start_matches("Place([").trim_end_matches("])");
    let bytes: Vec<u8> = numbers.split(", ").map(|it| it.parse().unwrap()).collect();
    let (version, mut rest) = bytes.split_first().unwrap();
    let mut lines = format!("{version}\n");
    while let Some((length, remaining)) = rest.split_first_chunk::<8>() {
        let length = u64::from_be_bytes(*length);
        if length == u64::MAX {
            lines.push_str("-\n");
            rest = remaining;
            continue;
        }
        let (part, remaining) = remaining.split_at(usize::try_from(length).unwrap());
        let is_text = part.len() > 2 && part.iter().all(|it| matches!(it, b' '..=b'~'));
        if is_text {
            lines.push_str(std::str::from_utf8(part).unwrap());
        } else {
            part.iter().for_each(|it| write!(lines, "{it:02x}").unwrap());
        }
        lines.push('\n');
        rest = remaining;
    }
    assert!(rest.is_empty());
    lines
}

#[test]
fn places_of_policy_rows_keep_their_bytes() {
    let sessions = [access_session(false), access_session(true)];
    let (tenants, proxies) =
        ([tenant(false), tenant(true)], [filled_proxy(false), filled_proxy(true)]);
    let applications = [filled_application(false), filled_application(true)];
    let webhooks = [filled_webhook(false), filled_webhook(true)];
    let places = [
        ("tenant min", tenants[0].place()),
        ("tenant full", tenants[1].place()),
        ("app min", applications[0].place()),
        ("app full", applications[1].place()),
        ("api key", api_key(3, 4).place()),
        ("proxy min", proxies[0].place()),
        ("proxy full", proxies[1].place()),
        ("webhook min", webhooks[0].place()),
        ("webhook full", webhooks[1].place()),
        ("client key", client_key(7).place()),
        ("session min", sessions[0].place()),
        ("session full", sessions[1].place()),
    ];
    let describe_named = |(name, place): &(&str, Place)| format!("== {name}\n{}", describe(place));
    let text = places.iter().map(describe_named).collect::<Vec<_>>().join("\n");
    assert_eq!(text, include_str!("place_bytes.txt"));
}

pub(super) fn tenant(is_filled: bool) -> TenantRecord {
    let mut tenant = records().1.tenant.record;
    tenant.keys.permanent = Sealed::from_stored(vec![7, 8]);
    tenant.keys.sealing =
        vec![(1, Sealed::from_stored(vec![5])), (2, Sealed::from_stored(vec![6]))];
    if is_filled {
        tenant.modified = Some(stamp(3));
        tenant.deletes_at = Some(Timestamp { unix_ms: 4 });
        tenant.keys.promoted = Some(2);
    }
    tenant
}

pub(super) fn filled_application(is_filled: bool) -> ApplicationRecord {
    let mut application = application(1);
    if is_filled {
        application.modified = Some(ChangeStamp { by: None, at: Timestamp { unix_ms: 3 } });
        application.origins = ApplicationOrigins::from_stored("https://shop.example").unwrap();
    }
    application
}

pub(super) fn filled_proxy(is_filled: bool) -> ProxyRecord {
    let proxy = proxy(5);
    if is_filled {
        let host = HostName::parse("a.example").ok();
        ProxyRecord { disable_detokenization: true, host, modified: Some(stamp(3)), ..proxy }
    } else {
        ProxyRecord { application: None, require_auth: false, ..proxy }
    }
}

pub(super) fn filled_webhook(is_filled: bool) -> WebhookRecord {
    WebhookRecord { modified: is_filled.then(|| stamp(3)), ..webhook(6) }
}

pub(super) fn access_session(is_filled: bool) -> AccessSessionRecord {
    let grant = AccessSessionGrant {
        authorizer: ApplicationId(Uuid::from_bytes([6; 16])),
        api_key: ApiKeyId(Uuid::from_bytes([7; 16])),
        at: Timestamp { unix_ms: 8 },
        access: application(1).access,
    };
    AccessSessionRecord {
        id: AccessSessionId([1; 32]),
        tenant: TenantId(Uuid::nil()),
        application: ApplicationId(Uuid::from_bytes([2; 16])),
        nonce: [3; 32],
        created_at: Timestamp { unix_ms: 4 },
        expires_at: Timestamp { unix_ms: 5 },
        grant: is_filled.then_some(grant),
    }
}
