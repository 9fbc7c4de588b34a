//! The Lua scripts. Each does in one atomic step what nobody may see half done.

pub(crate) mod constants;
mod script;

pub(crate) use constants::MARK;
pub(crate) use script::{Script, Scripts};
