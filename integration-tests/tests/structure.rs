//! Tests how the modules of each crate depend on each other, and that types keep their state private: see docs/src/design/habits.md.
//!
//! A module depends on another module if it names one of its items. A module and its ancestors may name each other, since a child is a
//! part of its parent. Apart from that, dependencies form no cycle: a reader can begin with the modules that depend on nothing, and meets
//! only what has been read. Modules of tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// The crates, each with the number of its modules that are in cycles, and of the fields that parts of the crate share (`pub(crate)`,
/// `pub(super)`). The numbers may only fall: a change that lowers one writes the new number here.
const CRATES: [(&str, usize, usize); 20] = [
    ("cli", 0, 17),
    ("common", 0, 0),
    ("common/artifacts", 0, 0),
    ("common/config", 0, 5),
    ("common/identity", 0, 0),
    ("common/runtime", 0, 0),
    ("integration-tests", 0, 10),
    ("integration-tests/emulator", 0, 0),
    ("integration-tests/properties", 0, 0),
    ("integration-tests/sim", 0, 0),
    ("scheduler", 0, 51),
    ("scheduler/artifacts", 0, 0),
    ("scheduler/core", 0, 0),
    ("scheduler/engine", 0, 1),
    ("scheduler/slots", 0, 0),
    ("thrift", 0, 15),
    ("worker", 0, 22),
    ("worker/core", 0, 0),
    ("worker/fetch", 0, 0),
    ("worker/gather", 0, 0),
];

/// The names from the root of a crate to a module. The root has none.
type Module = Vec<String>;

/// The modules that each module depends on.
type Dependencies = BTreeMap<Module, BTreeSet<Module>>;

#[test]
fn modules_form_no_cycles_and_share_no_fields() {
    let mut wrong = Vec::new();
    for (name, cycles_before, fields_before) in CRATES {
        let modules = read_crate(name);
        let dependencies = dependencies(&modules);
        let tangled = in_cycles(&dependencies);
        let fields: usize = modules.values().map(shared_fields).sum();
        if (tangled.len(), fields) != (cycles_before, fields_before) {
            let lines: Vec<String> = tangled
                .iter()
                .map(|(module, others)| describe(module, others))
                .collect();
            wrong.push(format!(
                "{name}: {} modules in cycles ({cycles_before} before), {fields} shared fields ({fields_before} before)\n{}",
                tangled.len(),
                lines.join("\n")
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "each of these numbers may only fall; if it has fallen, write the new one into CRATES:\n{}",
        wrong.join("\n")
    );
}

fn describe(module: &Module, others: &BTreeSet<Module>) -> String {
    let others: Vec<String> = others.iter().map(|other| other.join("::")).collect();
    format!("  {} -> {}", module.join("::"), others.join(", "))
}

/// Reads the modules that the root of a crate declares, and those that these declare.
fn read_crate(name: &str) -> BTreeMap<Module, syn::File> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(name)
        .join("src");
    let mut modules = BTreeMap::new();
    let mut open: Vec<(Module, PathBuf)> = vec![(Vec::new(), source.join("lib.rs"))];
    while let Some((module, path)) = open.pop() {
        let text = fs::read_to_string(&path).expect("a declared module has a file");
        let file = syn::parse_file(&text).expect("a module is valid Rust");
        for item in &file.items {
            if let syn::Item::Mod(declared) = item
                && declared.content.is_none()
                && !is_of_tests(&declared.attrs)
            {
                let mut child = module.clone();
                child.push(declared.ident.to_string());
                let folder = child
                    .iter()
                    .fold(source.clone(), |path, part| path.join(part));
                let (flat, nested) = (folder.with_extension("rs"), folder.join("mod.rs"));
                open.push((child, if flat.exists() { flat } else { nested }));
            }
        }
        modules.insert(module, file);
    }
    modules
}

fn is_of_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Meta>()
                .is_ok_and(|meta| meta.path().is_ident("test"))
    })
}

fn dependencies(modules: &BTreeMap<Module, syn::File>) -> Dependencies {
    let named: BTreeMap<&Module, Named> = modules
        .iter()
        .map(|(module, file)| (module, Named::of(file)))
        .collect();
    // The modules that items come from which a module passes on with `pub use`.
    let mut passed_on = BTreeMap::new();
    for (module, named) in &named {
        for path in &named.passed_on {
            if let Some(origin) = resolve(module, path, modules, &BTreeMap::new()) {
                let item = path.last().expect("a path has a part").clone();
                passed_on.insert(((*module).clone(), item), origin);
            }
        }
    }
    let mut dependencies = Dependencies::new();
    for (module, named) in &named {
        let others = named
            .paths
            .iter()
            .filter_map(|path| resolve(module, path, modules, &passed_on))
            .filter(|other| !module.starts_with(other) && !other.starts_with(module))
            .collect();
        dependencies.insert((*module).clone(), others);
    }
    dependencies
}

/// The module that a path in `module` leads to; none if the path leads out of the crate.
fn resolve(
    module: &Module,
    path: &[String],
    modules: &BTreeMap<Module, syn::File>,
    passed_on: &BTreeMap<(Module, String), Module>,
) -> Option<Module> {
    let mut at = module.clone();
    let mut parts = path.iter().peekable();
    match path.first().map(String::as_str) {
        Some("crate") => {
            at.clear();
            parts.next();
        }
        Some("self" | "super") => {}
        Some(first) => {
            let mut child = module.clone();
            child.push(first.to_owned());
            modules.get(&child)?;
        }
        None => return None,
    }
    for part in parts {
        match part.as_str() {
            "self" => continue,
            "super" => {
                at.pop();
                continue;
            }
            _ => {}
        }
        if let Some(origin) = passed_on.get(&(at.clone(), part.clone())) {
            return Some(origin.clone());
        }
        at.push(part.clone());
        if !modules.contains_key(&at) {
            at.pop();
            break;
        }
    }
    modules.contains_key(&at).then_some(at)
}

/// The modules that depend on themselves through others, each with the modules of its cycle that it depends on.
fn in_cycles(dependencies: &Dependencies) -> BTreeMap<&Module, BTreeSet<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = dependencies
        .keys()
        .map(|module| {
            let mut reached = BTreeSet::new();
            let mut open = vec![module];
            while let Some(next) = open.pop() {
                open.extend(
                    dependencies[next]
                        .iter()
                        .filter(|other| reached.insert(*other)),
                );
            }
            (module, reached)
        })
        .collect();
    dependencies
        .iter()
        .filter(|(module, _)| reached[module].contains(module))
        .map(|(module, others)| {
            let back = |other: &&Module| reached[*other].contains(module);
            (module, others.iter().filter(back).cloned().collect())
        })
        .collect()
}

fn shared_fields(file: &syn::File) -> usize {
    struct Fields(usize);
    impl Visit<'_> for Fields {
        fn visit_item_mod(&mut self, item: &syn::ItemMod) {
            if !is_of_tests(&item.attrs) {
                visit::visit_item_mod(self, item);
            }
        }
        fn visit_field(&mut self, field: &syn::Field) {
            self.0 += usize::from(matches!(field.vis, syn::Visibility::Restricted(_)));
        }
    }
    let mut fields = Fields(0);
    fields.visit_file(file);
    fields.0
}

/// The paths that a file names, apart from its tests.
#[derive(Default)]
struct Named {
    paths: Vec<Vec<String>>,
    /// Those of `pub use`.
    passed_on: Vec<Vec<String>>,
}

impl Named {
    fn of(file: &syn::File) -> Named {
        let mut named = Named::default();
        named.visit_file(file);
        named
    }
}

impl Visit<'_> for Named {
    fn visit_item(&mut self, item: &syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs,
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_of_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let mut paths = Vec::new();
        expand(&item.tree, &mut Vec::new(), &mut paths);
        if !matches!(item.vis, syn::Visibility::Inherited) {
            self.passed_on.extend(paths.iter().cloned());
        }
        self.paths.extend(paths);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            self.paths.push(
                path.segments
                    .iter()
                    .map(|part| part.ident.to_string())
                    .collect(),
            );
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        // Most macros of this project take expressions, separated by commas.
        let parser = syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        if let Ok(arguments) = call.parse_body_with(parser) {
            for argument in &arguments {
                self.visit_expr(argument);
            }
        }
    }
}

fn expand(tree: &syn::UseTree, before: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let mut end = |name: String| {
        let mut path = before.clone();
        path.push(name);
        paths.push(path);
    };
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            expand(&path.tree, before, paths);
            before.pop();
        }
        syn::UseTree::Name(name) => end(name.ident.to_string()),
        syn::UseTree::Rename(name) => end(name.ident.to_string()),
        syn::UseTree::Glob(_) => end("*".to_owned()),
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                expand(tree, before, paths);
            }
        }
    }
}

#[test]
fn cycles_are_found_but_not_between_parent_and_child() {
    let parse = |text: &str| syn::parse_file(text).expect("valid Rust");
    let module = |path: &str| -> Module {
        path.split("::")
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let modules = BTreeMap::from([
        (module(""), parse("mod a; mod b; mod c;")),
        (
            module("a"),
            parse("mod child; use crate::b::{self, Thing}; pub(crate) use child::Made;"),
        ),
        (
            module("a::child"),
            parse("use super::Own; pub struct Made { pub(super) field: u8 }"),
        ),
        (
            module("b"),
            parse("fn f() -> u8 { assert!(crate::a::Made::new().is_good()); 1 }"),
        ),
        (
            module("c"),
            parse("use crate::a::Made; #[cfg(test)] mod tests { use crate::d::D; }"),
        ),
    ]);
    let found = dependencies(&modules);
    assert_eq!(found[&module("b")], BTreeSet::from([module("a::child")]));
    assert_eq!(found[&module("a")], BTreeSet::from([module("b")]));
    assert!(
        in_cycles(&found).is_empty(),
        "b needs the child of a, which needs nothing but a"
    );

    let mut cyclic = modules;
    cyclic.insert(module("a::child"), parse("use crate::c::C;"));
    cyclic.insert(module("c"), parse("use crate::b::Thing;"));
    cyclic.insert(module("b"), parse("use crate::a::child::Made;"));
    let found = dependencies(&cyclic);
    let names: Vec<String> = in_cycles(&found)
        .keys()
        .map(|module| module.join("::"))
        .collect();
    assert_eq!(names, ["a::child", "b", "c"]);
    assert_eq!(cyclic.values().map(shared_fields).sum::<usize>(), 0);
}
