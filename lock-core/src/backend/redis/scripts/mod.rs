//! The Lua scripts, each of which does in one step what must not be seen half done.

pub(crate) mod constants;
mod script;

pub(crate) use script::{Script, Scripts};
