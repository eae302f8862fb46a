//! Chance from the kernel, for keys and numbers that nobody may guess.
use std::io;

/// So many random bytes. Waits only on a machine that has just started.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut got = 0;
    while got < N {
        let rest = &mut bytes[got..];
        // SAFETY: `rest` is writable for its length.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match n {
            1.. => got += n as usize,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_draws_differ() {
        assert_ne!(super::bytes::<32>().unwrap(), super::bytes::<32>().unwrap());
        assert_eq!(super::bytes::<0>().unwrap(), []);
    }
}
