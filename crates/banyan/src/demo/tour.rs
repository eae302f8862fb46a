//! placeholder
pub const TOUR: &str = "tour";
pub const CROWD: &str = "crowd";
pub fn rank(_tour: &str) -> Result<(), String> {
    Err("no tour yet".into())
}
