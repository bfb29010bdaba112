//! One part of a deny glob: `*`, `?`, `[set]` and `[!set]` over the characters of one name.

/// A parsed pattern for one name.
#[derive(Debug, Clone)]
pub(super) struct PartGlob {
    tokens: Vec<Token>,
}

#[derive(Debug, Clone)]
enum Token {
    /// `*`: any characters, none included.
    Any,
    /// `?`: one character.
    One,
    Literal(char),
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl PartGlob {
    pub(super) fn parse(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let mut tokens = Vec::with_capacity(characters.len());
        let mut at = 0;
        while let Some(character) = characters.get(at) {
            at += 1;
            let token = match character {
                // A run of stars means what one star means.
                '*' if matches!(tokens.last(), Some(Token::Any)) => continue,
                '*' => Token::Any,
                '?' => Token::One,
                '[' => match parse_set(&characters, at) {
                    Some((set, after)) => {
                        at = after;
                        set
                    }
                    None => Token::Literal('['),
                },
                other => Token::Literal(*other),
            };
            tokens.push(token);
        }
        Self { tokens }
    }

    /// Matches the whole name. Only the last star seen is ever tried again, so the work is bounded by the product of
    /// the two lengths, whatever the pattern is.
    pub(super) fn matches(&self, name: &str) -> bool {
        let mut rest = name.chars();
        let mut place = 0;
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            if let Some(Token::Any) = self.tokens.get(place) {
                place += 1;
                retry = Some((place, rest.clone()));
                continue;
            }
            match (self.tokens.get(place), rest.next()) {
                (None, None) => return true,
                (Some(token), Some(character)) if token.accepts(character) => place += 1,
                _ => {
                    let Some((after_star, from)) = &mut retry else {
                        return false;
                    };
                    if from.next().is_none() {
                        return false;
                    }
                    place = *after_star;
                    rest = from.clone();
                }
            }
        }
    }
}

impl Token {
    fn accepts(&self, character: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Literal(literal) => *literal == character,
            Self::Set { negated, ranges } => {
                ranges
                    .iter()
                    .any(|(low, high)| (*low..=*high).contains(&character))
                    != *negated
            }
        }
    }
}

/// Parses a set whose `[` stands just before a position. A set that is not closed is none.
///
/// A `]` that comes first is a member. A range whose ends are the wrong way round is empty; an empty set matches no
/// character, and its negation any.
fn parse_set(characters: &[char], start: usize) -> Option<(Token, usize)> {
    let negated = characters.get(start) == Some(&'!');
    let first = start + usize::from(negated);
    let search = first + usize::from(characters.get(first) == Some(&']'));
    let end = search
        + characters
            .get(search..)?
            .iter()
            .position(|character| *character == ']')?;
    let mut members = characters.get(first..end)?;
    let mut ranges = Vec::new();
    while let [low, rest @ ..] = members {
        if let ['-', high, after @ ..] = rest {
            if low <= high {
                ranges.push((*low, *high));
            }
            members = after;
        } else {
            ranges.push((*low, *low));
            members = rest;
        }
    }
    Some((Token::Set { negated, ranges }, end + 1))
}

#[cfg(test)]
mod tests {
    use super::PartGlob;

    fn check(pattern: &str, matching: &[&str], other: &[&str]) {
        let glob = PartGlob::parse(pattern);
        for name in matching {
            assert!(glob.matches(name), "{pattern} should match {name:?}");
        }
        for name in other {
            assert!(!glob.matches(name), "{pattern} should not match {name:?}");
        }
    }

    #[test]
    fn stars_and_question_marks() {
        check("*", &["", "a", ".env", "\u{1f9ea}"], &[]);
        check("*.t?t", &[".txt", "a.b.tat"], &["a.tt", "txt"]);
        check("a*b*c", &["abc", "aXbYbZc", "abbc"], &["ab", "acb", "abcd"]);
        check("?.txt", &["\u{e4}.txt", "\u{1f9ea}.txt"], &[".txt", "ab.txt"]);
        check("a\nb", &["a\nb"], &["a b"]);
    }

    #[test]
    fn sets() {
        check("[a-c]", &["a", "b", "c"], &["d", "-", "A"]);
        check("[!a-c]", &["d", "!"], &["b"]);
        check("[^ab]", &["^", "a"], &["c"]);
        check("[]]", &["]"], &["["]);
        check("[!]]", &["a"], &["]"]);
        check("[]-a]", &["]", "^", "_", "a"], &["-", "b"]);
        check("[a-]", &["a", "-"], &["b"]);
        check("[-a]", &["a", "-"], &["b"]);
        check("[a-b-d]", &["a", "b", "-", "d"], &["c"]);
        check("[--/]", &["-", ".", "/"], &["a"]);
        check("[\\d]", &["\\", "d"], &["1"]);
        check("[a&&b~|]", &["a", "&", "~", "|", "b"], &["c"]);
        check("[b-a]", &[], &["a", "b", "-"]);
        check("[!b-a]", &["a", "-"], &["", "ab"]);
        check("[", &["["], &["", "[]"]);
        check("[!]", &["[!]"], &["a", "!"]);
        check("[]", &["[]"], &["]"]);
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        let glob = PartGlob::parse(&"a*".repeat(1_000));
        assert!(!glob.matches(&format!("{}b", "a".repeat(254)).replace("ab", "ba")));
    }
}
