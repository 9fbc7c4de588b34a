//! The SQL of this backend, with the name of its schema inserted.

mod migration;
mod statements;

pub(crate) use migration::{CHANNEL, VERSION, identifier, migration, steps};
pub(crate) use statements::Statements;
