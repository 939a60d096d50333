//! What a store lists, walked through from end to end, stretch by stretch.

use scrip_core::{
    listing::{Facet, ListTokens, Position, SurveyTokens},
    policy::Permission,
    token::{Container, Spans, TokenType},
};
use scrip_seal::{Fingerprint, IndexDigest};
use scrip_testing::store_harness::StoreHarness;

const PLACES: [Option<&str>; 4] = [None, Some("/a/"), Some("/b/"), Some("/c/")];

fn facets() -> Vec<Option<Facet>> {
    let indexes = (0..3).chain(8..11).map(|it| Facet::Index(IndexDigest([it; 16])));
    let fingerprints = (0..3).map(|it| Facet::Fingerprint(Fingerprint([it; 32])));
    let types = [TokenType::Card, TokenType::Token, TokenType::Bank].map(Facet::Type);
    let all = indexes.chain(fingerprints).chain(types).map(Some);
    std::iter::once(None).chain(all).collect()
}

/// Every list that can be asked for, with the ids in their order.
pub(crate) async fn lists(desk: &StoreHarness) -> String {
    let mut all = String::new();
    for place in PLACES {
        let container = place.map(|it| Container::parse(it).unwrap());
        let spans = desk.caller.spans(Permission::TokenRead, container.as_ref()).unwrap();
        for facet in facets() {
            let walked = walk(desk, facet, &spans, 2).await;
            all += &format!("{place:?} {facet:?} {walked:?}\n");
            if let None | Some(Facet::Index(_)) = facet {
                let facets = facet.into_iter().collect();
                all += &format!("newest {:?}\n", survey(desk, facets, &spans).await);
            }
        }
    }
    let both = [1, 9].map(|it| Facet::Index(IndexDigest([it; 16]))).to_vec();
    let spans = desk.caller.spans(Permission::TokenRead, None).unwrap();
    all + &format!("both {:?}", survey(desk, both, &spans).await)
}

pub(crate) async fn walk(
    desk: &StoreHarness,
    facet: Option<Facet>,
    spans: &Spans,
    entries_max: usize,
) -> Vec<(String, String)> {
    let mut walked = Vec::new();
    let mut after: Option<Position> = None;
    loop {
        let inquiry = desk.caller.inquire(Permission::TokenRead).unwrap();
        let list = ListTokens { facet, spans: spans.clone(), after, entries_max, now: desk.now() };
        let listing = desk.store().list_tokens(inquiry, list).await.unwrap();
        assert!(listing.tokens.len() <= entries_max);
        for (position, token) in listing.tokens {
            let container = position.container.as_str().to_owned();
            walked.push((container, token.record.id.as_str().to_owned()));
        }
        let Some(rest) = listing.rest else { return walked };
        after = Some(rest);
    }
}

async fn survey(desk: &StoreHarness, facets: Vec<Facet>, spans: &Spans) -> String {
    let inquiry = desk.caller.inquire(Permission::TokenRead).unwrap();
    let survey = SurveyTokens { facets, spans: spans.clone(), now: desk.now() };
    format!("{:?}", desk.store().survey_tokens(inquiry, survey).await.unwrap())
}
