//! Reads the settings of the driver, for an application that has no URL.

use std::time::Duration;

use tokio_postgres::config::{self as driver_config, SslMode};

use super::hosts::DEFAULT_PORT;
use super::{Address, Config, Host};
use crate::backend::postgres::opener::Opener;
use crate::backend::remote::TlsFiles;
use crate::error::{LockError, LockErrorKind, Result};

impl Config {
    /// Copies the settings of the driver. They must be [checked](Self::check_driver) later.
    pub(crate) fn from_driver(driver: tokio_postgres::Config) -> Self {
        let mut config = Self::new(address_of(&driver), driver);
        config.tls = (config.driver.get_ssl_mode() == SslMode::Require).then(TlsFiles::default);
        // For the driver, zero means no limit. A dial of this store always has a limit.
        let limit = config.driver.get_connect_timeout().copied().filter(|limit| *limit > Duration::ZERO);
        limit.into_iter().for_each(|limit| config.set_connect_timeout(limit));
        config
    }

    /// Lets the application open the connections. The application is then responsible for the address and for TLS.
    pub(crate) fn set_opener(&mut self, opener: Opener) {
        self.opener = Some(opener);
        self.tls = None;
    }

    /// Refuses settings of the driver that the store would not honour.
    pub(crate) fn check_driver(&self) -> Result<()> {
        let (hosts, ports) = (self.driver.get_hosts().len(), self.driver.get_ports().len());
        match () {
            () if ports > 1 && ports != hosts => {
                Err(invalid("the settings of the driver have another number of ports than of hosts"))
            }
            () if self.opener.is_some() => Ok(()),
            () if hosts == 0 => Err(invalid("the settings of the driver name no host")),
            () if !self.driver.get_hostaddrs().is_empty() => {
                Err(invalid("`hostaddr` is not supported: name the address as the host"))
            }
            () if self.tls.is_some() && !cfg!(feature = "tls") => {
                let detail = "this build has no TLS for Postgres: add the feature `tls` to lock-core in Cargo.toml, or \
                              open the connections yourself";
                Err(LockError::new(LockErrorKind::Unsupported, detail))
            }
            () => Ok(()),
        }
    }
}

/// Returns the hosts that the driver would try, in the same order.
fn address_of(driver: &tokio_postgres::Config) -> Address {
    let (hosts, ports) = (driver.get_hosts(), driver.get_ports());
    let port = |number: usize| ports.get(number).or_else(|| ports.first()).copied().unwrap_or(DEFAULT_PORT);
    let host = |(number, host): (usize, &driver_config::Host)| match host {
        driver_config::Host::Tcp(host) => Host::Tcp { host: host.clone(), port: port(number) },
        driver_config::Host::Unix(directory) => {
            Host::Unix { directory: directory.clone(), port: port(number) }
        }
    };
    Address(hosts.iter().enumerate().map(host).collect())
}

fn invalid(detail: &'static str) -> LockError {
    LockError::new(LockErrorKind::InvalidRequest, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::postgres::opener::opener;

    fn taken(text: &str) -> Result<Config> {
        let config = Config::from_driver(text.parse().expect("settings of the driver"));
        config.check_driver().map(|()| config)
    }

    #[test]
    fn the_settings_of_the_driver_are_taken() {
        let table = [
            ("host=h user=u", "h:5432"),
            ("host=h,i user=u port=1", "h:1, i:1"),
            ("host=h,i user=u port=1,2", "h:1, i:2"),
            ("host=/run/postgresql user=u port=7", "/run/postgresql:7"),
        ];
        for (text, address) in table {
            assert_eq!(taken(text).expect(text).address.to_string(), address, "{text}");
        }
        let config = taken("host=h user=u password=s3cret dbname=d application_name=shop connect_timeout=7");
        let config = config.expect("settings");
        assert_eq!((config.connect_timeout, config.tls.is_some()), (Duration::from_secs(7), false));
        let driver = config.handshake(true);
        assert_eq!((driver.get_user(), driver.get_dbname()), (Some("u"), Some("d")));
        assert_eq!(driver.get_application_name(), Some("shop"));
        assert_eq!(driver.get_password(), Some(&b"s3cret"[..]));
        assert!(!format!("{config:?}").contains("s3cret"));
    }

    #[test]
    fn the_options_of_the_application_stay_in_front_of_those_of_a_session() {
        let config = taken("host=h user=u options='-c work_mem=1MB'").expect("settings");
        let both = config.handshake(true);
        let both = both.get_options().expect("options");
        assert!(both.starts_with("-c work_mem=1MB -c statement_timeout="), "{both}");
        assert_eq!(config.handshake(false).get_options(), Some("-c work_mem=1MB"));
    }

    #[test]
    fn what_the_driver_would_do_in_another_way_is_refused() {
        for (text, expected) in [
            ("user=u", "name no host"),
            ("host=h,i user=u port=1,2,3", "another number of ports"),
            ("host=h hostaddr=127.0.0.1 user=u", "`hostaddr`"),
        ] {
            let error = taken(text).expect_err(text);
            assert_eq!(error.kind(), LockErrorKind::InvalidRequest, "{text}");
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
        let tls = taken("host=h user=u sslmode=require");
        assert_eq!(tls.is_ok_and(|config| config.tls.is_some()), cfg!(feature = "tls"));
        // An application that opens the connections needs no host, and uses its own TLS.
        let opener = opener(|_| async { Err("nothing".into()) });
        let mut config = Config::from_driver("sslmode=require".parse().expect("settings"));
        config.set_opener(opener);
        config.check_driver().expect("taken");
        assert!(config.tls.is_none() && config.handshake(true).get_ssl_mode() == SslMode::Require);
    }
}
