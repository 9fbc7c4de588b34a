//! The Lua scripts. Each script is one atomic step: no client sees its intermediate states.

pub(crate) mod constants;
mod script;

pub(crate) use constants::MARK;
pub(crate) use script::{Script, Scripts};
