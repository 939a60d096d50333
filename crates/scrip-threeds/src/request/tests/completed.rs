//! What a lenient server fills in.

use super::*;
use crate::code::Scheme;

fn lenient(scheme: Scheme) -> Strictness<'static> {
    Strictness::Lenient { scheme, server_name: "Scrip", requestor_url: "https://vault.example" }
}

#[test]
fn the_strict_server_changes_nothing() {
    let mut fixture = customer();
    fixture.request.requestor_info = None;
    fixture.purchase().transaction_type = None;
    fixture.request = completed(&fixture.request, Strictness::Strict);
    let paths: Vec<_> = fixture.violations().into_iter().map(|it| it.path).collect();
    assert_eq!(paths, ["purchase_info.transaction_type", "requestor_info"]);
}

#[test]
fn the_lenient_server_fills_in_what_samples_leave_out() {
    let mut fixture = customer();
    fixture.request.requestor_info = None;
    fixture.purchase().transaction_type = None;
    fixture.request = completed(&fixture.request, lenient(Scheme::Visa));
    assert_eq!(fixture.violations(), []);
    let made = fixture.make().unwrap();
    assert_eq!(made.requestor_id.expose(), "MID1");
    assert_eq!(made.requestor_url.expose(), "https://vault.example");
    assert_eq!(made.transaction_type.map(|it| it.name()), Some("purchase"));
}

#[test]
fn what_was_said_stays() {
    let mut fixture = customer();
    fixture.purchase().transaction_type = some("quasi-cash");
    fixture.merchant().url = some("https://merchant.example");
    fixture.request.requestor_info.as_mut().unwrap().url = None;
    let request = completed(&fixture.request, lenient(Scheme::Mastercard));
    let requestor = request.requestor_info.unwrap();
    assert_eq!((requestor.id, requestor.name), (some("MID1"), some("Shop")));
    assert_eq!(requestor.url, some("https://merchant.example"));
    assert_eq!(request.purchase_info.unwrap().transaction_type, some("quasi-cash"));
}

#[test]
fn no_payment_is_no_purchase() {
    let mut fixture = customer();
    fixture.request.authentication_category = some("non-payment");
    fixture.purchase().transaction_type = None;
    let request = completed(&fixture.request, lenient(Scheme::Visa));
    assert_eq!(request.purchase_info.unwrap().transaction_type, None);
}

#[test]
fn each_scheme_has_its_own_names() {
    let given = RequestorInfo {
        cb_siret_number: some("12345678901234"),
        discover_client_id: some("C1"),
        amex_requestor_type: some("AGG"),
        ..RequestorInfo::default()
    };
    for (scheme, requestor, id, name) in [
        (Scheme::Visa, None, "MID1", "Shop"),
        (Scheme::Mastercard, None, "MID1", "Scrip_MID1"),
        (Scheme::Discover, Some(&given), "C1_Shop", "Shop"),
        (Scheme::Jcb, None, "444444MCTMID1", "MID1"),
        (Scheme::AmericanExpress, None, "MERMID1", "MID1"),
        (Scheme::AmericanExpress, Some(&given), "AGGMID1", "MID1"),
        (Scheme::CartesBancaires, Some(&given), "12345678901234", "Shop"),
        (Scheme::CartesBancaires, None, "Shop", "Shop"),
    ] {
        let mut fixture = customer();
        fixture.request.requestor_info = requestor.cloned();
        let made = completed(&fixture.request, lenient(scheme)).requestor_info.unwrap();
        assert_eq!((made.id, made.name), (some(id), some(name)), "{scheme:?}");
    }
}
