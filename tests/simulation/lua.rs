//! Lua as a Redis server runs it: `redis.call` and `redis.pcall` on the data of one server, and conversions between Lua
//! values and answers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use mlua::{Function, Lua, Table, Value, Variadic};

use crate::resp::Reply;

/// Runs a command that a script calls.
pub(crate) type Call = Rc<dyn Fn(&[Vec<u8>]) -> Reply>;

/// The scripts that a server has received since it started.
pub(crate) struct Scripts {
    call: Call,
    known: RefCell<BTreeSet<Rc<str>>>,
}

/// The compiled scripts of this thread. All servers of all its worlds share them, because compiling costs more than
/// running. Only the compiled form of a script outlives its run.
struct Engine {
    lua: Lua,
    /// The name of each script, by its text.
    names: RefCell<BTreeMap<Vec<u8>, Rc<str>>>,
    compiled: RefCell<BTreeMap<Rc<str>, Function>>,
    /// Runs the commands of the server that currently runs a script.
    call: Rc<RefCell<Option<Call>>>,
}

thread_local! {
    static ENGINE: Engine = Engine::new();
}

impl Scripts {
    /// Returns an empty set of scripts. `call` runs their commands.
    pub(crate) fn new(call: Call) -> Self {
        Self { call, known: RefCell::default() }
    }

    /// Compiles a script and returns its name: 40 hexadecimal digits that depend on the text, as on a server. The name
    /// is not a SHA-1 hash, so no client can compute it in advance.
    pub(crate) fn load(&self, text: &[u8]) -> Result<Rc<str>, String> {
        let name = ENGINE.with(|engine| engine.compile(text))?;
        self.known.borrow_mut().insert(Rc::clone(&name));
        Ok(name)
    }

    pub(crate) fn forget(&self) {
        self.known.borrow_mut().clear();
    }

    /// Runs a script that was loaded.
    pub(crate) fn run(&self, name: &str, keys: &[Vec<u8>], arguments: &[Vec<u8>]) -> Reply {
        if !self.known.borrow().contains(name) {
            return Reply::error("NOSCRIPT No matching script. Please use EVAL.");
        }
        ENGINE.with(|engine| {
            engine.call.replace(Some(Rc::clone(&self.call)));
            let reply = engine.run(name, keys, arguments);
            engine.call.replace(None);
            reply.unwrap_or_else(|error| Reply::Error(complaint(&error)))
        })
    }
}

impl Engine {
    fn new() -> Self {
        let (lua, call) = (Lua::new(), Rc::default());
        offer(&lua, &call).expect("the names of a server can be set");
        Self { lua, names: RefCell::default(), compiled: RefCell::default(), call }
    }

    fn compile(&self, text: &[u8]) -> Result<Rc<str>, String> {
        if let Some(name) = self.names.borrow().get(text) {
            return Ok(Rc::clone(name));
        }
        let function = self.lua.load(text).set_name("script").into_function();
        let function = function.map_err(|error| format!("ERR Error compiling script: {error}"))?;
        let name: Rc<str> = name_of(text).into();
        self.compiled.borrow_mut().insert(Rc::clone(&name), function);
        self.names.borrow_mut().insert(text.to_vec(), Rc::clone(&name));
        Ok(name)
    }

    fn run(&self, name: &str, keys: &[Vec<u8>], arguments: &[Vec<u8>]) -> mlua::Result<Reply> {
        let function = self.compiled.borrow().get(name).cloned().expect("what is known is compiled");
        let globals = self.lua.globals();
        for (name, words) in [("KEYS", keys), ("ARGV", arguments)] {
            let table = self.lua.create_table_with_capacity(words.len(), 0)?;
            for (at, word) in words.iter().enumerate() {
                table.raw_set(at + 1, self.lua.create_string(word)?)?;
            }
            globals.raw_set(name, table)?;
        }
        answer(&function.call::<Value>(())?)
    }
}

/// Returns the error of a script as its caller sees it. This is the error of the failed command, or `ERR` and the
/// message of Lua.
fn complaint(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => complaint(cause),
        mlua::Error::ExternalError(refused) => refused.to_string(),
        other => format!("ERR {}", other.to_string().lines().next().unwrap_or_default()),
    }
}

fn name_of(text: &[u8]) -> String {
    let part = |number: u8| {
        let mut hasher = DefaultHasher::new();
        (number, text).hash(&mut hasher);
        hasher.finish()
    };
    let digits = format!("{:016x}{:016x}{:016x}", part(0), part(1), part(2));
    digits[..40].to_owned()
}

/// Adds the table `redis`.
fn offer(lua: &Lua, call: &Rc<RefCell<Option<Call>>>) -> mlua::Result<()> {
    let redis = lua.create_table()?;
    let call = Rc::clone(call);
    let run = move |words: &[Value]| -> mlua::Result<Reply> {
        let call = call.borrow().clone().expect("a server runs the script");
        Ok(call(&bytes(words)?))
    };
    let calls = run.clone();
    let raise = lua.create_function(move |lua, words: Variadic<Value>| match calls(&words)? {
        Reply::Error(text) => Err(mlua::Error::external(text)),
        reply => value(lua, reply),
    })?;
    redis.set("call", raise)?;
    redis.set("pcall", lua.create_function(move |lua, words: Variadic<Value>| value(lua, run(&words)?))?)?;
    let error_reply = lua.create_function(|lua, text: mlua::String| {
        let table = lua.create_table()?;
        table.set("err", text)?;
        Ok(table)
    })?;
    redis.set("error_reply", error_reply)?;
    redis.set("replicate_commands", lua.create_function(|_, ()| Ok(true))?)?;
    redis.set("REDIS_VERSION_NUM", 0x0007_000f)?;
    lua.globals().set("redis", redis)
}

/// Converts the arguments of a command from Lua's values, as the server does.
fn bytes(words: &[Value]) -> mlua::Result<Vec<Vec<u8>>> {
    let word = |value: &Value| match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(whole) => Ok(whole.to_string().into_bytes()),
        Value::Number(real) => Ok(number(*real).into_bytes()),
        _ => Err(mlua::Error::external(
            "ERR Lua redis lib command arguments must be strings or integers".to_owned(),
        )),
    };
    words.iter().map(word).collect()
}

/// Formats a number as C does with `%.17g`. Supports whole numbers below 10^17, and fractions.
pub(crate) fn number(real: f64) -> String {
    if real.fract() == 0.0 && real.abs() < 1e17 {
        return format!("{real:.0}");
    }
    format!("{real}")
}

/// Converts an answer of the server to a Lua value.
fn value(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    let named = |name: &str, text: String| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        table.set(name, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Int(number) => Ok(Value::Number(number as f64)),
        Reply::Bulk(bytes) => lua.create_string(bytes).map(Value::String),
        Reply::Verbatim(text) => lua.create_string(text).map(Value::String),
        Reply::Status(text) => named("ok", text),
        Reply::Error(text) => named("err", text),
        Reply::Array(all) => {
            let table = lua.create_table()?;
            for (at, one) in all.into_iter().enumerate() {
                table.raw_set(at + 1, value(lua, one)?)?;
            }
            Ok(Value::Table(table))
        }
        Reply::Push(_) | Reply::Map(_) => unreachable!("no command of a script answers this"),
    }
}

/// Converts the result of a script to an answer of the server.
fn answer(value: &Value) -> mlua::Result<Reply> {
    Ok(match value {
        Value::Boolean(true) => Reply::Int(1),
        Value::Integer(number) => Reply::Int(*number),
        Value::Number(number) => Reply::Int(*number as i64),
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Table(table) => of_table(table)?,
        _ => Reply::Nil,
    })
}

fn of_table(table: &Table) -> mlua::Result<Reply> {
    if let Value::String(text) = table.raw_get::<Value>("err")? {
        return Ok(Reply::Error(text.to_string_lossy()));
    }
    if let Value::String(text) = table.raw_get::<Value>("ok")? {
        return Ok(Reply::Status(text.to_string_lossy()));
    }
    let mut all = Vec::new();
    loop {
        match table.raw_get::<Value>(all.len() + 1)? {
            Value::Nil => return Ok(Reply::Array(all)),
            one => all.push(answer(&one)?),
        }
    }
}
