//! Profiles: all parameters of the model for one kind of machine, as numbers with sources and bounds.
//!
//! A profile is a TOML file in `crates/fabrics/verbs-sim/profiles/`. Every parameter has a value, a unit, a source, the
//! kind of its source ([`Tag`]) and the bounds within which a fit may move it. Unknown and missing keys are errors.
//! Times are nanoseconds as `f64`; the simulator converts them to its own units once, when a world is created.
//!
//! A file may name a `base`, which supplies the missing parameters. The [`hash`](Profile::hash) covers the completed
//! parameters, so a printed hash identifies the numbers used, whichever file they come from.

mod curve;
mod field;
mod file;
mod schema;
#[cfg(test)]
mod tests;

pub use curve::Curve;
pub use field::{Key, Shape, Value};
pub use schema::*;

use std::collections::BTreeMap;

/// Where a parameter's value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tag {
    /// Stated by a source in words or in a table.
    Stated,
    /// Read from a published plot.
    Plot,
    /// From the data files of a published artifact.
    Artifact,
    /// Fitted to calibration rows, or derived from fitted values.
    Fitted,
    /// Our guess, with bounds.
    Estimate,
    /// From memory of the literature, not looked up by us.
    Recalled,
    /// Chosen by an author who had seen a published result that was reserved for checking predictions: results that
    /// depend on the value are not predictions.
    Leak,
}

const TAGS: [(Tag, &str); 7] = [
    (Tag::Stated, "stated"),
    (Tag::Plot, "plot"),
    (Tag::Artifact, "artifact"),
    (Tag::Fitted, "fitted"),
    (Tag::Estimate, "estimate"),
    (Tag::Recalled, "recalled"),
    (Tag::Leak, "leak"),
];

impl Tag {
    fn from_word(word: &str) -> Option<Tag> {
        TAGS.iter().find(|(_, w)| *w == word).map(|(tag, _)| *tag)
    }

    /// The word for this tag in profile files: `stated`, `plot` and so on.
    pub fn word(self) -> &'static str {
        let (_, word) = TAGS
            .iter()
            .find(|(tag, _)| *tag == self)
            .expect("every tag has a word");
        word
    }
}

/// Value, bounds and source of one parameter of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Value of the parameter.
    pub value: Value,
    /// Lowest permitted value, inclusive; for a curve, of the cost at every point.
    pub low: f64,
    /// Highest permitted value, inclusive; for a curve, of the cost at every point.
    pub high: f64,
    /// Where the value comes from.
    pub tag: Tag,
    /// The source in words, for example `HERD Fig 4: READ`.
    pub source: String,
}

/// Reason why a profile could not be loaded or changed.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is not TOML.
    #[error("profile is not TOML: {reason}")]
    Syntax {
        /// Message of the parser.
        reason: String,
    },
    /// The file has a key that the simulator does not know; or [`Profile::set`] got a parameter or index that does not
    /// exist.
    #[error("unknown key `{path}`")]
    Unknown {
        /// The key with the groups around it, mostly `group.parameter`.
        path: String,
    },
    /// A parameter is neither in the file nor in its base, or the file has no `name` or `about`.
    #[error("missing key `{path}`")]
    Missing {
        /// `group.parameter`, `name` or `about`.
        path: String,
    },
    /// A key has a value of the wrong form, kind or unit, or outside its bounds; it lacks its unit, bounds, tag or
    /// source; or a file names itself as its base.
    #[error("`{path}` {reason}")]
    Malformed {
        /// `group.parameter`, `name`, `about` or `base`.
        path: String,
        /// What is wrong: the rest of a sentence that begins with the key.
        reason: &'static str,
    },
    /// No built-in profile has the name.
    #[error("no profile `{name}`; there are {}", Profile::names().join(", "))]
    NoSuch {
        /// Requested name.
        name: String,
    },
}

impl ProfileError {
    fn missing(path: &str) -> ProfileError {
        ProfileError::Missing {
            path: path.to_string(),
        }
    }
}

/// A profile with all parameters, its own and those of its base. [`parameters`](Profile::parameters) has the values,
/// [`entry`](Profile::entry) also their sources and bounds.
#[derive(Clone, Debug)]
pub struct Profile {
    name: String,
    about: String,
    base: Option<String>,
    own: BTreeMap<&'static str, Entry>,
    inherited: BTreeMap<&'static str, Entry>,
    parameters: Parameters,
}

/// The profiles built into the program.
const FILES: &[(&str, &str)] = &[
    ("apt", include_str!("../../profiles/apt.toml")),
    ("susitna_ib", include_str!("../../profiles/susitna_ib.toml")),
    ("susitna_roce", include_str!("../../profiles/susitna_roce.toml")),
    ("rfp", include_str!("../../profiles/rfp.toml")),
    ("cx6", include_str!("../../profiles/cx6.toml")),
    ("cib", include_str!("../../profiles/cib.toml")),
    ("prism", include_str!("../../profiles/prism.toml")),
];

impl Profile {
    /// Names of the built-in profiles.
    pub fn names() -> Vec<&'static str> {
        FILES.iter().map(|(name, _)| *name).collect()
    }

    /// The built-in profile `name`. Parsing takes about a millisecond: keep the result.
    ///
    /// # Errors
    /// [`ProfileError::NoSuch`] if no built-in profile has that name.
    pub fn named(name: &str) -> Result<Profile, ProfileError> {
        let text = FILES.iter().find(|(n, _)| *n == name);
        let (_, text) = text.ok_or_else(|| ProfileError::NoSuch {
            name: name.to_string(),
        })?;
        Profile::parse(text)
    }

    /// Parses the text of a profile file. Its base, if it names one, must be another built-in profile.
    ///
    /// # Errors
    /// [`ProfileError`] for the first fault in the text, or [`ProfileError::NoSuch`] if there is no such base.
    pub fn parse(text: &str) -> Result<Profile, ProfileError> {
        let file = file::read(text)?;
        let base = match &file.base {
            Some(base) if *base == file.name => {
                return Err(ProfileError::Malformed {
                    path: "base".to_string(),
                    reason: "is the profile itself",
                });
            }
            Some(base) => Some(Profile::named(base)?),
            None => None,
        };
        Profile::complete(file, base.as_ref())
    }

    /// Takes the parameters missing in the file from `base`.
    fn complete(file: file::File, base: Option<&Profile>) -> Result<Profile, ProfileError> {
        let mut profile = Profile {
            name: file.name,
            about: file.about,
            base: file.base,
            inherited: BTreeMap::new(),
            own: file.entries,
            parameters: Parameters::default(),
        };
        for key in KEYS {
            if !profile.own.contains_key(key.path) {
                let entry = base.and_then(|base| base.entry(key.path));
                let entry = entry.ok_or_else(|| ProfileError::missing(key.path))?;
                profile.inherited.insert(key.path, entry.clone());
            }
            profile.refresh(key.path)?;
        }
        Ok(profile)
    }

    /// Copies the entry of `path` into the typed parameters.
    fn refresh(&mut self, path: &'static str) -> Result<(), ProfileError> {
        let value = &self
            .own
            .get(path)
            .or(self.inherited.get(path))
            .expect("complete")
            .value;
        let field = self.parameters.field(path).expect("in the schema");
        if field.put(value) {
            return Ok(());
        }
        Err(ProfileError::Malformed {
            path: path.to_string(),
            reason: "is of another kind (a whole number, not negative, say)",
        })
    }

    /// Name of the profile, as in its file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One-line description of the machines, as in the file.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The values of all parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Value, bounds and source of the parameter `path` (`group.parameter`), its own or the base's; `None` if there is
    /// no such parameter.
    pub fn entry(&self, path: &str) -> Option<&Entry> {
        self.own.get(path).or_else(|| self.inherited.get(path))
    }

    /// Whether the parameter `path` is the profile's own: from its file or changed by [`set`](Profile::set), not from
    /// its base.
    pub fn is_own(&self, path: &str) -> bool {
        self.own.contains_key(path)
    }

    /// Whether the parameter `path` accepts only whole numbers; false if there is no such parameter.
    pub fn is_count(&self, path: &str) -> bool {
        KEYS.iter()
            .any(|key| key.path == path && key.shape == Shape::Count)
    }

    /// Sets the parameter `path` to `number`, clamped to its bounds; for a curve, the cost at point `index`. `index` is
    /// 0 for a parameter that is no curve. A parameter of the base becomes the profile's own.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`] if there is no such parameter or point. [`ProfileError::Malformed`] if a count gets a
    /// fraction; the profile has changed then, and should be dropped.
    pub fn set(&mut self, path: &str, index: usize, number: f64) -> Result<(), ProfileError> {
        let unknown = || ProfileError::Unknown {
            path: path.to_string(),
        };
        let key = KEYS.iter().find(|key| key.path == path).ok_or_else(unknown)?;
        let mut entry = self.entry(path).ok_or_else(unknown)?.clone();
        if index >= entry.value.numbers().len() {
            return Err(unknown());
        }
        entry.value = entry
            .value
            .with_number(index, number.clamp(entry.low, entry.high));
        self.own.insert(key.path, entry);
        self.refresh(key.path)
    }

    /// Sets tag and source of the parameter `path`, which must be the [profile's own](Profile::is_own): does nothing to
    /// a parameter of the base, or to one that does not exist.
    pub fn set_source(&mut self, path: &str, tag: Tag, source: &str) {
        if let Some(entry) = self.own.get_mut(path) {
            entry.tag = tag;
            entry.source = source.to_string();
        }
    }

    /// Sixteen hexadecimal digits that identify the values of all parameters, rounded to four decimals (FNV-1a over
    /// paths and values). Names, bounds and sources do not count.
    pub fn hash(&self) -> String {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut eat = |text: &str| {
            for byte in text.bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for key in KEYS {
            eat(key.path);
            let value = &self.entry(key.path).expect("complete").value;
            if let Value::Curve(curve) = value {
                curve.points().iter().for_each(|(x, _)| eat(&file::short(*x)));
            }
            value.numbers().iter().for_each(|y| {
                eat("=");
                eat(&file::short(*y));
            });
        }
        format!("{hash:016x}")
    }

    /// The text of a profile file, for [`parse`](Profile::parse). It has the profile's own parameters, rounded to four
    /// decimals, and names the base for the others.
    pub fn to_toml(&self) -> String {
        file::write(&self.name, &self.about, self.base.as_deref(), &self.own)
    }
}
