//! The release: the hash of all files, and the form in which each file is served.

mod join;

use std::sync::LazyLock;

use base64::{Engine, prelude::BASE64_STANDARD};
use scrip_seal::{Checksum, sha384_checksum};
use scrip_types::hex::encode_hex;

use self::join::{join_modules, strip_comments};
use crate::files::{FILES, WebFile, content_type};

const CLIENT_SCRIPT: &str = "client.js";
/// The scripts of the frames and of the fields' worker, with the first module of each.
const FRAME_SCRIPTS: [(&str, &str); 3] = [
    ("controller.js", "controller/controller.js"),
    ("field.js", "field/field.js"),
    ("rule-worker.js", "field/rules/rule-worker.js"),
];
/// Replaced in pages by the release hash.
const RELEASE_PLACEHOLDER: &str = "{{release}}";
/// Replaced in pages by the origin of the fields.
const FIELD_ORIGIN_PLACEHOLDER: &str = "{{field-origin}}";
/// Replaced in pages by the allowed origins of the application.
const ORIGINS_PLACEHOLDER: &str = "{{origins}}";
/// 64 bits: enough to tell releases from each other, and short in a URL.
const HASH_DIGITS: usize = 16;

/// The embedded files of this program.
#[derive(Debug)]
pub struct Release {
    hash: String,
    integrity: String,
    files: Vec<ReleaseFile>,
    field: String,
    controller: String,
}

/// A file that is the same for every request.
#[derive(Debug)]
pub struct ReleaseFile {
    pub name: &'static str,
    pub content: String,
    pub content_type: &'static str,
    /// With its quotes.
    pub etag: String,
}

/// A page that a frame loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramePage {
    Field,
    Controller,
}

impl FramePage {
    pub const ALL: [Self; 2] = [Self::Field, Self::Controller];

    pub fn file_name(self) -> &'static str {
        match self {
            Self::Field => "field.html",
            Self::Controller => "controller.html",
        }
    }
}

/// What a page says to its script.
#[derive(Debug, Clone, Copy, Default)]
pub struct PageOrigins<'a> {
    /// The only origin in which the scripts of the page run. Empty for development: any origin.
    pub field_origin: &'a str,
    /// The allowed origins of the application, as JSON.
    pub allowed_origins: &'a str,
}

/// A page with the origins of an application.
#[derive(Debug)]
pub struct PageContent {
    pub html: String,
    /// With its quotes.
    pub etag: String,
}

/// Returns the release of this program.
pub fn release() -> &'static Release {
    static RELEASE: LazyLock<Release> = LazyLock::new(|| Release::new(FILES));
    &RELEASE
}

impl Release {
    fn new(files: &[WebFile]) -> Self {
        let hash = release_hash(files);
        let page = |page: FramePage| {
            let file = files.iter().find(|it| it.name == page.file_name());
            let text = file.map(|it| String::from_utf8_lossy(it.content)).unwrap_or_default();
            text.replace(RELEASE_PLACEHOLDER, &hash)
        };
        let (field, controller) = (page(FramePage::Field), page(FramePage::Controller));
        let files = served_files(files);
        let client = files.iter().find(|it| it.name == CLIENT_SCRIPT);
        let digest = sha384_checksum(client.map_or(&[], |it| it.content.as_bytes()));
        Self {
            integrity: format!("sha384-{}", BASE64_STANDARD.encode(digest)),
            files,
            field,
            controller,
            hash,
        }
    }

    /// The name of this release in URLs: hexadecimal digits.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The value of the attribute `integrity` for a script tag of `client.js`.
    pub fn client_integrity(&self) -> &str {
        &self.integrity
    }

    /// The script that defines `window.BasisTheoryElements`.
    pub fn client_script(&self) -> Option<&ReleaseFile> {
        self.find(CLIENT_SCRIPT)
    }

    /// Finds a script or a style. Pages are not found: they depend on the application.
    pub fn find(&self, name: &str) -> Option<&ReleaseFile> {
        self.files.iter().find(|it| it.name == name)
    }

    pub fn files(&self) -> &[ReleaseFile] {
        &self.files
    }

    /// Renders a page. `policy` is the security policy that the page is sent with: a page with
    /// another policy must not be taken from a cache, so the entity tag covers both.
    pub fn page(&self, page: FramePage, origins: PageOrigins<'_>, policy: &str) -> PageContent {
        let template = match page {
            FramePage::Field => &self.field,
            FramePage::Controller => &self.controller,
        };
        let html = template
            .replace(FIELD_ORIGIN_PLACEHOLDER, &escape_attribute(origins.field_origin))
            .replace(ORIGINS_PLACEHOLDER, &escape_attribute(origins.allowed_origins));
        let etag = entity_tag(&[html.as_bytes(), policy.as_bytes()]);
        PageContent { html, etag }
    }
}

/// The scripts and styles: one script for each frame, the script of the page, and the styles.
fn served_files(files: &[WebFile]) -> Vec<ReleaseFile> {
    let text = |it: &WebFile| String::from_utf8_lossy(it.content).into_owned();
    let mut served = Vec::new();
    for file in files.iter().filter(|it| it.name == CLIENT_SCRIPT) {
        served.push(ReleaseFile::new(file.name, strip_comments(&text(file))));
    }
    for file in files.iter().filter(|it| it.name.ends_with(".css")) {
        served.push(ReleaseFile::new(file.name, strip_comments(&text(file))));
    }
    for (name, module) in FRAME_SCRIPTS {
        // A test ensures that there is no error. A frame that does not start says why.
        let script = join_modules(files, module);
        let script = script.unwrap_or_else(|error| format!("throw new Error({error:?});\n"));
        served.push(ReleaseFile::new(name, script));
    }
    served
}

impl ReleaseFile {
    fn new(name: &'static str, content: String) -> Self {
        let etag = entity_tag(&[content.as_bytes()]);
        Self { name, content, content_type: content_type(name), etag }
    }
}

fn release_hash(files: &[WebFile]) -> String {
    let parts: Vec<_> = files.iter().flat_map(|it| [it.name.as_bytes(), it.content]).collect();
    short_digest(&parts)
}

fn entity_tag(parts: &[&[u8]]) -> String {
    format!("\"{}\"", short_digest(parts))
}

/// The first hexadecimal digits of a checksum. Each part is preceded by its length, so that bytes
/// cannot move from one part to the next.
fn short_digest(parts: &[&[u8]]) -> String {
    let mut sum = Checksum::new();
    for part in parts {
        sum.add(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        sum.add(part);
    }
    let mut digits = encode_hex(&sum.finish());
    digits.truncate(HASH_DIGITS);
    digits
}

/// Escapes a text for an HTML attribute, in quotes of either kind.
fn escape_attribute(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_hash_changes_with_a_name_or_a_byte_of_any_file() {
        let file = |name, content| WebFile { name, content };
        let hashes = [
            [file("a.js", b"1".as_slice()), file("b.js", b"2")],
            [file("a.js", b"1"), file("b.js", b"3")],
            [file("a.js", b"1"), file("c.js", b"2")],
            [file("a.js", b""), file("1b.js", b"2")],
        ]
        .map(|files| release_hash(&files));
        let distinct: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), hashes.len());
        assert!(hashes.iter().all(|it| it.len() == HASH_DIGITS));
    }

    #[test]
    fn modules_of_every_frame_can_be_joined() {
        for (name, module) in FRAME_SCRIPTS {
            let script = join_modules(FILES, module).unwrap();
            assert!(release().find(name).is_some_and(|it| it.content == script), "{name}");
        }
    }

    #[test]
    fn pages_refer_to_existing_files_of_the_release() {
        let release = release();
        for page in FramePage::ALL {
            let html = release.page(page, PageOrigins::default(), "").html;
            let prefix = format!("/elements/{}/", release.hash());
            let names: Vec<_> = html
                .split(&prefix)
                .skip(1)
                .map(|it| it.split(['"', '\'']).next().unwrap_or_default())
                .collect();
            assert!(!names.is_empty(), "{page:?}");
            for name in names {
                assert!(release.find(name).is_some(), "{page:?} refers to {name}");
            }
            assert!(!html.contains("{{"), "{page:?}");
        }
    }

    #[test]
    fn controller_has_the_origins_as_an_escaped_attribute() {
        let origins = r#"["https://shop.example"]"#;
        let origins = PageOrigins { allowed_origins: origins, ..PageOrigins::default() };
        let page = release().page(FramePage::Controller, origins, "");
        let expected = r#"content="[&quot;https://shop.example&quot;]""#;
        assert!(page.html.replace('\'', "\"").contains(expected), "{}", page.html);
    }

    #[test]
    fn every_page_has_the_origin_of_the_fields() {
        for page in FramePage::ALL {
            let origins = PageOrigins { field_origin: "https://a.example", allowed_origins: "[]" };
            let html = release().page(page, origins, "").html;
            let expected = r#"<meta name="scrip-field-origin" content="https://a.example">"#;
            assert!(html.contains(expected), "{html}");
        }
    }

    #[test]
    fn entity_tag_of_a_page_changes_with_its_policy() {
        let tag = |policy| release().page(FramePage::Field, PageOrigins::default(), policy).etag;
        assert_eq!(tag("frame-ancestors *"), tag("frame-ancestors *"));
        assert_ne!(tag("frame-ancestors *"), tag("frame-ancestors https://shop.example"));
    }

    #[test]
    fn attribute_text_cannot_end_its_attribute() {
        assert_eq!(escape_attribute("a&<>\"'b"), "a&amp;&lt;&gt;&quot;&#39;b");
    }

    /// The value of `openssl dgst -sha384 -binary | base64` for an empty input.
    #[test]
    fn integrity_is_the_base64_text_of_sha384() {
        let release = Release::new(&[]);
        assert_eq!(
            release.client_integrity(),
            "sha384-OLBgp1GsljhM2TJ+sbHjaiH9txEUvgdDTAzHv2P24donTt6/529l+9Ua0vFImLlb"
        );
    }
}
