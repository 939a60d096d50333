//! Lists of a store, read completely in chunks.

use scrip_core::{
    card::TokenType,
    listing::{Facet, ListPosition, NewestTokensScan, TokenScan},
    types::{Container, ContainerRanges, Permission},
};
use scrip_seal::{Fingerprint, IndexDigest};
use scrip_testing::store_harness::{StoreHarness, counted_facet};

const CONTAINERS: [Option<&str>; 4] = [None, Some("/a/"), Some("/b/"), Some("/c/")];

fn facets() -> Vec<Option<Facet>> {
    let indexes = (0..3).chain(8..11).map(|it| Facet::Index(IndexDigest([it; 16])));
    let fingerprints = (0..3).map(|it| Facet::Fingerprint(Fingerprint([it; 32])));
    let types = [TokenType::Card, TokenType::Token, TokenType::Bank].map(Facet::Type);
    let single_facets = indexes.chain(fingerprints).chain(types).map(Some);
    std::iter::once(None).chain(single_facets).collect()
}

/// Describes all possible lists, with the ids in order.
pub(crate) async fn describe_all_lists(harness: &StoreHarness) -> String {
    let mut description = String::new();
    for container_name in CONTAINERS {
        let container = container_name.map(|it| Container::parse(it).unwrap());
        let ranges =
            harness.caller.container_ranges(Permission::TokenRead, container.as_ref()).unwrap();
        for facet in facets() {
            let tokens = list_all(harness, facet, &ranges, 2).await;
            description += &format!("{container_name:?} {facet:?} {tokens:?}\n");
            let facets = facet.into_iter().collect();
            description +=
                &format!("newest {:?}\n", collect_newest(harness, facets, &ranges).await);
        }
    }
    let ranges = harness.caller.container_ranges(Permission::TokenRead, None).unwrap();
    for facets in combined_facets() {
        let newest = collect_newest(harness, facets.clone(), &ranges).await;
        description += &format!("{facets:?} {newest:?}\n");
    }
    description
}

/// Facets of different kinds, in both orders: the first one selects the index entries, the others
/// filter them.
fn combined_facets() -> Vec<Vec<Facet>> {
    let index = |it| Facet::Index(IndexDigest([it; 16]));
    let fingerprint = Facet::Fingerprint(Fingerprint([1; 32]));
    let mut combinations = vec![vec![index(1), index(9)]];
    for token_type in [TokenType::Card, TokenType::Token] {
        for other_facet in [fingerprint, index(1)] {
            combinations.push(vec![other_facet, Facet::Type(token_type)]);
            combinations.push(vec![Facet::Type(token_type), other_facet]);
        }
    }
    combinations.push(vec![index(1), fingerprint]);
    combinations
}

pub(crate) async fn list_all(
    harness: &StoreHarness,
    facet: Option<Facet>,
    ranges: &ContainerRanges,
    entries_max: usize,
) -> Vec<(String, String)> {
    let mut tokens = Vec::new();
    let mut after: Option<ListPosition> = None;
    loop {
        let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
        let facet = facet.map(counted_facet);
        let scan =
            TokenScan { facet, ranges: ranges.clone(), after, entries_max, now: harness.now() };
        let listing = harness.store().scan_tokens(lookup, scan).await.unwrap();
        assert!(listing.tokens.len() <= entries_max);
        for (position, token) in listing.tokens {
            let container = position.container.as_str().to_owned();
            tokens.push((container, token.record.id.as_str().to_owned()));
        }
        let Some(position) = listing.resume_after else { return tokens };
        after = Some(position);
    }
}

async fn collect_newest(
    harness: &StoreHarness,
    facets: Vec<Facet>,
    ranges: &ContainerRanges,
) -> String {
    let lookup = harness.caller.permit_lookup(Permission::TokenRead).unwrap();
    let facets = facets.into_iter().map(counted_facet).collect();
    let scan = NewestTokensScan { facets, ranges: ranges.clone(), now: harness.now() };
    format!("{:?}", harness.store().find_newest_tokens(lookup, scan).await.unwrap())
}
