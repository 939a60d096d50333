//! `--wait` is an option of exactly those commands that can wait for a second operator.

use clap::{Command, CommandFactory};

use crate::cli::Cli;

const COMMANDS: &[&str] = &[
    "scrip application create",
    "scrip backup",
    "scrip export",
    "scrip key create",
    "scrip key import",
    "scrip keys add aws-kms",
    "scrip keys add env",
    "scrip keys add file",
    "scrip keys add pkcs11",
    "scrip keys add shamir",
    "scrip keys add transit",
    "scrip keys dual-control off",
    "scrip keys remove",
    "scrip keys rotate fingerprints",
    "scrip keys rotate tenant",
    "scrip keys rotate vault",
    "scrip policy restore",
    "scrip proxy host add",
    "scrip tenant delete",
    "scrip tenant quota set",
    "scrip tenant restore",
];

fn add_commands_with_wait(path: &str, command: &Command, commands: &mut Vec<String>) {
    let path = format!("{path} {}", command.get_name());
    command.get_subcommands().for_each(|it| add_commands_with_wait(&path, it, commands));
    if command.get_arguments().any(|it| it.get_long() == Some("wait")) {
        commands.push(path);
    }
}

#[test]
fn only_commands_that_can_wait_have_the_option() {
    let mut commands = Vec::new();
    let cli = Cli::command();
    cli.get_subcommands().for_each(|it| add_commands_with_wait("scrip", it, &mut commands));
    commands.sort_unstable();
    assert_eq!(commands, COMMANDS);
}
