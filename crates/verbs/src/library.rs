//! `libibverbs.so.1`, found at run time.
use crate::ffi::*;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::{fmt, io};

/// What is loaded where nobody says otherwise.
const NAME: &CStr = c"libibverbs.so.1";
/// A library to load instead (tests have one that fails as it is told to).
const NAMED_BY: &str = "BANYAN_TEST_LIBIBVERBS";

/// Why there is no RDMA here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// There is no library, or not one that this crate knows.
    #[error("no RDMA library: {0}")]
    Library(String),
    /// It is there, but finds no device.
    #[error("no RDMA device: {0}")]
    Device(String),
}

/// A call of the library failed.
#[derive(Debug)]
pub struct VerbsError {
    /// Which one.
    pub call: &'static str,
    /// What the system says.
    pub error: io::Error,
}

impl fmt::Display for VerbsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, self.error)
    }
}

impl std::error::Error for VerbsError {}

impl VerbsError {
    /// The last call said no, and why is in `errno`.
    pub(crate) fn last(call: &'static str) -> Self {
        VerbsError { call, error: io::Error::last_os_error() }
    }

    /// A call gave this number: 0 if it succeeded, else an `errno` (or -1, and it is in `errno`).
    pub(crate) fn check(call: &'static str, code: c_int) -> Result<(), Self> {
        match code {
            0 => Ok(()),
            -1 => Err(Self::last(call)),
            code => Err(VerbsError { call, error: io::Error::from_raw_os_error(code.abs()) }),
        }
    }

    pub(crate) fn unsupported(call: &'static str) -> Self {
        VerbsError { call, error: io::Error::from_raw_os_error(libc::EOPNOTSUPP) }
    }
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        pub struct Library {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Not in every version.
            pub query_gid_ex: Option<QueryGidEx>,
            /// Not in every version.
            pub is_fork_initialized: Option<unsafe extern "C" fn() -> Enum>,
        }

        impl Library {
            fn find(handle: &Handle) -> Result<Library, String> {
                Ok(Library {
                    $($name: {
                        let symbol = handle.symbol(stringify!($name))?;
                        // SAFETY: the function of this name has had this type as long as the library's version is 1.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(symbol) }
                    },)*
                    query_gid_ex: handle.symbol("_ibv_query_gid_ex").ok().map(|symbol| {
                        // SAFETY: as above.
                        unsafe { std::mem::transmute::<*mut c_void, QueryGidEx>(symbol) }
                    }),
                    is_fork_initialized: handle.symbol("ibv_is_fork_initialized").ok().map(|symbol| {
                        // SAFETY: as above.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> Enum>(symbol) }
                    }),
                })
            }
        }
    };
}

functions! {
    ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
    ibv_free_device_list: fn(*mut *mut ibv_device);
    ibv_open_device: fn(*mut ibv_device) -> *mut ibv_context;
    ibv_close_device: fn(*mut ibv_context) -> c_int;
    ibv_query_device: fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
    ibv_query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
    ibv_query_gid: fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;
    ibv_get_async_event: fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
    ibv_ack_async_event: fn(*mut ibv_async_event);
    ibv_alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
    ibv_dealloc_pd: fn(*mut ibv_pd) -> c_int;
    ibv_reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    ibv_dereg_mr: fn(*mut ibv_mr) -> c_int;
    ibv_create_comp_channel: fn(*mut ibv_context) -> *mut ibv_comp_channel;
    ibv_destroy_comp_channel: fn(*mut ibv_comp_channel) -> c_int;
    ibv_create_cq: fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
    ibv_destroy_cq: fn(*mut ibv_cq) -> c_int;
    ibv_get_cq_event: fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
    ibv_ack_cq_events: fn(*mut ibv_cq, c_uint);
    ibv_create_srq: fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
    ibv_modify_srq: fn(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int;
    ibv_destroy_srq: fn(*mut ibv_srq) -> c_int;
    ibv_create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    ibv_query_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int;
    ibv_destroy_qp: fn(*mut ibv_qp) -> c_int;
    ibv_create_ah: fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
    ibv_destroy_ah: fn(*mut ibv_ah) -> c_int;
    ibv_wc_status_str: fn(Enum) -> *const c_char;
    ibv_event_type_str: fn(Enum) -> *const c_char;
}

/// An open library, which is never closed: its devices may outlive whoever opened it.
struct Handle(*mut c_void);

impl Handle {
    fn open(name: &CStr) -> Result<Handle, String> {
        // SAFETY: a name; what the library does when it is loaded is what every program with RDMA has.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() { Err(loader_says()) } else { Ok(Handle(handle)) }
    }

    fn symbol(&self, name: &str) -> Result<*mut c_void, String> {
        let c_name = std::ffi::CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: an open library and a name.
        let symbol = unsafe { libc::dlsym(self.0, c_name.as_ptr()) };
        if symbol.is_null() { Err(format!("{name} is not in it")) } else { Ok(symbol) }
    }
}

/// Why the loader refused.
fn loader_says() -> String {
    // SAFETY: gives a string of the loader's, or null.
    let words = unsafe { libc::dlerror() };
    if words.is_null() {
        return "it cannot be loaded".into();
    }
    // SAFETY: not null; it ends with a zero and stays until this thread asks again.
    unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
}

/// The library, loaded once.
pub(crate) fn library() -> Result<&'static Library, Missing> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    let load = || {
        let named = std::env::var_os(NAMED_BY).map(|name| {
            std::ffi::CString::new(std::os::unix::ffi::OsStringExt::into_vec(name))
                .map_err(|error| error.to_string())
        });
        let name = named.transpose()?;
        Library::find(&Handle::open(name.as_deref().unwrap_or(NAME))?)
    };
    LIBRARY.get_or_init(load).as_ref().map_err(|why| Missing::Library(why.clone()))
}

/// A string of the library's.
pub(crate) fn words(text: *const c_char) -> String {
    if text.is_null() {
        return "unknown".into();
    }
    // SAFETY: not null; strings of the library end with a zero and stay.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
