. ./lib/slug.sh

check "words are joined" First-release "$(slug "First release")"
check "runs become one dash" a-b "$(slug "a -- b")"
check "no dash at the ends" x "$(slug " x! ")"
