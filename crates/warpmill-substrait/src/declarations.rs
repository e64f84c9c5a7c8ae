//! The extensions that a plan declares.

use std::collections::HashMap;

use datafusion_substrait::substrait::proto::Plan;
use datafusion_substrait::substrait::proto::extensions::simple_extension_declaration::MappingType;

use crate::error::{FunctionName, Result, invalid};

/// The extension of this project: every function of the session by its SQL name.
pub const WARPMILL_URN: &str = "extension:io.warpmill:functions";

/// A function as a plan names it.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    /// Name including the signature.
    name: String,
    urn: Option<String>,
}

impl Declared {
    /// The name without the signature.
    pub(crate) fn base(&self) -> &str {
        self.name.split(':').next().unwrap_or_default()
    }

    /// `functions_arithmetic` of a standard extension; `None` for others.
    pub(crate) fn standard_extension(&self) -> Option<&str> {
        self.urn.as_deref().and_then(standard_extension)
    }

    pub(crate) fn named(&self, kind: &'static str, anchor: u32) -> Box<FunctionName> {
        Box::new(FunctionName { kind, name: self.name.clone(), anchor, urn: self.urn.clone() })
    }
}

/// The file name of a standard extension, from its URN or from the URI of earlier versions.
fn standard_extension(urn: &str) -> Option<&str> {
    let standard =
        urn.starts_with("extension:io.substrait:") || urn.contains("substrait-io/substrait") || urn.starts_with('/');
    let name = urn.rsplit(['/', ':']).next()?;
    let name = name.strip_suffix(".yaml").unwrap_or(name);
    (standard && name.starts_with("functions_")).then_some(name)
}

/// Functions and types by anchor.
#[derive(Debug, Default)]
pub(crate) struct Declarations {
    functions: HashMap<u32, Declared>,
    types: HashMap<u32, String>,
}

impl Declarations {
    pub(crate) fn of(plan: &Plan) -> Result<Self> {
        let urns: HashMap<u32, &String> =
            plan.extension_urns.iter().map(|urn| (urn.extension_urn_anchor, &urn.urn)).collect();
        let mut found = Self::default();
        for extension in &plan.extensions {
            match &extension.mapping_type {
                Some(MappingType::ExtensionFunction(function)) => {
                    let urn = urns.get(&function.extension_urn_reference).map(|urn| (*urn).clone());
                    let declared = Declared { name: function.name.clone(), urn };
                    if found.functions.insert(function.function_anchor, declared).is_some() {
                        return invalid(format!("function anchor {} is declared twice", function.function_anchor));
                    }
                }
                Some(MappingType::ExtensionType(ty)) => {
                    found.types.insert(ty.type_anchor, ty.name.clone());
                }
                // Variations are referenced by types, which refuse unknown ones.
                Some(MappingType::ExtensionTypeVariation(_)) | None => {}
            }
        }
        Ok(found)
    }

    pub(crate) fn function(&self, anchor: u32) -> Result<&Declared> {
        match self.functions.get(&anchor) {
            Some(function) => Ok(function),
            None => invalid(format!("function anchor {anchor} is not declared")),
        }
    }

    pub(crate) fn type_name(&self, anchor: u32) -> Option<&str> {
        self.types.get(&anchor).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::standard_extension;

    #[test]
    fn extensions_are_known_by_urn_and_uri() {
        let cases = [
            ("extension:io.substrait:functions_boolean", Some("functions_boolean")),
            ("/functions_boolean.yaml", Some("functions_boolean")),
            (
                "https://github.com/substrait-io/substrait/blob/main/extensions/functions_set.yaml",
                Some("functions_set"),
            ),
            ("extension:com.example:functions_boolean", None),
            (super::WARPMILL_URN, None),
            ("", None),
        ];
        for (urn, expected) in cases {
            assert_eq!(standard_extension(urn), expected, "{urn}");
        }
    }
}
