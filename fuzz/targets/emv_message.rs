//! Bytes from directory servers and browsers: every parsed message is unchanged after it is written
//! and parsed again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrip_threeds::{
    code::{AuthenticationCategory, DeviceChannel},
    format::Version,
    message::{
        AReq, ARes, CReq, CRes, Document, Erro, KnownExtensions, Message, PReq, PRes, RReq, RRes,
        TransactionContext,
    },
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = Document::parse(bytes) else { return };
    let _ = (document.version_number(), document.trans_id("threeDSServerTransID"));
    for transaction in all_transactions() {
        check_round_trip::<PReq>(&document, &transaction);
        check_round_trip::<PRes>(&document, &transaction);
        check_round_trip::<AReq>(&document, &transaction);
        check_round_trip::<ARes>(&document, &transaction);
        check_round_trip::<CReq>(&document, &transaction);
        check_round_trip::<CRes>(&document, &transaction);
        check_round_trip::<RReq>(&document, &transaction);
        check_round_trip::<RRes>(&document, &transaction);
        check_round_trip::<Erro>(&document, &transaction);
    }
});

fn all_transactions() -> impl Iterator<Item = TransactionContext> {
    let channels = [DeviceChannel::App, DeviceChannel::Browser, DeviceChannel::Requestor];
    let categories = [AuthenticationCategory::Payment, AuthenticationCategory::NonPayment];
    [Version::V210, Version::V220].into_iter().flat_map(move |version| {
        let base = TransactionContext::for_version(version);
        let with_channel = channels.into_iter().flat_map(move |channel| {
            categories.into_iter().map(move |category| base.with_channel(channel, category))
        });
        let with_extensions = TransactionContext { known_extensions: KnownExtensions::All, ..base };
        with_channel.chain([base, with_extensions])
    })
}

fn check_round_trip<M: Message>(document: &Document, transaction: &TransactionContext) {
    let Ok(message) = document.parse_as::<M>(transaction) else { return };
    assert_eq!(message.check(transaction), Ok(()));
    let written = message.to_json();
    let parsed = Document::parse_within(&written, M::BYTES_MAX)
        .and_then(|it| it.parse_as::<M>(transaction))
        .expect("a written message can be parsed");
    assert_eq!(*parsed.to_json(), *written, "the message changed");
}
