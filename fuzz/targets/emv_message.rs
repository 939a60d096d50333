//! Bytes from directory servers and browsers: whatever is read as a message is written and read
//! again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrip_threeds::{
    code::{AuthenticationCategory, DeviceChannel},
    format::Version,
    message::{
        AReq, ARes, CReq, CRes, Document, Erro, Known, Message, PReq, PRes, RReq, RRes, Scene,
    },
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = Document::read(bytes) else { return };
    let _ = (document.version_number(), document.trans_id("threeDSServerTransID"));
    for scene in scenes() {
        again::<PReq>(&document, &scene);
        again::<PRes>(&document, &scene);
        again::<AReq>(&document, &scene);
        again::<ARes>(&document, &scene);
        again::<CReq>(&document, &scene);
        again::<CRes>(&document, &scene);
        again::<RReq>(&document, &scene);
        again::<RRes>(&document, &scene);
        again::<Erro>(&document, &scene);
    }
});

fn scenes() -> impl Iterator<Item = Scene> {
    let channels = [DeviceChannel::App, DeviceChannel::Browser, DeviceChannel::Requestor];
    let categories = [AuthenticationCategory::Payment, AuthenticationCategory::NonPayment];
    [Version::V210, Version::V220].into_iter().flat_map(move |version| {
        let alone = Scene::of(version);
        let within = channels.into_iter().flat_map(move |channel| {
            categories.into_iter().map(move |category| alone.within(channel, category))
        });
        within.chain([alone, Scene { extensions: Known::All, ..alone }])
    })
}

fn again<M: Message>(document: &Document, scene: &Scene) {
    let Ok(message) = document.read_as::<M>(scene) else { return };
    assert_eq!(message.check(scene), Ok(()));
    let written = message.to_json();
    let read = Document::within(&written, M::BYTES_MAX).and_then(|it| it.read_as::<M>(scene));
    let read = read.expect("what was written is read");
    assert_eq!(*read.to_json(), *written, "what was read is what was written");
}
