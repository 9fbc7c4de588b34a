//! The SQL that this backend runs, with the name of its schema.

mod migration;
mod statements;

pub(crate) use migration::{CHANNEL, VERSION, identifier, migration, steps};
pub(crate) use statements::Statements;
