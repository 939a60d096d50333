//! `scrip config`: what is wrong with the settings, or what is in force.

use std::{
    io::{self, Write},
    path::Path,
};

use serde_json::json;

use crate::config::{
    Environment, Origin, Problems, Settings,
    table::{SETTINGS, Setting},
    value::{Form, threeds::OF_SCHEME},
};

/// How `check` says what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saying {
    Text,
    Json,
}

pub fn run(path: Option<&Path>, saying: Saying, environment: &Environment) -> anyhow::Result<()> {
    let loaded = Settings::load(path, environment);
    let said = match (&loaded, saying) {
        (Ok(settings), Saying::Text) => describe(settings),
        (Ok(settings), Saying::Json) => list(settings),
        (Err(error), Saying::Json) if error.is::<Problems>() => {
            let problems = error.downcast_ref::<Problems>().map(|it| &it.0);
            format!("{}\n", json!({ "ok": false, "problems": problems }))
        }
        (Err(_), Saying::Json | Saying::Text) => String::new(),
    };
    io::stdout().lock().write_all(said.as_bytes())?;
    loaded.map(drop)
}

fn describe(settings: &Settings) -> String {
    let mut said = String::new();
    for it in &settings.effective {
        let (value, origin) = (written(it.setting, &it.text), &it.origin);
        said += &format!("{:<32} = {value:<28} # {origin}\n", it.setting.path());
    }
    for (path, text) in &settings.of_schemes {
        said += &format!("{path:<32} = {:<28} # {}\n", json!(text).to_string(), Origin::File);
    }
    let key = if settings.root_key.is_some() { "SCRIP_ROOT_KEY" } else { "the root key file" };
    said += &format!("the root key comes from {key}\n");
    for warning in &settings.warnings {
        said += &format!("warning: {warning}\n");
    }
    said
}

fn list(settings: &Settings) -> String {
    let rows = settings.effective.iter().map(|it| {
        json!({
            "name": it.setting.path(),
            "variable": it.setting.variable(),
            "value": it.text,
            "origin": it.origin.to_string(),
        })
    });
    let of_schemes = settings.of_schemes.iter().map(
        |(path, text)| json!({ "name": path, "value": text, "origin": Origin::File.to_string() }),
    );
    let rows: Vec<_> = rows.chain(of_schemes).collect();
    format!("{}\n", json!({ "ok": true, "settings": rows, "warnings": settings.warnings }))
}

/// As the file would have it.
fn written(setting: &Setting, text: &str) -> String {
    match setting.form {
        // JSON's escapes are TOML's too.
        Form::Text => json!(text).to_string(),
        Form::Number | Form::Flag => text.to_owned(),
    }
}

/// A file with every setting, at its default.
pub(crate) fn example() -> String {
    let mut said = "\
# Every setting of `scrip serve`, at its default. Paths are relative to the working directory.
# A variable such as SCRIP_SERVER_LISTEN takes the place of the setting server.listen.
# Made by `scrip config example`; check yours with `scrip config check`.
"
    .to_owned();
    let mut section = "";
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            said += &format!("\n[{section}]\n");
        }
        for line in setting.about {
            said += &format!("#{line}\n");
        }
        said += &format!("{} = {}\n", setting.name, written(setting, setting.default));
    }
    said + &example_of_scheme()
}

/// Sections that are in this file only, and not in it unless somebody connects a scheme.
fn example_of_scheme() -> String {
    let mut said = "
# A scheme that is connected has a section of its own: [threeds.production.visa] for production
# tenants, [threeds.test.visa] for test tenants; further mastercard, american-express, discover, jcb,
# cartes-bancaires and unionpay. There are no variables for these.
#
# [threeds.production.visa]
"
    .to_owned();
    for setting in OF_SCHEME {
        for line in setting.about {
            said += &format!("# # {line}\n");
        }
        said += &format!("# {} = \"\"\n", setting.name);
    }
    said
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
    fn the_example_has_every_setting_at_its_default() {
        let text = fs::read_to_string(EXAMPLE).unwrap();
        assert_eq!(text, example(), "run: scrip config example > docs/scrip.example.toml");
        let settings = Settings::load(Some(Path::new(EXAMPLE)), &Environment::default()).unwrap();
        for it in &settings.effective {
            assert_eq!(it.origin, Origin::File, "{} is missing", it.setting.path());
            assert_eq!(it.text, it.setting.default);
        }
    }

    #[test]
    fn the_manual_has_every_setting() {
        let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating.md");
        let manual = fs::read_to_string(manual).unwrap();
        for setting in SETTINGS {
            assert!(manual.contains(&format!("`{}`", setting.path())), "{}", setting.path());
        }
    }
}
