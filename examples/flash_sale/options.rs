//! The command-line arguments.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The options of one run of the program.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) seconds: u64,
    pub(crate) buyers: usize,
    pub(crate) stock: u32,
    pub(crate) processes: usize,
    pub(crate) svg: PathBuf,
    /// The address on which a server in its own process listens.
    pub(crate) serve: Option<SocketAddr>,
}

impl Options {
    pub(crate) fn from_args(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let svg = std::env::temp_dir().join("flash_sale.svg");
        let mut options = Self { seconds: 2, buyers: 128, stock: 20_000, processes: 1, svg, serve: None };
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("`{name}` needs a value"))?;
            let number = || value.parse().map_err(|_| format!("`{name} {value}`: expected a number"));
            match name.as_str() {
                "--seconds" => options.seconds = number()?,
                "--buyers" => {
                    options.buyers = usize::try_from(number()?).map_err(|error| error.to_string())?
                }
                "--stock" => options.stock = u32::try_from(number()?).map_err(|error| error.to_string())?,
                "--processes" => {
                    options.processes = usize::try_from(number()?).map_err(|error| error.to_string())?;
                }
                "--svg" => options.svg = value.into(),
                "--serve" => {
                    let address =
                        value.parse().map_err(|_| format!("`{name} {value}`: expected an address"))?;
                    options.serve = Some(address);
                }
                _ => {
                    return Err(format!(
                        "unknown option `{name}`: expected `--seconds`, `--buyers`, `--stock`, `--processes` or `--svg`"
                    ));
                }
            }
        }
        if options.processes == 0 || options.buyers == 0 || options.seconds == 0 {
            return Err("`--seconds`, `--buyers` and `--processes` are at least 1".to_owned());
        }
        Ok(options)
    }
}
