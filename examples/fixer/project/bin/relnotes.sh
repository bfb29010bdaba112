# relnotes.sh VERSION FILE: prints the releases of FILE that are newer than VERSION, each with its anchor.
. ./lib/semver.sh
. ./lib/slug.sh

while read -r mark version title; do
    [ "$mark" = "##" ] || continue
    if [ "$(semver_compare "$version" "$1")" = gt ]; then
        printf '%s %s #%s\n' "$version" "$title" "$(slug "$title")"
    fi
done < "$2"
