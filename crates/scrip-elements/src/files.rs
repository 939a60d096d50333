//! The table of embedded files.

/// One file of `web/`.
#[derive(Debug, Clone, Copy)]
pub struct WebFile {
    pub name: &'static str,
    pub content: &'static [u8],
}

/// Embeds files of `web/`.
macro_rules! embed {
    ($($name:literal,)*) => {
        &[$(WebFile { name: $name, content: include_bytes!(concat!("../web/", $name)) },)*]
    };
}

/// All files, sorted by name. The release hash depends on the order.
pub(crate) const FILES: &[WebFile] = embed![
    "client.js",
    "controller.html",
    "controller/answers.js",
    "controller/calls.js",
    "controller/case.js",
    "controller/comparison.js",
    "controller/controller.js",
    "controller/encryption.js",
    "controller/failure.js",
    "controller/filling.js",
    "controller/jwe.js",
    "controller/kept-sessions.js",
    "controller/payload.js",
    "controller/references.js",
    "controller/request.js",
    "controller/value-kinds.js",
    "field.css",
    "field.html",
    "field/announcements.js",
    "field/arrival.js",
    "field/autofill.js",
    "field/bin-lookup.js",
    "field/copy-button-field.js",
    "field/field-options.js",
    "field/field-value.js",
    "field/field.js",
    "field/format/brand.js",
    "field/format/card-brands.js",
    "field/format/digits.js",
    "field/format/expiration.js",
    "field/format/mask.js",
    "field/input-field.js",
    "field/input-part.js",
    "field/number-content.js",
    "field/part-kinds.js",
    "field/payer-entry.js",
    "field/plain-message.js",
    "field/quiet-edits.js",
    "field/report.js",
    "field/rules/page-rules.js",
    "field/rules/page-validation.js",
    "field/rules/rule-worker.js",
    "field/set-values.js",
    "field/siblings.js",
    "field/view/copying.js",
    "field/view/field-view.js",
    "field/view/icons.js",
    "field/view/networks.js",
    "field/view/style.js",
    "field/view/texts.js",
    "parent-channel.js",
];

/// The media type, by the ending of the name. A test ensures that every ending is known.
pub(crate) fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, it)| it) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("html") => "text/html; charset=utf-8",
        _ => UNKNOWN_TYPE,
    }
}

const UNKNOWN_TYPE: &str = "application/octet-stream";

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// Files of `web/` that are not served: they configure the type checker.
    const TOOL_FILES: [&str; 1] = ["tsconfig.json"];

    fn list_files(folder: &Path, prefix: &str, names: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().into_string().unwrap());
            if entry.file_type().unwrap().is_dir() {
                list_files(&entry.path(), &format!("{name}/"), names);
            } else {
                names.push(name);
            }
        }
    }

    #[test]
    fn table_has_every_file_of_the_folder_in_order() {
        let mut names = Vec::new();
        list_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("web"), "", &mut names);
        names.retain(|it| !TOOL_FILES.contains(&it.as_str()));
        names.sort_unstable();
        let table: Vec<_> = FILES.iter().map(|it| it.name).collect();
        assert_eq!(table, names);
    }

    #[test]
    fn every_file_has_a_known_media_type() {
        for file in FILES {
            assert_ne!(content_type(file.name), UNKNOWN_TYPE, "{}", file.name);
        }
    }
}
