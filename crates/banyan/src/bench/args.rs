//! Values on the command lines of benchmarks.

/// A number from 1 to `max`.
pub fn number(option: &str, text: &str, max: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(format!("{option} takes a number from 1 to {max}, not '{text}'")),
    }
}

/// The members of `all` that a comma-separated list names, in the order of `all`.
pub fn list<T: Copy>(text: &str, all: &[T], key: impl Fn(T) -> &'static str) -> Result<Vec<T>, String> {
    let wanted: Vec<&str> = text.split(',').collect();
    if let Some(unknown) = wanted.iter().find(|name| !all.iter().any(|&one| key(one) == **name)) {
        let known = all.iter().map(|&one| key(one)).collect::<Vec<_>>().join(", ");
        return Err(format!("'{unknown}' is not one of {known}"));
    }
    Ok(all.iter().copied().filter(|&one| wanted.contains(&key(one))).collect())
}

/// Numbers from 1 to `max`, separated by commas.
pub fn numbers(option: &str, text: &str, max: usize) -> Result<Vec<usize>, String> {
    text.split(',').map(|one| number(option, one, max)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_what_is_wrong_in_them() {
        assert_eq!(numbers("--ranks", "1,16", 64), Ok(vec![1, 16]));
        for text in ["", "1,", "0", "65", "a"] {
            assert!(numbers("--ranks", text, 64).unwrap_err().contains("--ranks"), "{text}");
        }
    }
}
