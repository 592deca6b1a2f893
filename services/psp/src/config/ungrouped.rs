//! Flattens settings without the argument group that clap's derive names after their type: two
//! types called `Settings` in one program would claim the same group, which clap refuses.

use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches};

#[derive(Clone, Debug)]
pub struct Ungrouped<T>(pub T);

impl<T: Args> Args for Ungrouped<T> {
    fn augment_args(command: Command) -> Command {
        let grouped = T::augment_args(Command::new("grouped"));
        command.args(grouped.get_arguments())
    }

    fn augment_args_for_update(command: Command) -> Command {
        let grouped = T::augment_args_for_update(Command::new("grouped"));
        command.args(grouped.get_arguments())
    }
}

impl<T: FromArgMatches> FromArgMatches for Ungrouped<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
