//! What a store lists, walked through from end to end, stretch by stretch.

use scrip_core::{
    listing::{Facet, ListPosition, NewestTokensScan, TokenScan},
    policy::Permission,
    token::{Container, ContainerRanges, TokenType},
};
use scrip_seal::{Fingerprint, IndexDigest};
use scrip_testing::store_harness::StoreHarness;

const CONTAINERS: [Option<&str>; 4] = [None, Some("/a/"), Some("/b/"), Some("/c/")];

fn facets() -> Vec<Option<Facet>> {
    let indexes = (0..3).chain(8..11).map(|it| Facet::Index(IndexDigest([it; 16])));
    let fingerprints = (0..3).map(|it| Facet::Fingerprint(Fingerprint([it; 32])));
    let types = [TokenType::Card, TokenType::Token, TokenType::Bank].map(Facet::Type);
    let all = indexes.chain(fingerprints).chain(types).map(Some);
    std::iter::once(None).chain(all).collect()
}

/// Every list that can be asked for, with the ids in their order.
pub(crate) async fn describe_all_lists(harness: &StoreHarness) -> String {
    let mut all = String::new();
    for place in CONTAINERS {
        let container = place.map(|it| Container::parse(it).unwrap());
        let ranges =
            harness.caller.container_ranges(Permission::TokenRead, container.as_ref()).unwrap();
        for facet in facets() {
            let walked = list_all(harness, facet, &ranges, 2).await;
            all += &format!("{place:?} {facet:?} {walked:?}\n");
            if let None | Some(Facet::Index(_)) = facet {
                let facets = facet.into_iter().collect();
                all += &format!("newest {:?}\n", collect_newest(harness, facets, &ranges).await);
            }
        }
    }
    let both = [1, 9].map(|it| Facet::Index(IndexDigest([it; 16]))).to_vec();
    let ranges = harness.caller.container_ranges(Permission::TokenRead, None).unwrap();
    all + &format!("both {:?}", collect_newest(harness, both, &ranges).await)
}

pub(crate) async fn list_all(
    harness: &StoreHarness,
    facet: Option<Facet>,
    ranges: &ContainerRanges,
    entries_max: usize,
) -> Vec<(String, String)> {
    let mut walked = Vec::new();
    let mut after: Option<ListPosition> = None;
    loop {
        let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
        let scan =
            TokenScan { facet, ranges: ranges.clone(), after, entries_max, now: harness.now() };
        let listing = harness.store().scan_tokens(lookup, scan).await.unwrap();
        assert!(listing.tokens.len() <= entries_max);
        for (position, token) in listing.tokens {
            let container = position.container.as_str().to_owned();
            walked.push((container, token.record.id.as_str().to_owned()));
        }
        let Some(rest) = listing.resume_after else { return walked };
        after = Some(rest);
    }
}

async fn collect_newest(
    harness: &StoreHarness,
    facets: Vec<Facet>,
    ranges: &ContainerRanges,
) -> String {
    let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
    let scan = NewestTokensScan { facets, ranges: ranges.clone(), now: harness.now() };
    format!("{:?}", harness.store().find_newest_tokens(lookup, scan).await.unwrap())
}
