//! Connecting and closing.

use crate::client::drover_client;
use crate::foreign;
use crate::status::drover_status::{self, *};
use ::drover_client::{Credentials, Ns, Options, Pipeline, TlsClientOptions, TlsConnector};
use std::ffi::c_char;
use std::sync::Arc;

/// How to connect. `drover_options_init` fills it in; a null pointer in its place means the same.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct drover_options {
    /// Size of this structure as the program was compiled with it.
    pub size: usize,
    /// Longest time of each of the three steps of connecting, milliseconds; 0: 5,000.
    pub connect_timeout_ms: u32,
    /// Time after which an operation without an answer fails, milliseconds; 0: 5,000.
    pub call_timeout_ms: u32,
    /// Number of operations in flight for each shard of the service; 0: 16.
    pub window: u32,
    /// "user:password", where the server has a file of users; null: nobody in particular. The password is not sent.
    pub credentials: *const c_char,
    /// PEM file of the CA to trust, where a server at a TCP address speaks TLS; null: no TLS.
    pub tls_ca: *const c_char,
    /// Name that the server's certificate must be for; null: the address's host.
    pub tls_name: *const c_char,
    /// PEM file of the client's certificate, where the server wants one; null: none.
    pub tls_cert: *const c_char,
    /// PEM file of its key.
    pub tls_key: *const c_char,
}

impl Default for drover_options {
    fn default() -> drover_options {
        drover_options {
            size: size_of::<drover_options>(),
            connect_timeout_ms: 0,
            call_timeout_ms: 0,
            window: 0,
            credentials: std::ptr::null(),
            tls_ca: std::ptr::null(),
            tls_name: std::ptr::null(),
            tls_cert: std::ptr::null(),
            tls_key: std::ptr::null(),
        }
    }
}

/// Fills in the options that a null pointer stands for.
///
/// # Safety
/// `options` is null or points to memory for the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_options_init(options: *mut drover_options) -> drover_status {
    // SAFETY: the caller keeps what is required.
    match unsafe { foreign::output("options", options) } {
        Ok(place) => {
            place.set(drover_options::default());
            DROVER_OK
        }
        Err(status) => status,
    }
}

/// Connects to the service at `address` (`shm:NAME`, `unix:/path.sock`, `rdma://host:port`, or `etcd://host[,host...]/NAME` for a
/// service of several members, with `?tls-ca=FILE` behind it over TLS to etcd), and stores a client for this thread. Waits until there is
/// a session with every shard, or until the members are known. `options` may be null.
///
/// # Safety
/// `address` is a text that ends with a zero byte, so are the texts of `options`, `client` points to memory for a pointer, and
/// nobody changes any of them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_connect(
    address: *const c_char,
    options: *const drover_options,
    client: *mut *mut drover_client,
) -> drover_status {
    let connect = || {
        // SAFETY: the caller keeps what is required of each.
        let place = unsafe { foreign::output("client", client) }?;
        // SAFETY: as above.
        let address = unsafe { foreign::text("address", address) }?;
        let address = address.ok_or_else(|| DROVER_INVALID.because("address: a null pointer"))?;
        let options = match options.is_null() {
            true => Options::default(),
            // SAFETY: as above.
            false => unsafe { read(options) }?,
        };
        let pipeline = Pipeline::connect(address, &options).map_err(drover_status::of_connecting)?;
        place.set(drover_client::leak(pipeline));
        Ok(DROVER_OK)
    };
    connect().unwrap_or_else(|status| status)
}

/// Ends the client's sessions and frees it, whatever is in flight. A null pointer is ignored.
///
/// # Safety
/// `client` is null or came from `drover_connect` and was not closed; nobody uses it, or values that it has shown, afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn drover_close(client: *mut drover_client) -> drover_status {
    if client.is_null() {
        return DROVER_OK;
    }
    // SAFETY: the caller keeps what is required.
    match unsafe { drover_client::free(client) } {
        Ok(()) => DROVER_OK,
        Err(status) => status,
    }
}

/// # Safety
/// `options` points to the structure, whose texts end with a zero byte; nobody changes them meanwhile.
unsafe fn read(options: *const drover_options) -> Result<Options, drover_status> {
    // SAFETY: the caller keeps that it is not null; the first field is there in every version of the structure.
    let size = unsafe { options.cast::<usize>().read() };
    if size != size_of::<drover_options>() {
        return Err(
            DROVER_INVALID.because("options: call drover_options_init, of the header of this library")
        );
    }
    // SAFETY: the size is that of this version, and the caller keeps that it is true.
    let given = unsafe { foreign::given("options", options) }?;
    let ms = |ms: u32, default| if ms == 0 { default } else { Ns::from_ms(ms.into()) };
    let default = Options::default();
    // SAFETY: the caller keeps that the texts are texts.
    let credentials = unsafe { foreign::text("credentials", given.credentials) }?;
    let parse = |text: &str| Credentials::parse(text.as_bytes()).map(Arc::new);
    Ok(Options {
        connect_timeout: ms(given.connect_timeout_ms, default.connect_timeout),
        call_timeout: ms(given.call_timeout_ms, default.call_timeout),
        window: match given.window {
            0 => default.window,
            window => window as usize,
        },
        credentials: (credentials.map(parse).transpose())
            .map_err(|error| DROVER_INVALID.because(format_args!("credentials: {error}")))?,
        // SAFETY: as above.
        tls: unsafe { tls(given) }?,
        ..default
    })
}

/// # Safety
/// The texts of `given` end with a zero byte.
unsafe fn tls(given: &drover_options) -> Result<Option<Arc<TlsConnector>>, drover_status> {
    // SAFETY: the caller keeps what is required of each.
    let path = |what, start| unsafe { foreign::path(what, start) };
    let certificate = match (path("tls_cert", given.tls_cert)?, path("tls_key", given.tls_key)?) {
        (Some(chain), Some(key)) => Some((chain, key)),
        (None, None) => None,
        _ => return Err(DROVER_INVALID.because("tls_cert and tls_key: give both, or none")),
    };
    // SAFETY: as above.
    let name = unsafe { foreign::text("tls_name", given.tls_name) }?.map(str::to_owned);
    let Some(ca) = path("tls_ca", given.tls_ca)? else {
        return match (&certificate, &name) {
            (None, None) => Ok(None),
            _ => Err(DROVER_INVALID.because("tls_ca: the other options of TLS need it")),
        };
    };
    let options = TlsClientOptions {
        ca,
        name,
        certificate,
    };
    match TlsConnector::new(options) {
        Ok(connector) => Ok(Some(Arc::new(connector))),
        Err(error) => Err(DROVER_INVALID.because(error)),
    }
}
