//! `scrip config`: what is wrong with the settings, or what is in force.

use std::{
    io::{self, Write},
    path::Path,
};

use serde_json::json;

use crate::config::{
    Environment, SettingProblems, SettingSource, Settings,
    table::{SETTINGS, Setting},
    value::{ValueKind, threeds::SCHEME_SETTINGS},
};

/// How `check` says what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    Text,
    Json,
}

pub fn check_settings(
    path: Option<&Path>,
    format: OutputFormat,
    environment: &Environment,
) -> anyhow::Result<()> {
    let loaded = Settings::load(path, environment);
    let output = match (&loaded, format) {
        (Ok(settings), OutputFormat::Text) => describe(settings),
        (Ok(settings), OutputFormat::Json) => list(settings),
        (Err(error), OutputFormat::Json) if error.is::<SettingProblems>() => {
            let problems = error.downcast_ref::<SettingProblems>().map(|it| &it.0);
            format!("{}\n", json!({ "ok": false, "problems": problems }))
        }
        (Err(_), OutputFormat::Json | OutputFormat::Text) => String::new(),
    };
    io::stdout().lock().write_all(output.as_bytes())?;
    loaded.map(drop)
}

fn describe(settings: &Settings) -> String {
    let mut output = String::new();
    for it in &settings.effective {
        let (value, origin) = (format_value(it.setting, &it.text), &it.source);
        output += &format!("{:<32} = {value:<28} # {origin}\n", it.setting.path());
    }
    for (path, text) in &settings.of_schemes {
        output +=
            &format!("{path:<32} = {:<28} # {}\n", json!(text).to_string(), SettingSource::File);
    }
    let key = if settings.root_key.is_some() { "SCRIP_ROOT_KEY" } else { "the root key file" };
    output += &format!("the root key comes from {key}\n");
    for warning in &settings.warnings {
        output += &format!("warning: {warning}\n");
    }
    output
}

fn list(settings: &Settings) -> String {
    let rows = settings.effective.iter().map(|it| {
        json!({
            "name": it.setting.path(),
            "variable": it.setting.variable(),
            "value": it.text,
            "origin": it.source.to_string(),
        })
    });
    let of_schemes = settings.of_schemes.iter().map(
        |(path, text)| json!({ "name": path, "value": text, "origin": SettingSource::File.to_string() }),
    );
    let rows: Vec<_> = rows.chain(of_schemes).collect();
    format!("{}\n", json!({ "ok": true, "settings": rows, "warnings": settings.warnings }))
}

/// As the file would have it.
fn format_value(setting: &Setting, text: &str) -> String {
    match setting.kind {
        // JSON's escapes are TOML's too.
        ValueKind::Text => json!(text).to_string(),
        ValueKind::Number | ValueKind::Flag => text.to_owned(),
    }
}

/// A file with every setting, at its default.
pub(crate) fn example() -> String {
    let mut output = "\
# Every setting of `scrip serve`, at its default. Paths are relative to the working directory.
# A variable such as SCRIP_SERVER_LISTEN takes the place of the setting server.listen.
# Made by `scrip config example`; check yours with `scrip config check`.
"
    .to_owned();
    let mut section = "";
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            output += &format!("\n[{section}]\n");
        }
        for line in setting.description {
            output += &format!("#{line}\n");
        }
        output += &format!("{} = {}\n", setting.name, format_value(setting, setting.default));
    }
    output + &scheme_example()
}

/// Sections that are in this file only, and not in it unless somebody connects a scheme.
fn scheme_example() -> String {
    let mut output = "
# A scheme that is connected has a section of its own: [threeds.production.visa] for production
# tenants, [threeds.test.visa] for test tenants; further mastercard, american-express, discover, jcb,
# cartes-bancaires and unionpay. There are no variables for these.
#
# [threeds.production.visa]
"
    .to_owned();
    for setting in SCHEME_SETTINGS {
        for line in setting.description {
            output += &format!("# # {line}\n");
        }
        output += &format!("# {} = \"\"\n", setting.name);
    }
    output
}

pub fn print_example() -> anyhow::Result<()> {
    Ok(io::stdout().lock().write_all(example().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scrip.example.toml");

    #[test]
    fn example_file_lists_every_setting_with_its_default() {
        let text = fs::read_to_string(EXAMPLE).unwrap();
        assert_eq!(text, example(), "run: scrip config example > docs/scrip.example.toml");
        let settings = Settings::load(Some(Path::new(EXAMPLE)), &Environment::default()).unwrap();
        for it in &settings.effective {
            assert_eq!(it.source, SettingSource::File, "{} is missing", it.setting.path());
            assert_eq!(it.text, it.setting.default);
        }
    }

    #[test]
    fn operating_guide_documents_every_setting() {
        let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");
        let manual = fs::read_to_string(manual).unwrap();
        for setting in SETTINGS {
            assert!(manual.contains(&format!("`{}`", setting.path())), "{}", setting.path());
        }
    }
}
