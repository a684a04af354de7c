//! The macro [`flags!`]: a flag of `drover serve` is one entry.

/// Defines the flags of a topic. A flag is one entry: an argument of the command line, a key of the configuration file,
/// a setting, and a row of `drover config`.
///
/// ```text
/// flags! {
///     /// Arguments about cakes.
///     #[command(next_help_heading = "Cakes")]
///     struct CakeArgs;
///     /// Cakes.
///     struct CakeSettings(guest_count: usize);
///
///     /// Number of cakes [default: one for each guest]
///     #[arg(long = "cakes", short = 'c', value_name = "COUNT")]
///     count: usize = value(guest_count)
///         .check(|count| *count < 100, |count| format!("--cakes {count}: too many"));
///
///     /// Weight of a cake; grams, or with k [default: 2k]
///     #[arg(long = "weight", value_name = "SIZE")]
///     grams: String as u32 = parsed("2k".to_string(), grams_of).show(|grams| format!("{grams} grams"));
///
///     /// Add cream
///     #[switch(long = "cream")]
///     has_cream: bool = value(false);
/// }
/// ```
///
/// An entry is read as follows:
/// - The doc comment is the help text, and the doc of the setting.
/// - `#[arg(..)]` goes to clap as it is. `long` comes first; it is also the name of the row of `drover config`.
///   `#[switch(..)]` is an `#[arg(..)]` that may stand alone, which means `true`, or have a value: `--cream=false`.
/// - `grams: String as u32`: clap parses the word to a `String`, and the setting is a `u32`. `as` is left out if both
///   types are the same.
/// - After `=` comes a [`Flag`](super::flag::Flag): default, parser, range, text of the row, and the feature that it
///   needs. The expression may use the parameters in the parentheses after `CakeSettings`, and functions of the module.
///
/// The result is
/// - `CakeArgs { count: Option<usize>, .. }`: optional arguments, which clap fills in;
/// - `CakeSettings { count: Setting<usize>, .. }`: the settings, with their origins;
/// - `CakeSettings::fill(typed, file, &mut rows, guest_count)`: takes each from the command line, else from the file, else its default.
macro_rules! flags {
    (
        $(#[$args_doc:meta])* struct $Args:ident;
        $(#[$settings_doc:meta])* struct $Settings:ident($($given:ident: $Given:ty),*);
        $(
            $(#[doc = $help:tt])*
            $(#[arg(long = $long:tt $($arg:tt)*)])?
            $(#[switch(long = $switch:tt $($switch_arg:tt)*)])?
            $field:ident: $Typed:ty $(as $Value:ty)? = $flag:expr;
        )*
    ) => {
        #[derive(clap::Args, Clone, Default, Debug)]
        $(#[$args_doc])*
        pub struct $Args {
            $(
                $(#[doc = $help])*
                $(#[arg(long = $long $($arg)*)])?
                $(#[arg(long = $switch $($switch_arg)*, value_name = "BOOL")]
                #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")])?
                pub $field: Option<$Typed>,
            )*
        }

        $(#[$settings_doc])*
        #[derive(Clone, Debug)]
        pub struct $Settings {
            $(
                $(#[doc = $help])*
                pub $field: $crate::serve::settings::Setting<flags!(@value $Typed $(, $Value)?)>,
            )*
        }

        impl $Settings {
            /// Takes each setting from the command line (`typed`), else from `file`, else its default, and appends its
            /// rows of `drover config` to `rows`.
            ///
            /// # Errors
            /// The first value that is malformed or out of range.
            pub fn fill(
                typed: $Args,
                file: $Args,
                rows: &mut Vec<$crate::serve::settings::Row>,
                $($given: $Given,)*
            ) -> Result<$Settings, $crate::exit::Failure> {
                Ok($Settings {
                    $($field: $flag.merge(concat!($($long)? $($switch)?), typed.$field, file.$field, rows)?,)*
                })
            }
        }
    };
    (@value $Typed:ty) => { $Typed };
    (@value $Typed:ty, $Value:ty) => { $Value };
}

pub(in crate::serve) use flags;
