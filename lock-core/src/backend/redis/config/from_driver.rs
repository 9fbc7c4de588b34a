//! Copies the settings of a `redis` client of the application.

use ::redis::{ConnectionAddr, ConnectionInfo};

use super::form::FORM;
use super::{Address, Config};
use crate::backend::remote::TlsFiles;
use crate::error::{LockError, LockErrorKind, Result};

impl Config {
    /// Copies the address, the login and the database of a client of the crate `redis`.
    pub(crate) fn of_driver(info: &ConnectionInfo) -> Result<Self> {
        let (address, tls) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (Address::Tcp { host: host.clone(), port: *port }, None),
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None } => {
                (Address::Tcp { host: host.clone(), port: *port }, Some(TlsFiles::default()))
            }
            ConnectionAddr::TcpTls { .. } => {
                return Err(LockError::new(
                    LockErrorKind::Unsupported,
                    "the client does not say which certificates it trusts: name the files in a URL, \
                     `rediss://host:port/?ca=..&cert=..&key=..`",
                ));
            }
            ConnectionAddr::Unix(path) => (Address::Unix(path.clone()), None),
            _ => return Err(FORM.invalid("this kind of address is not one of the Redis backend")),
        };
        let settings = info.redis_settings();
        if !(0..=i64::from(i32::MAX)).contains(&settings.db()) {
            return Err(FORM.invalid("the database of the Redis client is not a number of one"));
        }
        let (user, password) = (settings.username(), settings.password());
        let mut config =
            Self::new(address, user.map(str::to_owned), password.map(str::to_owned), settings.db());
        config.tls = tls;
        config.check_tls()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use ::redis::{IntoConnectionInfo, RedisConnectionInfo};

    use super::*;

    fn read(info: impl IntoConnectionInfo) -> Result<Config> {
        Config::of_driver(&info.into_connection_info().expect("an address"))
    }

    #[test]
    fn a_client_leads_where_its_url_does() {
        for url in ["redis://h:7/3", "redis://ann:secret@h/", "redis://:secret@h:7/", "redis://127.0.0.1/0"] {
            let (ours, theirs) = (Config::parse(url).expect("a URL"), read(url).expect("the same"));
            assert_eq!(format!("{theirs:?}"), format!("{ours:?}"), "{url}");
            let login = |config: &Config| (config.user.clone(), config.password.clone());
            assert_eq!(login(&theirs), login(&ours), "{url}");
        }
        let socket = ConnectionAddr::Unix("/run/redis.sock".into());
        assert_eq!(read(socket).expect("a socket").address, Address::Unix("/run/redis.sock".into()));
    }

    #[test]
    fn what_cannot_be_taken_over_is_refused() {
        let insecure =
            ConnectionAddr::TcpTls { host: "h".to_owned(), port: 1, insecure: true, tls_params: None };
        let error = read(insecure).expect_err("it trusts everybody");
        assert!(
            error.kind() == LockErrorKind::Unsupported && error.to_string().contains("rediss://"),
            "{error}"
        );
        let of_no_database = "redis://h/".into_connection_info().expect("a URL");
        let settings = RedisConnectionInfo::default().set_db(-1).set_password("secret");
        let error = read(of_no_database.set_redis_settings(settings)).expect_err("there is no such database");
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_with_the_roots_of_the_system_is_taken_over() {
        let address =
            ConnectionAddr::TcpTls { host: "h".to_owned(), port: 1, insecure: false, tls_params: None };
        assert!(read(address).expect("TLS").tls.is_some());
    }
}
