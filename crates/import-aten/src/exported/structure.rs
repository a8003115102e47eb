//! Names of outputs, from the structure that a module returns: keys and places, from the outside
//! in, with points between them.

use serde_json::Value as Json;

/// How deep structures may be within each other.
const MOST_NESTED: usize = 64;

/// The names of the leaves of a structure as `torch.utils._pytree` writes it, if it has `count`;
/// fields of named tuples stand in `fields`.
pub(super) fn leaf_names(text: &str, fields: Option<&Json>, count: usize) -> Option<Vec<String>> {
    let json: Json = serde_json::from_str(text).ok()?;
    let root = json.as_array()?.get(1)?;
    let mut names = Vec::new();
    visit(root, "", fields, 0, &mut names)?;
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    (names.len() == count && distinct.len() == count).then_some(names)
}

fn visit(
    node: &Json,
    path: &str,
    fields: Option<&Json>,
    depth: usize,
    names: &mut Vec<String>,
) -> Option<()> {
    let children = node.get("children_spec")?.as_array()?;
    let Some(kind) = node.get("type")?.as_str() else {
        names.push(if path.is_empty() { "result".to_owned() } else { path.to_owned() });
        return Some(());
    };
    if depth == MOST_NESTED {
        return None;
    }
    let keys = keys(node, kind, fields, children.len());
    for (place, child) in children.iter().enumerate() {
        let key = keys.as_ref().map_or_else(|| place.to_string(), |keys| keys[place].clone());
        let path = match (path, &keys) {
            ("", None) => format!("result{key}"),
            ("", Some(_)) => key,
            _ => format!("{path}.{key}"),
        };
        visit(child, &path, fields, depth + 1, names)?;
    }
    Some(())
}

/// The names of the children, where they have names: the context is a list of keys, of a dictionary
/// with a default the second item of one, and of a named tuple the name of its type.
fn keys(node: &Json, kind: &str, fields: Option<&Json>, count: usize) -> Option<Vec<String>> {
    let context = node.get("context")?;
    let parsed = context.as_str().and_then(|text| serde_json::from_str::<Json>(text).ok());
    let context = parsed.as_ref().unwrap_or(context);
    let list = |json: &Json| {
        let items = json.as_array().filter(|items| items.len() == count)?;
        let text = |item: &Json| match item {
            Json::String(text) => Some(text.clone()),
            Json::Number(number) => Some(number.to_string()),
            _ => None,
        };
        items.iter().map(text).collect::<Option<Vec<String>>>()
    };
    if kind.ends_with("namedtuple") {
        let name = context.as_str()?;
        return list(fields?.get(name)?.get("field_names")?);
    }
    list(context).or_else(|| {
        let inner = context.get("dict_context").or_else(|| context.as_array()?.get(1))?;
        list(inner)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: &str = r#"{"type": null, "context": null, "children_spec": []}"#;

    #[test]
    fn names_are_paths() {
        let node = |kind: &str, context: &str, children: &[&str]| {
            let (context, children) = (serde_json::json!(context), children.join(", "));
            let kind = format!(r#"{{"type": "{kind}", "context": {context}"#);
            format!(r#"{kind}, "children_spec": [{children}]}}"#)
        };
        let list = node("builtins.list", "null", &[LEAF, LEAF]);
        let text = format!("[1, {}]", node("builtins.dict", r#"["y", "z"]"#, &[LEAF, &list]));
        assert_eq!(leaf_names(&text, None, 3).unwrap(), ["y", "z.0", "z.1"]);
        assert_eq!(leaf_names(&text, None, 2), None);
        assert_eq!(leaf_names(&format!("[1, {list}]"), None, 2).unwrap(), ["result0", "result1"]);
        assert_eq!(leaf_names(&format!("[1, {LEAF}]"), None, 1).unwrap(), ["result"]);
        let tuple = format!("[1, {}]", node("collections.namedtuple", r#""P""#, &[LEAF]));
        let fields = serde_json::json!({ "P": { "field_names": ["x"] } });
        assert_eq!(leaf_names(&tuple, Some(&fields), 1).unwrap(), ["x"]);
        assert_eq!(leaf_names("[", None, 1), None);
    }
}
