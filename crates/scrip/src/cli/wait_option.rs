//! `--wait` is an option of exactly those commands that can wait for a second operator.

use clap::{Command, CommandFactory};
use scrip_operator::{action::SecondPerson, actions::ACTIONS};

use crate::cli::Cli;

/// Commands that are no actions, because they need files of this machine, the unlock methods of the
/// server, or a stopped server.
const OTHER_COMMANDS: &[&str] = &[
    "scrip backup",
    "scrip export",
    "scrip keys add aws-kms",
    "scrip keys add env",
    "scrip keys add file",
    "scrip keys add pkcs11",
    "scrip keys add shamir",
    "scrip keys add transit",
    "scrip keys dual-control off",
    "scrip keys remove",
    "scrip keys rotate fingerprints",
    "scrip keys rotate vault",
    "scrip policy restore",
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
    let approved = ACTIONS.iter().filter(|it| it.spec.second_person != SecondPerson::Never);
    let mut expected: Vec<_> = approved.map(|it| format!("scrip {}", it.spec.name)).collect();
    expected.extend(OTHER_COMMANDS.iter().map(|it| (*it).to_owned()));
    expected.sort_unstable();
    assert_eq!(commands, expected);
}

#[test]
fn every_action_is_a_command_with_the_words_of_its_name() {
    let cli = Cli::command();
    for row in ACTIONS {
        let mut words = row.spec.name.split(' ');
        let found = words.try_fold(&cli, |command, word| command.find_subcommand(word));
        assert!(found.is_some(), "{}", row.spec.name);
    }
}
