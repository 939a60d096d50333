//! Loads the settings from all sources, and finds contradictions.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use scrip_seal::has_fips_module;

use crate::config::{
    elements,
    environment::Environment,
    file,
    setting::{EffectiveSetting, Setting, SettingProblems, SettingSource, SettingText},
    storage,
    table::{SETTINGS, Settings},
    threeds,
    value::{SettingValue, StorageUrl, epoch_keys::EpochKeyLocation},
};

/// Read if neither a flag nor `SCRIP_CONFIG` names another file.
const DEFAULT_FILE: &str = "scrip.toml";
/// A setting from the command line: path and value.
pub type FlagValue = (&'static str, String);

impl Settings {
    /// Reads the file at `path`, else the file in `SCRIP_CONFIG`, else `scrip.toml` if it exists.
    /// Errors: [`SettingProblems`] with all problems.
    pub fn load(path: Option<&Path>, environment: &Environment) -> anyhow::Result<Self> {
        Self::load_with(path, &[], environment)
    }

    /// As [`Settings::load`], with flags that override all other sources.
    /// Errors: as [`Settings::load`].
    pub fn load_with(
        path: Option<&Path>,
        flags: &[FlagValue],
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let configured_path =
            environment.get("SCRIP_CONFIG").map(|(_, value)| PathBuf::from(value));
        let path = path.map(Path::to_path_buf).or(configured_path);
        let path = path.or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|it| it.exists()));
        let mut layers =
            SettingLayers { environment, file: BTreeMap::new(), flags, problems: vec![] };
        if let Some(path) = &path {
            let text = fs::read_to_string(path).map_err(|error| {
                SettingProblems(vec![format!("{} cannot be read: {error}", path.display())])
            })?;
            (layers.file, layers.problems) = file::read(&path.display().to_string(), &text);
        }
        let url = layers.file.get("storage.url").map(|it| StorageUrl::parse(&it.text));
        let has_password_in_file = url.is_some_and(|it| it.is_ok_and(|it| it.0.has_password()));
        let mut settings = layers.resolve()?;
        settings.file = path;
        settings.has_password_in_file = has_password_in_file;
        Ok(settings)
    }

    /// Settings from flags, the environment and defaults, without a file.
    /// Errors: [`SettingProblems`] with all problems.
    pub fn without_file(flags: &[FlagValue], environment: &Environment) -> anyhow::Result<Self> {
        Ok(SettingLayers { environment, file: BTreeMap::new(), flags, problems: Vec::new() }
            .resolve()?)
    }
}

/// Sources of settings. Flags override the environment, the environment overrides the file.
struct SettingLayers<'a> {
    environment: &'a Environment,
    file: BTreeMap<String, file::FileEntry>,
    flags: &'a [FlagValue],
    problems: Vec<String>,
}

impl SettingLayers<'_> {
    fn resolve(mut self) -> Result<Settings, SettingProblems> {
        for name in &self.environment.unreadable {
            self.problems.push(format!("{name}: is not UTF-8 text"));
        }
        let mut effective = Vec::new();
        let settings = Settings::read(&mut |setting| {
            let (text, source, location) = self.look_up(setting);
            effective.push(EffectiveSetting { setting, text: (setting.redact)(&text), source });
            SettingText { text, location }
        });
        let (settings, problems) = settings;
        self.problems.extend(problems);
        let schemes = threeds::read_schemes(&self.file, &mut self.problems);
        let Some(mut settings) = settings.filter(|_| self.problems.is_empty()) else {
            return Err(SettingProblems(self.problems));
        };
        settings.schemes = schemes;
        let contradictions = find_contradictions(&settings);
        if !contradictions.is_empty() {
            return Err(SettingProblems(contradictions));
        }
        settings.warnings = self.environment.warnings();
        settings.effective = effective;
        settings.scheme_entries = self.scheme_settings();
        settings.root_key.clone_from(&self.environment.root_key);
        settings.unlock_keys.clone_from(&self.environment.unlock_keys);
        settings.os_user.clone_from(&self.environment.os_user);
        Ok(settings)
    }

    /// Settings of scheme sections, by path.
    fn scheme_settings(&self) -> Vec<(String, String)> {
        let is_in_table = |path: &String| SETTINGS.iter().any(|it| it.path() == *path);
        let scheme_entries = self.file.iter().filter(|(path, _)| !is_in_table(path));
        scheme_entries.map(|(path, entry)| (path.clone(), entry.text.clone())).collect()
    }

    /// Returns the text of a setting, its source, and its location for error messages.
    fn look_up(&self, setting: &'static Setting) -> (String, SettingSource, String) {
        let path = setting.path();
        if let Some((_, text)) = self.flags.iter().find(|(name, _)| *name == path) {
            return (text.clone(), SettingSource::Flag, path);
        }
        if let Some((name, text)) = self.environment.value_of(setting) {
            return (text.to_owned(), SettingSource::Environment, name.to_owned());
        }
        if let Some(entry) = self.file.get(&path) {
            return (
                entry.text.clone(),
                SettingSource::File,
                format!("{}: {path}", entry.location),
            );
        }
        (setting.default.to_owned(), SettingSource::Default, path)
    }
}

/// Returns the problems that depend on more than one setting.
fn find_contradictions(settings: &Settings) -> Vec<String> {
    let (server, tls) = (&settings.server, &settings.tls);
    let mut problems = Vec::new();
    if tls.certificate.is_some() != tls.key.is_some() {
        problems.push("tls.certificate and tls.key: set both, or neither".to_owned());
    }
    if tls.certificate.is_none() && !server.listen.ip().is_loopback() && !server.plain_http {
        problems.push(
            "server.listen: is not a loopback address; keys and cards would be sent unencrypted. \
             Set tls.certificate and tls.key, or set server.plain_http = true (--plain-http for \
             dev) if you want plain HTTP"
                .to_owned(),
        );
    }
    if settings.limits.redis_password_file.is_some() && settings.limits.redis_url.is_none() {
        problems.push("limits.redis_password_file: limits.redis_url is not set".to_owned());
    }
    let cvc = &settings.cvc;
    if cvc.epoch_keys_password_file.is_some()
        && !matches!(cvc.epoch_keys, EpochKeyLocation::Redis(_))
    {
        problems.push(
            "cvc.epoch_keys_password_file: cvc.epoch_keys is not the address of a Redis".to_owned(),
        );
    }
    if server.control_group.is_some() && server.control_socket.is_none() {
        problems.push("server.control_group: server.control_socket is not set".to_owned());
    }
    if server.control_socket.as_ref().is_some_and(|it| !it.is_absolute()) {
        problems.push("server.control_socket: must be an absolute path".to_owned());
    }
    if settings.keys.require_fips && !has_fips_module() {
        problems.push(
            "keys.require_fips: this program has no FIPS module; build it with --features fips"
                .to_owned(),
        );
    }
    problems.extend(storage::find_contradictions(settings));
    problems.extend(threeds::find_contradictions(settings));
    problems.extend(elements::find_contradictions(settings));
    problems
}

/// Path and variable of every setting.
#[cfg(test)]
pub(crate) fn setting_names() -> impl Iterator<Item = (String, String)> {
    SETTINGS.iter().map(|it| (it.path(), it.variable()))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use scrip_api::deprecation::switchable_operations;

    use super::*;

    #[test]
    fn every_working_deprecated_operation_has_a_setting() {
        let expected: BTreeSet<_> =
            switchable_operations().map(|it| format!("deprecated.{}", it.as_str())).collect();
        let settings =
            setting_names().map(|(path, _)| path).filter(|it| it.starts_with("deprecated."));
        assert_eq!(settings.collect::<BTreeSet<_>>(), expected);
    }

    #[test]
    fn numbers_may_contain_underscores() {
        let settings = load("[server]\nbody_bytes_max = 2_000_000", &[]).unwrap();
        assert_eq!(settings.server.body_bytes_max.get(), 2_000_000);
    }

    pub(crate) fn load(
        text: &str,
        variables: &[(&str, &str)],
    ) -> Result<Settings, SettingProblems> {
        let to_strings = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables = variables.iter().map(to_strings).collect();
        let environment = Environment { variables, ..Environment::default() };
        let (file, problems) = file::read("scrip.toml", text);
        SettingLayers { environment: &environment, file, flags: &[], problems }.resolve()
    }

    #[track_caller]
    pub(crate) fn assert_rejected(text: &str, expected: &str) {
        let SettingProblems(lines) = load(text, &[]).unwrap_err();
        assert!(lines.iter().any(|it| it.contains(expected)), "{expected} is not in {lines:?}");
    }

    #[test]
    fn control_group_needs_an_absolute_socket() {
        assert_rejected("[server]\ncontrol_group = \"ops\"", "server.control_socket is not set");
        let text = "[server]\ncontrol_socket = \"a.sock\"";
        assert_rejected(text, "server.control_socket: must be an absolute path");
        let text = "[server]\ncontrol_group = \"ops\"\ncontrol_socket = \"/run/a.sock\"";
        assert!(load(text, &[]).is_ok());
    }

    #[test]
    fn invalid_settings_are_reported_with_line_and_column() {
        for (text, expected) in [
            ("[server]\nlisten = \"here\"", "scrip.toml:2:10: server.listen: must be an add"),
            ("[server]\nlisten = 4242", "scrip.toml:2:10: server.listen: must be a string in"),
            ("[server]\nconnections_max = 0", "scrip.toml:2:19: server.connections_max: must"),
            ("[server]\nconnections_max = \"9\"", "connections_max: must be a whole number"),
            ("[server]\nbody_bytes_max = 0x400", "body_bytes_max: must be a whole number"),
            ("[server]\nplain_http = \"yes\"", "scrip.toml:2:14: server.plain_http: must be t"),
            ("[server]\n\n  lissten = 1", "scrip.toml:3:3: server.lissten: is not a setting"),
            ("[sever]\nlisten = 1", "scrip.toml:1:2: sever: is not a section"),
            ("listen = 1", "scrip.toml:1:1: listen: is not a section"),
            ("server = 1", "scrip.toml:1:10: server: must be a section"),
            (
                "[deprecated]\nlist_tokens_v1 = \"no\"",
                "2:18: deprecated.list_tokens_v1: must be on or",
            ),
            (
                "[deprecated]\nlist_tokens_v1 = false",
                "2:18: deprecated.list_tokens_v1: must be a string",
            ),
            ("[deprecated]\nlist_tokens = \"off\"", "2:1: deprecated.list_tokens: is not a set"),
            ("[log]\nformat = \"xml\"", "scrip.toml:2:10: log.format: must be auto, json or"),
            ("[log]\nfilter = \"a=b=c\"", "log.filter: must be a filter such as info"),
            ("[server]\nlisten = \"::1", "scrip.toml:2:"),
            ("[server]\nplain_http = true\nplain_http = true", "scrip.toml:3:1: duplicate key"),
            ("[metrics]\nlisten = \"9464\"", "scrip.toml:2:10: metrics.listen: must be an addr"),
            ("[storage]\ndata_dir = \"\"", "storage.data_dir: must not be empty"),
            ("[tls]\nkey = \"a.pem\"", "tls.certificate and tls.key"),
            ("[server]\nlisten = \"0.0.0.0:80\"", "server.plain_http = true"),
            ("[limits]\nmode = \"slow\"", "2:8: limits.mode: must be on or off"),
            (
                "[limits]\naddress = \"0/10s\"",
                "2:11: limits.address: must be a rate such as 50/10s",
            ),
            ("[limits]\nadress = \"1/1s\"", "2:1: limits.adress: is not a setting; [limits] has"),
            ("[limits]\ntrusted_proxies = \"10.0.0.0/33\"", "2:19: limits.trusted_proxies: mu"),
            (
                "[limits]\nredis_url = \"http://x\"",
                "limits.redis_url: must be an address such as redis://",
            ),
            ("[limits]\nredis_outage = \"open\"", "limits.redis_outage: must be local or reject"),
            (
                "[limits]\nredis_password_file = \"p\"",
                "limits.redis_password_file: limits.redis_url is not set",
            ),
            ("[server]\nlisten = { a = 1 }", "scrip.toml:2:10: server.listen: must be a string in"),
        ] {
            assert_rejected(text, expected);
        }
        for endpoint in
            ["https://a:1", "a:4318", "http://u:p@a", "http://a/?b=c", "http://", "http://a:b"]
        {
            let text = format!("[telemetry]\notlp_endpoint = \"{endpoint}\"");
            assert_rejected(
                &text,
                "2:17: telemetry.otlp_endpoint: must be an address in plain HTTP",
            );
        }
    }

    #[test]
    fn all_problems_are_reported_together_without_values() {
        let text = "[server]\nlisten = \"4242424242424242\"\nnone = 1\nconnections_max = 0";
        let variables = [("SCRIP_LOG_FORMAT", "4242424242424242")];
        let SettingProblems(lines) = load(text, &variables).unwrap_err();
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines.iter().any(|it| it.starts_with("SCRIP_LOG_FORMAT: must be auto")));
        assert!(!lines.concat().contains("4242424242424242"));
    }

    #[test]
    fn environment_overrides_the_file() {
        let text =
            "[server]\nlisten = \"127.0.0.1:1\"\nconnections_max = 7\n[log]\nfilter = \"warn\"";
        let variables = [("SCRIP_SERVER_LISTEN", "[::1]:2"), ("SCRIP_LOG", "debug")];
        let settings = load(text, &variables).unwrap();
        assert_eq!(settings.server.listen, "[::1]:2".parse().unwrap());
        assert_eq!(settings.server.connections_max.get(), 7);
        assert_eq!(settings.log.filter.0, "debug");
        let source_of = |path: &str| {
            let setting = settings.effective.iter().find(|it| it.setting.path() == path);
            setting.map(|it| it.source.clone()).unwrap()
        };
        assert_eq!(source_of("server.listen"), SettingSource::Environment);
        assert_eq!(source_of("server.connections_max"), SettingSource::File);
        assert_eq!(source_of("storage.data_dir"), SettingSource::Default);
        assert_eq!(source_of("log.filter"), SettingSource::Environment);
    }

    #[test]
    fn otlp_endpoint_gets_the_traces_path() {
        for url in ["http://a:4318", "http://a:4318/", "http://a:4318/v1/traces"] {
            let text = format!("[telemetry]\notlp_endpoint = \"{url}\"");
            let endpoint = load(&text, &[]).unwrap().telemetry.otlp_endpoint.unwrap();
            assert_eq!((endpoint.0.host.as_str(), endpoint.0.port_number()), ("a", 4318), "{url}");
            assert_eq!((&*endpoint.0.authority, &*endpoint.0.path), ("a:4318", "/v1/traces"));
        }
    }

    #[test]
    fn every_setting_has_a_variable_and_a_valid_default() {
        for setting in SETTINGS {
            let variable = setting.variable();
            assert!(load("", &[(&variable, setting.default)]).is_ok(), "{variable}");
            assert!(!setting.description.is_empty(), "{variable}");
        }
    }

    #[test]
    fn unknown_variables_cause_a_warning() {
        let known_variables =
            [("SCRIP_TEST_LONG", "1"), ("SCRIP_CONFIG", "x"), ("SCRIP_LOG", "info")];
        assert!(load("", &known_variables).unwrap().warnings.is_empty());
        let warnings = load("", &[("SCRIP_SERVER_LISEN", "1")]).unwrap().warnings;
        assert_eq!(warnings, ["SCRIP_SERVER_LISEN is not a setting and has no effect"]);
    }
}
