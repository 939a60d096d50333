//! The defaults of the lenient mode.

use super::*;
use crate::code::Scheme;

fn lenient(scheme: Scheme) -> Strictness<'static> {
    Strictness::Lenient { scheme, server_name: "Scrip", requestor_url: "https://vault.example" }
}

#[test]
fn strict_mode_fills_in_nothing() {
    let mut fixture = customer();
    fixture.request.requestor_info = None;
    fixture.purchase().transaction_type = None;
    fixture.request = fill_defaults(&fixture.request, Strictness::Strict);
    let paths: Vec<_> = fixture.violations().into_iter().map(|it| it.path).collect();
    assert_eq!(paths, ["purchase_info.transaction_type", "requestor_info"]);
}

#[test]
fn lenient_mode_fills_in_transaction_type_and_requestor() {
    let mut fixture = customer();
    fixture.request.requestor_info = None;
    fixture.purchase().transaction_type = None;
    fixture.request = fill_defaults(&fixture.request, lenient(Scheme::Visa));
    assert_eq!(fixture.violations(), []);
    let areq = fixture.build_areq().unwrap();
    assert_eq!(areq.requestor_id.expose(), "MID1");
    assert_eq!(areq.requestor_url.expose(), "https://vault.example");
    assert_eq!(areq.transaction_type.map(|it| it.name()), Some("purchase"));
}

#[test]
fn lenient_mode_keeps_submitted_values() {
    let mut fixture = customer();
    fixture.purchase().transaction_type = some("quasi-cash");
    fixture.merchant().url = some("https://merchant.example");
    fixture.request.requestor_info.as_mut().unwrap().url = None;
    let request = fill_defaults(&fixture.request, lenient(Scheme::Mastercard));
    let requestor = request.requestor_info.unwrap();
    assert_eq!((requestor.id, requestor.name), (some("MID1"), some("Shop")));
    assert_eq!(requestor.url, some("https://merchant.example"));
    assert_eq!(request.purchase_info.unwrap().transaction_type, some("quasi-cash"));
}

#[test]
fn lenient_mode_adds_no_transaction_type_without_payment() {
    let mut fixture = customer();
    fixture.request.authentication_category = some("non-payment");
    fixture.purchase().transaction_type = None;
    let request = fill_defaults(&fixture.request, lenient(Scheme::Visa));
    assert_eq!(request.purchase_info.unwrap().transaction_type, None);
}

#[test]
fn requestor_id_and_name_follow_the_scheme() {
    let scheme_identifiers = RequestorInfo {
        cb_siret_number: some("12345678901234"),
        discover_client_id: some("C1"),
        amex_requestor_type: some("AGG"),
        ..RequestorInfo::default()
    };
    for (scheme, requestor, id, name) in [
        (Scheme::Visa, None, "MID1", "Shop"),
        (Scheme::Mastercard, None, "MID1", "Scrip_MID1"),
        (Scheme::Discover, Some(&scheme_identifiers), "C1_Shop", "Shop"),
        (Scheme::Jcb, None, "444444MCTMID1", "MID1"),
        (Scheme::AmericanExpress, None, "MERMID1", "MID1"),
        (Scheme::AmericanExpress, Some(&scheme_identifiers), "AGGMID1", "MID1"),
        (Scheme::CartesBancaires, Some(&scheme_identifiers), "12345678901234", "Shop"),
        (Scheme::CartesBancaires, None, "Shop", "Shop"),
    ] {
        let mut fixture = customer();
        fixture.request.requestor_info = requestor.cloned();
        let requestor_info =
            fill_defaults(&fixture.request, lenient(scheme)).requestor_info.unwrap();
        assert_eq!((requestor_info.id, requestor_info.name), (some(id), some(name)), "{scheme:?}");
    }
}
