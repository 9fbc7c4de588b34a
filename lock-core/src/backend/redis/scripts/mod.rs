//! The Lua scripts, each of which does in one step what must not be seen half done.

mod constants;
mod script;

pub(crate) use constants::{Constant, inject};
pub(crate) use script::{Script, Scripts};
