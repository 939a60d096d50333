//! Fields of forms that browsers post: as they come, and with the bytes in base64url.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrip_threeds::{
    encoding::{MethodData, decode, encode, read_creq, read_cres, write},
    format::Version,
    message::Scene,
};

fuzz_target!(|bytes: &[u8]| {
    let encoded = encode(bytes);
    assert_eq!(decode(&encoded).as_deref().map(Vec::as_slice), Ok(bytes));
    read(&encoded);
    if let Ok(text) = std::str::from_utf8(bytes) {
        read(text);
    }
});

fn read(text: &str) {
    if let Ok(data) = MethodData::read(text) {
        assert_eq!(MethodData::read(&data.write()), Ok(data));
    }
    if let Ok(response) = read_cres(text) {
        let written = write(&response);
        assert_eq!(read_cres(&written).map(|it| write(&it)), Ok(written));
    }
    for version in [Version::V210, Version::V220] {
        let scene = Scene::of(version);
        if let Ok(request) = read_creq(text, &scene) {
            let written = write(&request);
            assert_eq!(read_creq(&written, &scene).map(|it| write(&it)), Ok(written));
        }
    }
}
