//! How far a long command has come: a bar on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::output::bytes;

/// A step of a command. It goes to standard error, so that standard output is the answer's.
#[derive(Debug)]
pub(crate) struct Progress {
    step: &'static str,
    shown: Shown,
    unit: Unit,
}

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    Bytes,
    Records,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    /// Tenths that were told; nothing before the first line.
    Lines(Option<u64>),
    /// For a program, which reads the answer only.
    Nothing,
}

impl Progress {
    /// A bar on a terminal; elsewhere lines, or nothing where the answer is JSON.
    pub(crate) fn new(step: &'static str, unit: Unit, json: bool) -> Self {
        let shown = match (io::stderr().is_terminal(), json) {
            (true, _) => Shown::Bar(ProgressBar::new_spinner().with_message(step)),
            (false, true) => Shown::Nothing,
            (false, false) => Shown::Lines(None),
        };
        Self { step, shown, unit }
    }

    /// So many of about so many.
    pub(crate) fn tell(&mut self, done: u64, all: u64) {
        match &mut self.shown {
            Shown::Bar(bar) => {
                if bar.length().is_none() && all > 0 {
                    bar.set_style(style(self.unit));
                    bar.set_length(all);
                }
                bar.set_position(done.min(all));
            }
            Shown::Lines(told) => {
                // A tenth is a line of its own.
                let tenths = done.saturating_mul(10).checked_div(all).unwrap_or(0).min(10);
                if told.is_none_or(|it| it < tenths) {
                    *told = Some(tenths);
                    let (step, percent) = (self.step, tenths * 10);
                    let all = match self.unit {
                        Unit::Bytes => bytes(all),
                        Unit::Records => format!("{all} records"),
                    };
                    // Nobody has to listen.
                    drop(writeln!(io::stderr().lock(), "{step}: {percent} % of about {all}"));
                }
            }
            Shown::Nothing => (),
        }
    }

    /// It goes on, nobody knows how far.
    pub(crate) fn tick(&mut self) {
        match &mut self.shown {
            Shown::Bar(bar) => bar.tick(),
            Shown::Lines(told @ None) => {
                *told = Some(0);
                drop(writeln!(io::stderr().lock(), "{}", self.step));
            }
            Shown::Lines(Some(_)) | Shown::Nothing => (),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

fn style(unit: Unit) -> ProgressStyle {
    let form = match unit {
        Unit::Bytes => "{msg}  {bar:32}  {binary_bytes} of about {binary_total_bytes}, {eta} left",
        Unit::Records => "{msg}  {bar:32}  {pos} of about {len} records, {eta} left",
    };
    ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar())
}
