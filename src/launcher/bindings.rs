//! The names of one kernel's arguments, seen together: unique, and none that clippy's naming
//! lints (`similar_names`, `many_single_char_names`, `struct_field_names`) would object to.
//!
//! Fields keep the MLIR's names as far as they can, because callers write them. In a list nobody
//! but rustdoc sees the names, so confusable ones give way to `arg0`, `arg1` and so on there.

use super::Error;
use super::api::{Api, Form, Parameter};
use super::layout::{MEMBER_INDENT, PARAMETER_INDENT, WIDTH};
use super::names::{self, Identifier};

/// The parameter that every kernel with a grid has besides its arguments.
const GRID: &str = "grid";
/// The snake case name of the struct that arguments are fields of.
const STRUCT: &str = "arguments";
/// The most that clippy's `many_single_char_names` accepts.
const MOST_SINGLE_CHARACTERS: usize = 4;
/// Characters that clippy takes for one another.
const LOOK_ALIKES: &[&str] = &["li1", "uv"];

/// Names the parameters of `api`.
pub(super) fn settle(api: &mut Api<'_>) -> Result<(), Error> {
    let mut plain: Vec<String> = Vec::with_capacity(api.parameters.len());
    for (index, parameter) in api.parameters.iter().enumerate() {
        let length = match api.form {
            Form::List => names::ARGUMENT_LENGTH,
            Form::Struct => field_length(parameter),
        };
        let name = names::argument(&parameter.source.name, index, length);
        if let Some(first) = plain.iter().position(|earlier| *earlier == name) {
            let original = |index: usize| {
                let parameter = api.parameters.get(index);
                parameter.map_or_else(String::new, |found| found.source.name.to_string())
            };
            return Err(Error::ArgumentCollision {
                kernel: api.signature.name.to_string(),
                first: original(first),
                second: original(index),
                identifier: Identifier::new(name).to_string(),
            });
        }
        plain.push(name);
    }
    if api.form == Form::Struct {
        let has_shapes = api.parameters.iter().any(|one| one.shape.is_some());
        plain = as_fields(&plain, has_shapes);
    }
    // No other name ends in an underscore.
    for name in plain.iter_mut().filter(|name| *name == GRID) {
        if api.signature.grid {
            name.push('_');
        }
    }
    assign(api, &plain);
    if api.form == Form::List {
        avoid_confusable_names(api);
    }
    Ok(())
}

/// How long a field's name may be for the line of its declaration to fit.
fn field_length(parameter: &Parameter<'_>) -> usize {
    let rest = MEMBER_INDENT + parameter.field().len() + ",".len() + "arg".len();
    names::ARGUMENT_LENGTH.min(WIDTH.saturating_sub(rest))
}

/// Gives the parameters these names, and their shapes what follows from them.
fn assign(api: &mut Api<'_>, plain: &[String]) {
    for (parameter, name) in api.parameters.iter_mut().zip(plain) {
        if let Some((shape, _)) = &mut parameter.shape {
            let mut wanted = format!("{name}_shape");
            while plain.contains(&wanted) {
                wanted.push('_');
            }
            *shape = Identifier::new(wanted);
        }
        parameter.name = Identifier::new(name.clone());
    }
}

/// The names as fields: without a word that all of them begin or end with, and none that begins
/// or ends with the struct's own name.
fn as_fields(plain: &[String], has_shapes: bool) -> Vec<String> {
    let mut words: Vec<Vec<&str>> = plain.iter().map(|name| name.split('_').collect()).collect();
    while is_shared(&words, |words| words.first().copied()) {
        for words in &mut words {
            words.remove(0);
        }
    }
    while !has_shapes && is_shared(&words, |words| words.last().copied()) {
        for words in &mut words {
            words.pop();
        }
    }
    for words in &mut words {
        for word in words {
            if *word == STRUCT {
                *word = "args";
            }
        }
    }
    let fields: Vec<String> = words
        .iter()
        .enumerate()
        .map(|(index, words)| names::argument(&words.join("_"), index, names::ARGUMENT_LENGTH))
        .collect();
    let unique = |index, name| !fields.iter().skip(index).any(|other| other == name);
    if (1..).zip(&fields).all(|(index, name)| unique(index, name)) {
        fields
    } else {
        numbered(plain.len())
    }
}

/// Whether all names have the word at `end` in common, and others besides.
fn is_shared<'a>(words: &[Vec<&'a str>], end: fn(&Vec<&'a str>) -> Option<&'a str>) -> bool {
    let mut ends = words.iter().map(end);
    let first = ends.next();
    words.iter().all(|words| words.len() > 1) && ends.all(|other| Some(other) == first)
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("arg{index}")).collect()
}

/// Renames what clippy would call too short or too similar, and what makes a line too long.
fn avoid_confusable_names(api: &mut Api<'_>) {
    let grid = api.signature.grid.then_some(GRID);
    let all = |api: &Api<'_>| -> Vec<String> {
        let bound = api.parameters.iter().flat_map(Parameter::bound_names);
        grid.into_iter().chain(bound).map(str::to_owned).collect()
    };
    let names = api.parameters.iter().map(|one| one.name.plain().to_owned());
    let mut plain: Vec<String> = names.collect();
    if all(api).iter().filter(|name| name.len() == 1).count() > MOST_SINGLE_CHARACTERS {
        for name in plain.iter_mut().filter(|name| name.len() == 1) {
            name.push_str("_arg");
        }
        assign(api, &plain);
    }
    let mut earlier: Vec<String> = grid.map(str::to_owned).into_iter().collect();
    for (index, (parameter, name)) in api.parameters.iter().zip(&mut plain).enumerate() {
        let too_long = PARAMETER_INDENT + parameter.declaration().len() + 1 > WIDTH;
        let clashes = |name: &str| earlier.iter().any(|earlier| are_similar(earlier, name));
        if too_long || parameter.bound_names().any(clashes) {
            *name = format!("arg{index}");
        } else {
            earlier.extend(parameter.bound_names().map(str::to_owned));
        }
    }
    assign(api, &plain);
    let names = all(api);
    let is_distinct = |(index, name): (usize, &String)| {
        let mut later = names.iter().skip(index);
        !later.any(|later| later == name || are_similar(name, later))
    };
    if !(1..).zip(&names).all(is_distinct) {
        assign(api, &numbered(plain.len()));
    }
}

/// Whether clippy's `similar_names` may object to the two: one character replaced (digits count
/// as equal) or inserted, neither beside an underscore at either end.
fn are_similar(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() {
        (one.as_bytes(), other.as_bytes())
    } else {
        (other.as_bytes(), one.as_bytes())
    };
    let (Some(&first), Some(&second)) = (short.first(), long.first()) else {
        return false;
    };
    let look_alike = |group: &&str| {
        let group = group.as_bytes();
        group.contains(&first) && group.contains(&second)
    };
    if short.len() < 3 || first != second && !LOOK_ALIKES.iter().any(look_alike) {
        return false;
    }
    let differs = |(a, b): &(&u8, &u8)| a != b && !(a.is_ascii_digit() && b.is_ascii_digit());
    match long.len() - short.len() {
        0 => {
            let pairs = || short.iter().zip(long).enumerate();
            let mut differences = pairs().filter(|(_, pair)| differs(pair));
            let (Some((index, _)), None) = (differences.next(), differences.next()) else {
                return false;
            };
            let neighbour = if index == 0 { 1 } else { index - 1 };
            let at_an_end = index == 0 || index + 1 == short.len();
            !(at_an_end && short.get(neighbour) == Some(&b'_'))
        }
        1 => {
            let same = short.iter().zip(long).take_while(|(a, b)| a == b).count();
            same < short.len() && short.get(same..) == long.get(same + 1..)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_is_what_clippy_calls_similar() {
        // From clippy's own documentation and its tests of `similar_names`.
        for (one, other, similar) in [
            ("checked_exp", "checked_eap", true),
            ("orange", "ornange", true),
            ("stride_am", "stride_ak", true),
            ("grid", "grin", true),
            ("arg1", "arg2", false),
            ("arg1", "arg10", false),
            ("foo_x", "foo_y", false),
            ("a_ptr", "b_ptr", false),
            ("tuple", "ntuple", false),
            ("item", "items", false),
            ("ab", "ac", false),
        ] {
            assert_eq!(are_similar(one, other), similar, "{one} {other}");
            assert_eq!(are_similar(other, one), similar, "{other} {one}");
        }
    }

    #[test]
    fn fields_lose_the_words_that_all_of_them_share() {
        let fields = |names: [&str; 3]| as_fields(&names.map(str::to_owned), false);
        assert_eq!(fields(["x_ptr", "y_ptr", "n"]), ["x_ptr", "y_ptr", "n"]);
        assert_eq!(fields(["x_ptr", "y_ptr", "z_ptr"]), ["x", "y", "z"]);
        assert_eq!(fields(["in_a", "in_b", "in_0"]), ["a", "b", "arg0"]);
        assert_eq!(
            fields(["arguments", "b", "c_arguments"]),
            ["args", "b", "c_args"]
        );
        assert_eq!(
            fields(["in_arg0", "in_b", "in_0"]),
            ["arg0", "arg1", "arg2"]
        );
    }
}
