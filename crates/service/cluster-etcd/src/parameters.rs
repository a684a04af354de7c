//! Parameters of a service's URL, behind its question mark: with which certificates etcd is reached.

use drover_tls::TlsClientOptions;

/// File with the CAs that etcd's certificate may be signed by.
pub(crate) const CA: &str = "tls-ca";
/// File with this client's certificate.
pub(crate) const CERTIFICATE: &str = "tls-cert";
/// File with the key of this client's certificate.
pub(crate) const KEY: &str = "tls-key";
/// Name that etcd's certificate is for, if not the host.
const NAME: &str = "tls-name";

/// The parameters; `Err`: what is wrong with them.
pub(crate) fn parse(text: &str) -> Result<TlsClientOptions, String> {
    let names = [CA, CERTIFICATE, KEY, NAME];
    let mut values = [const { None }; 4];
    for parameter in text.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let index = names.iter().position(|known| *known == name);
        let index = index.ok_or_else(|| format!("{name:?} is no parameter"))?;
        if value.is_empty() {
            return Err(format!("{name} is empty"));
        }
        // It would mean another character in other URLs.
        if value.contains('%') {
            return Err(format!("{name} has a % in it"));
        }
        if values[index].replace(value).is_some() {
            return Err(format!("{name} is there twice"));
        }
    }
    let [ca, certificate, key, name] = values;
    let ca = ca.ok_or_else(|| format!("{CA} is missing"))?;
    if certificate.is_some() != key.is_some() {
        return Err(format!("{CERTIFICATE} and {KEY} need each other"));
    }
    Ok(TlsClientOptions {
        name: name.map(str::to_owned),
        certificate: certificate.zip(key).map(|(file, key)| (file.into(), key.into())),
        ..TlsClientOptions::trusting(ca)
    })
}

/// The parameters, as they are parsed.
pub(crate) fn shown(options: &TlsClientOptions) -> String {
    let mut text = format!("{CA}={}", options.ca.display());
    if let Some((certificate, key)) = &options.certificate {
        text += &format!("&{CERTIFICATE}={}&{KEY}={}", certificate.display(), key.display());
    }
    if let Some(name) = &options.name {
        text += &format!("&{NAME}={name}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_back() {
        for text in [
            "tls-ca=/etc/ca.pem",
            "tls-ca=ca?=@.pem&tls-name=etcd.test",
            "tls-ca=a&tls-cert=b&tls-key=c&tls-name=10.0.0.1",
        ] {
            assert_eq!(shown(&parse(text).expect(text)), text);
        }
        let shuffled = parse("tls-key=c&tls-ca=a&tls-cert=b").expect("the order is free");
        assert_eq!(shown(&shuffled), "tls-ca=a&tls-cert=b&tls-key=c");
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (text, why) in [
            ("", "\"\" is no parameter"),
            ("tls-ca", "tls-ca is empty"),
            ("tls-ca=", "tls-ca is empty"),
            ("tls-ca=a&", "\"\" is no parameter"),
            ("tls-ca=a&tls-skip=1", "\"tls-skip\" is no parameter"),
            ("tls-ca=a&tls-ca=a", "tls-ca is there twice"),
            ("tls-ca=a%20b", "tls-ca has a % in it"),
            ("tls-name=a", "tls-ca is missing"),
            ("tls-ca=a&tls-cert=b", "tls-cert and tls-key need each other"),
            ("tls-ca=a&tls-key=b", "tls-cert and tls-key need each other"),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()), "{text}");
        }
    }
}
