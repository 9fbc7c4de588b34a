//! The Lua scripts. Each is one atomic step, whose intermediate states no client may see.

pub(crate) mod constants;
mod script;

pub(crate) use constants::MARK;
pub(crate) use script::{Script, Scripts};
