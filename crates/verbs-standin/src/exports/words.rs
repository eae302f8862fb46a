//! What numbers mean, in the words of the real library.
use std::ffi::{CStr, c_char};
use verbs::ffi::Enum;

const STATUSES: [&CStr; 22] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"remote aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
];

const EVENTS: [&CStr; 19] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
];

#[unsafe(no_mangle)]
extern "C" fn ibv_wc_status_str(status: Enum) -> *const c_char {
    STATUSES.get(status as usize).unwrap_or(&c"unknown").as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn ibv_event_type_str(event: Enum) -> *const c_char {
    EVENTS.get(event as usize).unwrap_or(&c"unknown").as_ptr()
}
